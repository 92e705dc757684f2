from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Var
from tilelang.layout import Fragment, Layout, make_linear_layout
from tilelang.layout.layout import linearized, unravelled


def test_a_layout_applies_to_ints_arrays_and_expressions() -> None:
    layout = Layout((8, 8), lambda i, j: (i, j ^ i))
    assert (3, 6) == layout(3, 5) == layout.map_forward_index([3, 5])
    assert [5, 4] == layout(np.array([0, 1]), np.array([5, 5]))[1].tolist()
    i, j = (Var(name, INT32, index=True) for name in "ij")
    assert 6 == evaluate(layout(i, j)[1], {i: 3, j: 5})


def test_the_table_holds_every_place() -> None:
    layout = Layout((2, 3), forward_fn=lambda i, j: i * 3 + j)
    assert [[[0], [1], [2]], [[3], [4], [5]]] == layout.table.tolist()
    assert (2, 3) == layout.get_input_shape()
    assert (6,) == layout.output_shape == layout.get_output_shape()
    assert "Layout((2, 3) -> (6,))" == repr(layout)


def test_a_layout_need_not_be_injective() -> None:
    assert (4, 1) == Layout([4, 4], lambda i, j: [i, 0]).get_output_shape()
    assert (3,) == Layout((8,), lambda i: i // 3).get_output_shape()


def test_places_may_be_literals() -> None:
    nothing = Layout([32, 4], lambda i, j: Const(0, INT32))
    assert nothing.is_equal(Layout([32, 4], lambda i, j: 0))
    assert not nothing.is_equal(Layout([32, 4], lambda i, j: i))
    assert 0 == Fragment((4,), lambda i: (Const(0, INT32), i)).thread_table.max()


def test_index_functions_may_decide_in_python() -> None:
    layout = Layout(4, lambda i: i if i < 2 else 5 - i)
    assert [0, 1, 3, 2] == layout.table[:, 0].tolist()
    assert layout == Layout(4, lambda i: T.bitwise_xor(i, T.floordiv(i, 2)))


def test_layouts_are_compared_by_their_tables() -> None:
    one, other = Layout((4,), lambda i: i), Layout((4,), lambda other: other + 0)
    assert one == other
    assert one.is_equal(other)
    assert hash(one) == hash(other)
    assert one != Layout((4,), lambda i: 3 - i)
    assert not one.is_equal(Layout((2, 2), lambda i, j: i * 2 + j))
    assert one != 3


def test_the_places_as_expressions() -> None:
    layout = Layout((4, 8), lambda i, j: (j, i))
    assert ["_i", "_j"] == [var.name for var in layout.get_forward_vars()]
    assert ["_j", "_i"] == [str(place) for place in layout.get_forward_index()]
    assert "_j * 4 + _i" == str(layout.get_linearized_forward_index())


def test_empty_shapes_are_legal() -> None:
    assert (0,) == Layout((0,), lambda i: i).output_shape
    assert (0, 4, 1) == Layout((0, 4), lambda i, j: i * 4 + j).table.shape
    assert [0] == Layout((), lambda: 0).table.tolist()


def test_large_shapes_are_not_looked_at_element_by_element() -> None:
    def place(b: int, m: int, h: int, d: int) -> list[int]:
        return [b, m // 8, h, d // 8, d % 2, 4 * (m % 8) + d % 8 // 2]

    layout = Layout([2, 1 << 20, 32, 128], place)
    assert (2, 1 << 17, 32, 16, 2, 32) == layout.get_output_shape()
    assert layout.is_equal(Layout([2, 1 << 20, 32, 128], place))
    assert not layout.is_equal(Layout([2, 1 << 20, 32, 128], lambda b, m, h, d: (b, h, m, d)))
    assert hash(layout) == hash(Layout([2, 1 << 20, 32, 128], place))


def test_extents_may_be_symbolic() -> None:
    m = T.dynamic("m")
    layout = Layout((m, 4), lambda i, j: [i // 8, j, i % 8])
    assert ["(m + 7) // 8", "4", "8"] == [str(extent) for extent in layout.get_output_shape()]
    assert ["4", "m"] == [str(extent) for extent in Layout((m, 4), lambda i, j: (j, i)).get_output_shape()]
    assert layout.is_equal(Layout((m, 4), lambda i, j: [i // 8, j, i % 8]))
    assert not layout.is_equal(Layout((m, 8), lambda i, j: [i // 8, j, i % 8]))


@pytest.mark.parametrize(
    ("shape", "function", "kind", "message"),
    [
        ((4,), lambda i: i / 2, ProgramError, "T.Layout: the index function gives no integers"),
        ((4,), lambda i, j: i, ProgramTypeError, "T.Layout: the index function fails: TypeError: "),
        ((4,), lambda i: None, ProgramError, "T.Layout: the index function gives no integers"),
        ((4,), 3, ProgramTypeError, "T.Layout: the index function is 3"),
        ((4.5,), lambda i: i, ProgramTypeError, "T.Layout: extent 4.5 is not an integer"),
    ],
)
def test_bad_layouts(shape: tuple[int, ...], function: object, kind: type[ProgramError], message: str) -> None:
    with pytest.raises(kind) as caught:
        Layout(shape, function)  # type: ignore[arg-type]
    assert caught.value.message.startswith(message)


def test_the_number_of_coordinates_is_the_rank() -> None:
    with pytest.raises(ProgramError, match="T.Layout: has 1 dimensions, given 2 coordinates"):
        Layout(4, lambda i: i)(1, 2)


# -- layouts from layouts ----------------------------------------------------------------------------------------------
TILE = Layout((4, 8), lambda i, j: (j, i))


def test_leading_dimensions_are_passed_through() -> None:
    expected = Layout((3, 2, 4, 8), lambda a, b, i, j: (a, b, j, i))
    assert expected == TILE.expand([3, 2])
    assert Layout((3, 4, 8), lambda a, i, j: (a, j, i)) == TILE.expand(3)
    assert TILE is TILE.expand([])


def test_tiles_side_by_side_are_numbered_first() -> None:
    assert Layout((8, 8), lambda i, j: (i // 4, j, i % 4)) == TILE.repeat(0, 2)
    assert Layout((4, 24), lambda i, j: (j // 8, j % 8, i)) == TILE.repeat(dim=-1, factor=3)
    assert TILE is TILE.repeat(1, 1)


def test_the_same_bytes_in_another_shape() -> None:
    assert Layout((32,), lambda i: (i % 8, i // 8)) == TILE.reshape((32,))
    narrow = Layout((4, 16), lambda i, j: (j // 2, i * 2 + j % 2))
    assert narrow == TILE.reshape((4, 16), 2, 1) == TILE.reshape((4, 16), 32, 16)
    swizzled = Layout((4, 8), lambda i, j: (i, j ^ 4))
    assert Layout((4, 4), lambda i, j: (i, j ^ 2)) == swizzled.reshape((4, 4), 1, 2)


@given(st.permutations(range(3)), st.sampled_from([(24,), (6, 4), (2, 3, 4), (3, 8)]))
def test_an_inverse_leads_back(order: list[int], shape: tuple[int, ...]) -> None:
    layout = Layout((2, 3, 4), lambda *at: tuple(at[axis] for axis in order)).reshape(shape)
    back = layout.inverse()
    assert layout.get_output_shape() == back.get_input_shape()
    for at in np.ndindex(*shape):
        assert at == back(*layout(*at))


def test_inverses_of_permutations_that_are_no_sums() -> None:
    swizzled = Layout((8, 8), lambda i, j: (i, j ^ i))
    assert (3, 5) == swizzled.inverse()(3, 6)
    with pytest.raises(ProgramValueError, match="applies to ints only"):
        swizzled.inverse()(*(Var(name, INT32, index=True) for name in "ij"))


@pytest.mark.parametrize(
    ("derive", "kind", "message"),
    [
        (lambda: TILE.expand([0]), ValueError, "Layout.expand: extent 0 is below 1"),
        (lambda: TILE.expand("4"), TypeError, "Layout.expand: '4' is neither an int nor a sequence of ints"),  # type: ignore[arg-type]
        (lambda: TILE.expand([1.5]), TypeError, "Layout.expand: 1.5 is not an int"),  # type: ignore[list-item]
        (lambda: TILE.repeat(0, 0), ValueError, "Layout.repeat: factor is 0, below 1"),
        (lambda: TILE.repeat(-3, 2), ValueError, "Layout.repeat: there is no dimension -3 of 2"),
        (lambda: TILE.repeat(0, 1.5), TypeError, "Layout.repeat: factor is 1.5, not an int"),  # type: ignore[arg-type]
        (lambda: TILE.reshape((3, 8)), ValueError, "Layout.reshape: a shape (4, 8) has another size than (3, 8)"),
        (
            lambda: TILE.reshape((4, 4), 1, 2),
            ValueError,
            "Layout.reshape: the layout moves units smaller than 2 elements, which a wider element is made of",
        ),
        (lambda: TILE.reshape((4, 8), 3, 2), ValueError, "Layout.reshape: elements of 3 cannot become elements of 2"),
        (
            lambda: Layout((4,), lambda i: 2 * i).inverse(),
            ValueError,
            "Layout.inverse: the layout (4,) -> (7,) is no bijection, and has no inverse",
        ),
    ],
)
def test_what_cannot_be_derived(derive: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        derive()  # type: ignore[operator]
    assert isinstance(caught.value, kind)
    assert message == caught.value.message


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_the_linear_layout_is_row_major(shape: list[int]) -> None:
    layout = make_linear_layout(SimpleNamespace(shape=tuple(shape)))
    numbers = np.arange(np.prod(shape))
    assert np.array_equal(numbers.reshape(shape), layout.table[..., 0])
    assert np.array_equal(numbers, linearized(unravelled(numbers, shape), shape))


def test_layouts_need_constant_shapes() -> None:
    with pytest.raises(ProgramError, match="make_linear_layout: needs a buffer of constant shape"):
        make_linear_layout(SimpleNamespace(shape=("n",)))
