import numpy as np
import pytest
from hypothesis import given
from layouts import fragments, owners

from tilelang.errors import ProgramError
from tilelang.layout import thread_values
from tilelang.layout.fragment import Fragment
from tilelang.layout.thread_values import digit

ACCUMULATOR = thread_values.fragment((16, 8), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(2, 8, 0)])


def test_an_accumulator_by_one_function() -> None:
    layout = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    assert ACCUMULATOR.same_owners(layout)
    assert np.array_equal(ACCUMULATOR.table, layout.table)


def test_an_accumulator_by_two_functions() -> None:
    layout = Fragment(
        (16, 8), forward_thread_fn=lambda i, j: i % 8 * 4 + j // 2, forward_index_fn=lambda i, j: i // 8 * 2 + j % 2
    )
    assert np.array_equal(ACCUMULATOR.table, layout.table)


def test_places_are_row_major_unless_told() -> None:
    layout = Fragment((16, 8), forward_thread_fn=lambda i, j: i % 8 * 4 + j // 2)
    assert np.array_equal(ACCUMULATOR.table, layout.table)


def test_functions_may_decide_in_python() -> None:
    layout = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, (2 if i > 7 else 0) + j % 2))
    assert np.array_equal(ACCUMULATOR.table, layout.table)


def test_copies_have_numbers() -> None:
    layout = Fragment(16, forward_thread_fn=lambda i, copy: i % 8 * 4 + copy, replicate=4)
    assert (32, 2, 4) == (layout.threads, layout.values, layout.replication)
    assert thread_values.fragment((16,), [digit(4, 0), digit(8, 1)], [digit(2, 8)]).same_owners(layout)


@given(fragments())
def test_every_fragment_without_copies_can_be_written(layout: thread_values.Fragment) -> None:
    if layout.replication == 1:
        again = Fragment(layout.shape, layout.owner)
        assert np.array_equal(owners(layout), owners(again))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (8,)}, "needs either forward_fn or forward_thread_fn"),
        ({"shape": (8, 0), "forward_fn": lambda i, j: (i, j)}, "0 is not a positive int"),
        ({"shape": (8,), "forward_fn": lambda i: i}, "forward_fn gives a pair"),
        ({"shape": (8,), "forward_fn": lambda i: (i * i, 0)}, "no sums of quotients"),
        ({"shape": (8,), "forward_fn": lambda i: (i // 2, 0)}, "neither"),
        ({"shape": (8,), "forward_fn": lambda i: (i - 1, 0)}, "integers from 0 on"),
        ({"shape": (8,), "forward_fn": lambda i: (i / 2, 0)}, "integers from 0 on"),
        ({"shape": (8,), "forward_fn": lambda i, j: (i, j)}, "a function fails: TypeError"),
        ({"shape": (8,), "forward_thread_fn": lambda i: i, "forward_index_fn": lambda i: (0, i)}, "gives one number"),
        ({"shape": (8,), "forward_thread_fn": lambda i, c: i + 8 * c * (1 + i // 4), "replicate": 2}, "evenly spaced"),
    ],
)
def test_what_is_no_fragment(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        Fragment(**arguments)  # type: ignore[arg-type]
    assert caught.value.message.startswith("T.Fragment: ")
