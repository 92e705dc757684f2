"""Layouts for the loads of a warp, by counting their conflicts."""

import numpy as np
import pytest
from lowered_gemm import buffer, constant
from warps import MACHINE

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Var
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import contiguous_elements, padded, row_major
from tilelang.layout.xor_swizzle import swizzled
from tilelang.lowering.operand_layout import WarpAccess, choose_layout, conflict_cycles, is_contiguous_in_runs

LANE = np.arange(32)
MATRIX = WarpAccess(LANE % 8, 0 * LANE, 16)


def by_lanes(rows, columns, size):
    return WarpAccess(rows, columns, size)


@pytest.mark.parametrize(
    ("shape", "dtype", "access"),
    [
        ((128, 32), "float16", MATRIX),
        ((128, 64), "float16", MATRIX),
        ((128, 40), "float16", MATRIX),
        ((128, 16), "float16", MATRIX),
        ((64, 16), "float64", by_lanes(LANE // 4, LANE % 4, 8)),
        ((16, 64), "float64", by_lanes(LANE % 4, LANE // 4, 8)),
        ((32, 128), "tfloat32", by_lanes(LANE % 4, LANE // 4, 4)),
        ((32, 128), "int8", by_lanes(LANE % 4 * 4, LANE // 4, 1)),
        ((128, 20), "float16", by_lanes(LANE // 4, LANE % 4 * 2, 4)),
    ],
)
def test_no_conflict_is_left(shape, dtype, access):
    dtype = as_dtype(dtype)
    layout = choose_layout(shape, dtype, [access], MACHINE) or row_major(shape)
    assert 0 == conflict_cycles(layout, access, dtype, MACHINE)
    assert contiguous_elements(layout) >= access.bytes // dtype.storage_bytes


@pytest.mark.parametrize("depth", [16, 32, 64])
def test_rows_that_lanes_take_in_half_runs(depth):
    """Rows 0 to 3 with 8 to 11, and 4 to 7 with 12 to 15, of which other swizzles put two in the same banks."""
    half = as_dtype("float16")
    halves = by_lanes(LANE % 4 + 8 * (LANE // 4 % 2) + 4 * (LANE // 8 % 2), 0 * LANE, 16)
    assert conflict_cycles(swizzled((64, depth), 16, 2 * depth), halves, half, MACHINE)
    layout = choose_layout((64, depth), half, [halves], MACHINE)
    assert layout is not None
    assert 0 == conflict_cycles(layout, halves, half, MACHINE)
    assert contiguous_elements(layout) >= 8


def test_row_major_is_kept_where_it_serves():
    assert choose_layout((64, 40), as_dtype("float16"), [MATRIX], MACHINE) is None


def test_chunks_stay_together_where_one_can_choose():
    layout = choose_layout((64, 16), as_dtype("float64"), [by_lanes(LANE // 4, LANE % 4, 8)], MACHINE)
    assert contiguous_elements(layout) >= 2


def test_conflicts_are_counted():
    assert 12 == conflict_cycles(row_major((128, 32)), MATRIX, as_dtype("float16"), MACHINE)  # four quarters of 8 rows on 2 places


def region(shape, start):
    tile = buffer("A", shape, "float16", Scope.SHARED)
    return Region(tile, start, tuple(constant(1) for _ in shape))


ANY = Var("i", INT32, index=True)


@pytest.mark.parametrize(
    ("shape", "start", "layout", "keeps"),
    [
        ((64, 32), (0, 0), None, True),
        ((64, 20), (0, 0), None, False),  # every other row begins within a chunk
        ((64, 32), (0, 4), None, False),
        ((64, 32), (0, ANY * 8), None, True),
        ((64, 32), (0, ANY), None, False),
        ((3, 64, 32), (ANY, 0, 0), None, True),
        ((64, 32), (0, 0), swizzled((64, 32), 16, 64), True),
        ((3, 64, 32), (ANY, 0, 0), swizzled((64, 32), 16, 64), True),
        ((64, 32), (0, 0), padded((64, 32), 2), False),
        ((64, 32), (0, 0), padded((64, 32), 8), True),
        ((3, 1, 32), (ANY, 0, 0), padded((1, 32), 2), True),
        ((3, 3, 8), (ANY, 0, 0), Layout((3, 8), lambda i, j: i * 12 + j), False),
    ],
)
def test_runs_of_a_region_stay_whole_and_aligned(shape, start, layout, keeps):
    start = tuple(constant(s) if isinstance(s, int) else s for s in start)
    assert keeps == is_contiguous_in_runs(region(shape, start), layout, 8)
