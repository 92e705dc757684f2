from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from layouts import fragments, owners

from tilelang.errors import ProgramError
from tilelang.layout import (
    Fragment,
    Layout,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
    thread_values,
)
from tilelang.layout.thread_values import digit, replicated

ACCUMULATOR = thread_values.fragment((16, 8), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(2, 8, 0)])
QUARTER = Fragment((8, 8), lambda i, j: (i * 4 + j // 2, j % 2))


def test_an_accumulator_by_one_function() -> None:
    layout = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2)).thread_values
    assert ACCUMULATOR.same_owners(layout)
    assert np.array_equal(ACCUMULATOR.table, layout.table)


def test_an_accumulator_by_two_functions() -> None:
    layout = Fragment(
        (16, 8), forward_thread_fn=lambda i, j: i % 8 * 4 + j // 2, forward_index_fn=lambda i, j: i // 8 * 2 + j % 2
    )
    assert np.array_equal(ACCUMULATOR.table, layout.thread_values.table)


def test_places_are_row_major_unless_told() -> None:
    layout = Fragment((16, 8), forward_thread_fn=lambda i, j: i % 8 * 4 + j // 2)
    assert np.array_equal(ACCUMULATOR.table, layout.thread_values.table)
    assert "_i // 8 * 2 + _j % 2" == str(layout.get_forward_index()[0])
    assert (3,) == layout(8, 1)


def test_functions_may_decide_in_python() -> None:
    layout = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, (2 if i > 7 else 0) + j % 2))
    assert np.array_equal(ACCUMULATOR.table, layout.thread_values.table)


def test_copies_have_numbers() -> None:
    layout = Fragment(16, forward_thread_fn=lambda i, copy: i % 8 * 4 + copy, replicate=4)
    digits = layout.thread_values
    assert (32, 2, 4) == (digits.threads, digits.values, digits.replication)
    assert thread_values.fragment((16,), [digit(4, 0), digit(8, 1)], [digit(2, 8)]).same_owners(digits)
    assert (32, 4) == (layout.get_thread_size(), layout.replicate_size)
    assert ["_i", "_rep"] == [var.name for var in layout.get_forward_vars()]
    assert "_i % 8 * 4 + _rep" == str(layout.thread)


def test_a_fragment_is_a_layout_of_places() -> None:
    assert isinstance(QUARTER, Layout)
    assert ((8, 8), (2,), 32) == (QUARTER.get_input_shape(), QUARTER.get_output_shape(), QUARTER.get_thread_size())
    assert "_i * 4 + _j // 2" == str(QUARTER.thread)
    assert ["_j % 2"] == [str(place) for place in QUARTER.index]
    assert (1, 4 * 3 + 2) == (*QUARTER(3, 5), QUARTER.map_forward_thread([3, 5]))
    assert "Fragment((8, 8) -> (2,), replicate=1, threads=32)" == repr(QUARTER)


def test_fragments_are_compared_by_what_they_do() -> None:
    same = Fragment((8, 8), forward_thread_fn=lambda a, b: a * 4 + b // 2, forward_index_fn=lambda a, b: b % 2)
    assert QUARTER.is_equal(same)
    assert hash(QUARTER) == hash(same)
    assert not QUARTER.is_equal(Fragment((8, 8), lambda i, j: (j * 4 + i // 2, i % 2)))
    assert not QUARTER.is_equal(Fragment((8, 8), lambda i, j: (i * 4 + j // 2, 1 - j % 2)))
    assert not QUARTER.is_equal(QUARTER.replicate(2))
    assert not QUARTER.is_equal(Layout((8, 8), lambda i, j: j % 2))


def test_tiles_side_by_side_as_more_values() -> None:
    rows_first = Fragment((16, 24), lambda i, j: (i % 8 * 4 + j % 8 // 2, (i // 8 * 3 + j // 8) * 2 + j % 2))
    assert rows_first == QUARTER.repeat([2, 3])
    columns_first = Fragment((16, 24), lambda i, j: (i % 8 * 4 + j % 8 // 2, (j // 8 * 2 + i // 8) * 2 + j % 2))
    assert columns_first == QUARTER.repeat([2, 3], repeat_on_thread=False, lower_dim_first=False)


def test_tiles_side_by_side_on_more_threads() -> None:
    rows_first = Fragment((16, 24), lambda i, j: ((i // 8 * 3 + j // 8) * 32 + i % 8 * 4 + j % 8 // 2, j % 2))
    assert rows_first == QUARTER.repeat([2, 3], repeat_on_thread=True)
    columns_first = Fragment((16, 24), lambda i, j: ((j // 8 * 2 + i // 8) * 32 + i % 8 * 4 + j % 8 // 2, j % 2))
    assert columns_first == QUARTER.repeat([2, 3], True, False)


def test_copies_on_more_threads() -> None:
    def thread(i: int, j: int, copy: int) -> int:
        return copy * 32 + i * 4 + j // 2

    doubled = Fragment((8, 8), None, thread, 2, lambda i, j: j % 2)
    assert doubled == QUARTER.replicate(2)
    assert Fragment((8, 8), None, thread, 4, lambda i, j: j % 2) == doubled.replicate(2)


def test_copies_that_are_no_copies_go_away() -> None:
    def thread(i: int, j: int, copy: int) -> int:
        return i + 4 * (copy % 2)

    layout = Fragment((4, 8), None, thread, 4, lambda i, j: j)
    assert Fragment((4, 8), None, lambda i, j, copy: i + 4 * copy, 2, lambda i, j: j) == layout.condense_rep_var()
    once = Fragment((4, 8), None, lambda i, j, copy: i, 4, lambda i, j: j).condense_rep_var()
    assert (1, 3) == (once.replicate_size, once.map_forward_thread([3, 2]))
    assert QUARTER is QUARTER.condense_rep_var()


def test_fragments_of_other_shapes() -> None:
    assert Fragment((64,), lambda i: (i // 2, i % 2)) == QUARTER.reshape((64,))
    assert Fragment((8, 16), lambda i, j: (i * 4 + j // 4, j % 4)) == QUARTER.reshape((8, 16), 2, 1)
    assert Fragment((8, 4), lambda i, j: (i * 4 + j, 0)) == QUARTER.reshape((8, 4), 1, 2)
    expanded = QUARTER.expand([3])
    assert (3, 8, 8) == expanded.get_input_shape()
    assert (3, 2) == expanded.get_output_shape()


def test_the_inverse_leads_from_threads_to_elements() -> None:
    back = QUARTER.inverse()
    assert (2, 32) == back.get_input_shape()
    assert ["_j // 4", "_i + _j % 4 * 2", "0"] == [str(place) for place in back.index]


def test_fragments_by_name() -> None:
    assert QUARTER == make_gemm_fragment_8x8()
    assert Fragment((8, 8), lambda i, j: (4 * j + i // 2, i % 2)) == make_gemm_fragment_8x8_transposed()
    everywhere = make_fully_replicated_layout_fragment(SimpleNamespace(shape=(4, 8)), 32)
    assert replicated((4, 8), 32) == everywhere.thread_values
    assert (32, 32) == (everywhere.replicate_size, everywhere.get_thread_size())
    assert 1 == make_fully_replicated_layout_fragment((4,), 1).get_thread_size()


@given(fragments())
def test_every_fragment_without_copies_can_be_written(layout: thread_values.Fragment) -> None:
    if layout.replication == 1:
        again = Fragment(layout.shape, layout.owner).thread_values
        assert np.array_equal(owners(layout), owners(again))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (8,)}, "needs either forward_fn or forward_thread_fn"),
        ({"shape": (8, 0), "forward_fn": lambda i, j: (i, j)}, "0 is not a positive int"),
        ({"shape": (8,), "forward_fn": lambda i: i}, "forward_fn gives a pair"),
        ({"shape": (8,), "forward_fn": lambda i, j: (i, j)}, "a function fails: TypeError"),
    ],
)
def test_what_is_no_fragment(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        Fragment(**arguments)  # type: ignore[arg-type]
    assert isinstance(caught.value, TypeError)
    assert caught.value.message.startswith("T.Fragment: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (8,), "forward_fn": lambda i: (i * i, 0)}, "no sums of quotients"),
        ({"shape": (8,), "forward_fn": lambda i: (i // 2, 0)}, "neither"),
        ({"shape": (8,), "forward_fn": lambda i: (i - 1, 0)}, "integers from 0 on"),
        ({"shape": (8,), "forward_fn": lambda i: (i / 2, 0)}, "integers from 0 on"),
        ({"shape": (8,), "forward_thread_fn": lambda i, c: i + 8 * c * (1 + i // 4), "replicate": 2}, "evenly spaced"),
    ],
)
def test_fragments_that_nothing_can_have(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        _ = Fragment(**arguments).thread_values  # type: ignore[arg-type]
    assert caught.value.message.startswith("T.Fragment: ")


@pytest.mark.parametrize(
    ("derive", "message"),
    [
        (lambda: QUARTER.repeat([2]), "Fragment.repeat: needs 2 positive ints, given [2]"),
        (lambda: QUARTER.replicate(0), "Fragment.replicate: 0 is not a positive int"),
        (lambda: QUARTER.reshape((8, 2), 1, 4), "Fragment.reshape: 4 neighbors that a wider element is made of lie apart"),
        (
            lambda: Fragment((8,), lambda i: (i // 4, i // 2)).inverse(),
            "Fragment.inverse: the layout (8, 1) -> (4, 2) is no bijection, and has no inverse",
        ),
    ],
)
def test_what_cannot_be_derived(derive: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        derive()  # type: ignore[operator]
    assert message == caught.value.message  # type: ignore[attr-defined]
