import numpy as np
import pytest
from hypothesis import given
from layouts import fragments, owners

from tilelang.layout.digits import DigitMap, Mode, NotDigitMap
from tilelang.layout.fit import fit, fragment_of_owners
from tilelang.layout.thread_values import Fragment


@given(fragments())
def test_the_owners_of_a_fragment_are_found_again(layout: Fragment) -> None:
    grid = np.indices(layout.shape)
    thread, value = layout.owners(*grid)
    table = np.stack([np.broadcast_to(thread, layout.shape), np.broadcast_to(value, layout.shape)], axis=-1)
    found = fit(table, (layout.threads, layout.values))
    assert found is not None
    assert np.array_equal(table, found.table)
    again = fragment_of_owners(found, layout.threads)
    assert layout.shape == again.shape
    assert np.array_equal(layout.first_thread, again.first_thread)
    if layout.replication == again.replication:
        assert np.array_equal(owners(layout), owners(again))


def test_quotients_and_remainders_are_digits() -> None:
    i = np.arange(64)
    found = fit(np.stack([i // 8, i % 8], axis=-1), (8, 8))
    assert DigitMap(((Mode(8, (0, 1)), Mode(8, (1, 0))),), (8, 8)) == found


@pytest.mark.parametrize("function", [lambda i: i * i, lambda i: 7 - i, lambda i: i ^ 3, lambda i: i + 1])
def test_other_functions_are_not(function: object) -> None:
    assert fit(function(np.arange(8))[:, None], (64,)) is None  # type: ignore[operator]


def test_a_sum_is_a_map_but_no_layout() -> None:
    i, j = np.indices((4, 4))
    found = fit((i + j)[..., None], (7,))
    assert found is not None
    with pytest.raises(NotDigitMap):
        found.inverse()


def test_threads_that_are_stepped_over_hold_copies() -> None:
    layout = fragment_of_owners(DigitMap(((Mode(8, (4, 0)),),), (32, 1)), 64)
    assert (8, 64, 1, 8) == (*layout.shape, layout.threads, layout.values, layout.replication)


def test_owners_that_are_no_layout() -> None:
    with pytest.raises(NotDigitMap, match="no multiple"):
        fragment_of_owners(DigitMap(((Mode(8, (1, 0)),),), (8, 1)), 12)
    with pytest.raises(NotDigitMap, match="the thread and the value"):
        fragment_of_owners(DigitMap(((Mode(8, (1, 1)),),), (8, 8)), 8)
    with pytest.raises(NotDigitMap, match="overlaps"):
        fragment_of_owners(DigitMap(((Mode(8, (1, 0)),), (Mode(8, (2, 0)),)), (22, 1)), 32)
