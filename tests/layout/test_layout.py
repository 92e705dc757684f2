from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var
from tilelang.layout import Layout, make_linear_layout


def test_a_layout_applies_to_ints_arrays_and_expressions() -> None:
    layout = Layout((8, 8), lambda i, j: (i, j ^ i))
    assert (3, 6) == layout(3, 5)
    assert [5, 4] == layout(np.array([0, 1]), np.array([5, 5]))[1].tolist()
    i, j = (Var(name, INT32, index=True) for name in "ij")
    assert 6 == evaluate(layout(i, j)[1], {i: 3, j: 5})


def test_the_table_holds_every_place() -> None:
    layout = Layout((2, 3), lambda i, j: i * 3 + j)
    assert [[[0], [1], [2]], [[3], [4], [5]]] == layout.table.tolist()
    assert (6,) == layout.output_shape
    assert "Layout((2, 3) -> (6,))" == repr(layout)


def test_index_functions_may_decide_in_python() -> None:
    layout = Layout(4, lambda i: i if i < 2 else 5 - i)
    assert [0, 1, 3, 2] == layout.table[:, 0].tolist()
    assert layout == Layout(4, lambda i: T.bitwise_xor(i, T.floordiv(i, 2)))


def test_layouts_are_compared_by_their_tables() -> None:
    one, other = Layout((4,), lambda i: i), Layout((4,), lambda i: i + 0)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Layout((4,), lambda i: 3 - i)
    assert one != 3


def test_empty_shapes_are_legal() -> None:
    assert (0,) == Layout((0,), lambda i: i).output_shape
    assert (0, 4, 1) == Layout((0, 4), lambda i, j: i * 4 + j).table.shape
    assert [0] == Layout((), lambda: 0).table.tolist()


@pytest.mark.parametrize(
    ("shape", "function", "message"),
    [
        ((4, 4), lambda i, j: i + j, "T.Layout: (0, 1) and (1, 0) lie in one place, (1,)"),
        ((4,), lambda i: i - 1, "T.Layout: (0) lies at a negative place"),
        ((4,), lambda i: i / 2, "T.Layout: the index function gives no integers"),
        ((4,), lambda i, j: i, "T.Layout: the index function fails: TypeError: "),
        ((4,), lambda i: None, "T.Layout: the index function"),
        ((4.5,), lambda i: i, "T.Layout: extent 4.5 is not a constant"),
    ],
)
def test_bad_layouts(shape: tuple[int, ...], function: object, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Layout(shape, function)  # type: ignore[arg-type]
    assert caught.value.message.startswith(message)


def test_the_number_of_coordinates_is_the_rank() -> None:
    with pytest.raises(ProgramError, match="T.Layout: has 1 dimensions, given 2 coordinates"):
        Layout(4, lambda i: i)(1, 2)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_the_linear_layout_is_row_major(shape: list[int]) -> None:
    layout = make_linear_layout(SimpleNamespace(shape=tuple(shape)))
    assert np.array_equal(np.arange(np.prod(shape)).reshape(shape), layout.table[..., 0])


def test_layouts_need_constant_shapes() -> None:
    with pytest.raises(ProgramError, match="make_linear_layout: needs a buffer of constant shape"):
        make_linear_layout(SimpleNamespace(shape=("n",)))
