"""Whether threads share elements, compared with looking at every pair of threads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.analysis.thread_elements import MANY, Elements, enumerated, share_elements

THREADS = 8


@st.composite
def accesses(draw):
    """First elements of each thread in two dimensions for two values of a free variable, a box, and a mask."""
    tables = st.lists(st.integers(0, 6), min_size=2 * THREADS, max_size=2 * THREADS)
    starts = [np.array(draw(tables)).reshape(THREADS, 2) for _ in range(2)]
    extents = [draw(st.integers(1, 3)) for _ in range(2)]
    mask = draw(st.none() | st.lists(st.booleans(), min_size=THREADS, max_size=THREADS))
    return starts, extents, None if mask is None else np.array(mask)[:, None]


def pairs(access):
    """Each element that a thread accesses, with the thread."""
    (rows, columns), extents, mask = access
    for thread, choice in itertools.product(range(THREADS), range(2)):
        if mask is None or mask[thread, 0]:
            for i, j in itertools.product(*map(range, extents)):
                yield thread, (rows[thread, choice] + i, columns[thread, choice] + j)


@given(accesses(), accesses(), st.sampled_from([1, 2, 4, THREADS]))
def test_threads_of_other_subgroups_are_found(x, y, size):
    expected = any(
        a == b and first // size != second // size for (first, a), (second, b) in itertools.product(pairs(x), pairs(y))
    )
    assert expected == share_elements(enumerated(*x, THREADS), enumerated(*y, THREADS), size)


@given(accesses(), st.integers(-3, 3))
def test_elements_move_together(access, distance):
    starts, extents, mask = access
    there = enumerated([start + distance for start in starts], extents, mask, THREADS)
    moved = enumerated(*access, THREADS).moved(distance)
    np.testing.assert_array_equal(there.starts, moved.starts)
    np.testing.assert_array_equal(there.threads, moved.threads)


def test_far_apart_elements_are_renumbered():
    starts = [np.arange(THREADS)[:, None] * 10**6, np.arange(THREADS)[:, None] * 10**6]
    found = enumerated(starts, [1, 1], None, THREADS)
    assert isinstance(found, Elements)
    assert not share_elements(found, found, 1)
    assert share_elements(found, found.moved(10**6), 1)


@pytest.mark.parametrize(("width", "box"), [(MANY // THREADS + 1, 1), (1, MANY // THREADS + 1)])
def test_too_many_elements_are_not_enumerated(width, box):
    assert enumerated([np.zeros((THREADS, width), np.int64)], [box], None, THREADS) is None
