import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import fragments, owners

from tilelang.layout.digits import Mode, NotDigitMap
from tilelang.layout.thread_values import Fragment, digit, fragment, over_threads, replicated

ACCUMULATOR = fragment((16, 8), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(2, 8, 0)])


def test_the_facts_of_a_fragment() -> None:
    assert (32, 4, 1) == (ACCUMULATOR.threads, ACCUMULATOR.values, ACCUMULATOR.replication)
    assert (16, 8) == ACCUMULATOR.cover
    assert (9, 5) == ACCUMULATOR.coordinates(6, 3)
    assert (6, 3) == ACCUMULATOR.owner(9, 5)
    assert "Fragment((16, 8), thread=[4:(0, 2), 8:(1, 0)], value=[2:(0, 1), 2:(8, 0)])" == repr(ACCUMULATOR)


def test_places_take_from_a_tile_what_every_thread_holds() -> None:
    tile = np.arange(128).reshape(16, 8)
    held = tile[ACCUMULATOR.places]
    assert (32, 4) == held.shape
    assert tile[9, 5] == held[6, 3]


def test_everything_is_everywhere_in_a_replicated_fragment() -> None:
    layout = replicated((2, 3), 32)
    assert owners(layout).all()
    assert np.array_equal(np.arange(6), [layout.owner(i, j)[1] for i in range(2) for j in range(3)])


@given(fragments(pad=True))
def test_copies_are_told_by_the_table(layout: Fragment) -> None:
    held = owners(layout)
    expected = np.zeros_like(held)
    where = layout.first_thread[..., None] + layout.copies
    np.put_along_axis(expected, where, True, axis=-1)
    assert np.array_equal(held, expected)
    assert not np.any(layout.first_copy(layout.copies))
    assert layout.replication == len(set(layout.copies.tolist()))


@given(fragments(pad=True))
def test_normalizing_keeps_the_owners(layout: Fragment) -> None:
    normal = layout.normalized
    assert np.array_equal(owners(layout), owners(normal))
    assert layout.same_owners(normal)
    assert normal.same_owners(layout)
    assert normal == normal.normalized


@given(fragments(), fragments())
def test_owners_are_compared_as_sets(a: Fragment, b: Fragment) -> None:
    if a.shape != b.shape or a.threads != b.threads:
        assert not a.holds(b)
        return
    assert bool((owners(a) >= owners(b)).all()) == a.holds(b)
    assert np.array_equal(owners(a), owners(b)) == a.same_owners(b)


@given(fragments(), st.randoms())
def test_the_order_of_values_does_not_matter(layout: Fragment, random: st.DataObject) -> None:
    value = list(layout.value)
    random.shuffle(value)  # type: ignore[attr-defined]
    assert layout.same_owners(Fragment(layout.shape, layout.thread, tuple(value)))


def test_more_copies_hold_what_fewer_hold() -> None:
    few = fragment((8,), [digit(8, 1), digit(4, 0)], [])
    many = fragment((8,), [digit(32, 0)], [digit(8, 1)])
    assert many.holds(few)
    assert not few.holds(many)
    assert not few.same_owners(many)


def test_gaps_have_no_owner() -> None:
    with pytest.raises(NotDigitMap):
        _ = Fragment((8,), (Mode(4, (2,)),), ()).first_thread


def test_threads_that_a_layout_does_not_name_hold_copies_or_nothing() -> None:
    rows = fragment((48, 4), [digit(16, 1, 0), digit(3, 16, 0)], [digit(4, 0, 1)])
    assert rows is over_threads(rows, 48)
    twice = over_threads(rows, 96)
    assert twice is not None and (96, 2) == (twice.threads, twice.replication)
    wide = over_threads(rows, 128)
    assert wide is not None and (128, 1, (128, 4)) == (wide.threads, wide.replication, wide.cover)
    assert (wide.first_thread == rows.first_thread).all()
    copies = over_threads(fragment((2,), [digit(48, 0)], [digit(2, 1)]), 128)
    assert copies is not None and (128, 128) == (copies.threads, copies.replication)
    for refused, threads in ((rows, 32), (rows, 72), (fragment((96,), [digit(48, 1)], [digit(2, 48)]), 128)):
        assert over_threads(refused, threads) is None
