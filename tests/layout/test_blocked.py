import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warps import blocked, row_variants

from tilelang.layout import blocked as layouts
from tilelang.layout.thread_values import Fragment


def inside(layout: Fragment) -> np.ndarray:
    """Which values of which threads lie in the tile."""
    return (layout.table < np.array(layout.shape)).all(axis=-1)


EXTENTS = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)
THREADS = st.sampled_from([32, 64, 96, 128, 192, 256])


@given(EXTENTS, THREADS, st.sampled_from([1, 2, 4]), st.booleans())
def test_every_coordinate_is_covered_as_often_as_there_are_copies(
    extents: tuple[int, ...], threads: int, vector: int, copies: bool
) -> None:
    extents = (*extents[:-1], extents[-1] * vector)
    layout = blocked(extents, threads, vector, copies=copies)
    assert threads == layout.threads
    counts = np.zeros(extents, int)
    np.add.at(counts, tuple(np.moveaxis(layout.table[inside(layout)], -1, 0)), 1)
    assert (counts == layout.replication).all()


@given(EXTENTS, THREADS, st.sampled_from([2, 4, 8]))
def test_vectors_are_neighbors_and_lie_inside_or_outside_as_a_whole(
    extents: tuple[int, ...], threads: int, vector: int
) -> None:
    extents = (*extents[:-1], extents[-1] * vector)
    layout = blocked(extents, threads, vector)
    table = layout.table.reshape(threads, -1, vector, len(extents))
    assert (table[:, :, :, -1] == table[:, :, :1, -1] + np.arange(vector)).all()
    assert (table[..., 0, -1] % vector == 0).all()
    within = inside(layout).reshape(threads, -1, vector)
    assert (within == within[:, :, :1]).all()


@given(EXTENTS, THREADS)
def test_little_is_wasted(extents: tuple[int, ...], threads: int) -> None:
    layout = blocked(extents, threads)
    least = -(-math.prod(extents) // threads)
    assert layout.values <= max(2 * len(extents), 1) * least + 1


@pytest.mark.parametrize(
    ("extents", "threads", "vector", "values"),
    [
        ((64, 100), 128, 4, 64),  # 25 vectors per row, on 8 or 32 threads
        ((128, 32), 128, 8, 32),
        ((64, 64), 96, 8, 48),
        ((64, 96), 192, 4, 32),
        ((1, 4096), 128, 4, 32),
        ((8, 1024), 128, 4, 64),
    ],
)
def test_tiles_of_usual_sizes(extents: tuple[int, ...], threads: int, vector: int, values: int) -> None:
    assert values == blocked(extents, threads, vector).values


def test_a_row_belongs_to_one_warp_if_that_costs_nothing() -> None:
    layout = blocked((8, 1024), 128, 4)
    rows = layout.first_thread // 32
    assert (rows == rows[:, :1]).all()


def test_a_warp_touches_whole_lines() -> None:
    columns = blocked((64, 256), 128, 4, bytes_per_element=4).table[:32, 0, 1]
    assert 32 * 4 == columns.max() - columns.min() + 4


def test_idle_threads_are_copies_or_stand_outside() -> None:
    assert 4 == blocked((32,), 128).replication
    outside = blocked((32,), 128, copies=False)
    assert 1 == outside.replication
    assert (outside.table[32:, :, 0] >= 32).all()


def test_a_nest_without_dimensions_is_done_by_all() -> None:
    layout = blocked((), 64)
    assert (64, 1, 64) == (layout.threads, layout.values, layout.replication)


def test_variants_have_other_rows_and_are_as_well_coalesced() -> None:
    best = blocked((64, 64), 128, 4)
    others = row_variants((64, 64), 128, 4)
    assert others
    for layout in others:
        assert layout != best
        assert layout.values == best.values
        assert layout.thread[0].size * 4 * 4 >= 128
    assert () == row_variants((), 128, 1)


@pytest.mark.parametrize("lanes", [32, 64])
def test_among_equally_coalesced_layouts_a_row_is_one_warp_s(lanes):
    layout = layouts.blocked((64, 256), 256, 4, warp_size=lanes, bytes_per_element=4)
    assert lanes == layout.thread[0].size
