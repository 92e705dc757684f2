"""Blocks that continue each other's rows are run row by row; others stay as they are."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND

SHAPE = (1024, 300)


def relu(rows=1024, columns=300, tile=(16, 64), how=""):
    M, N = tile

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"), S: T.Tensor((rows,), "float32"),
        B: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, N), T.ceildiv(rows, M)) as (bx, by):
            if how == "through a tile":
                tile = T.alloc_shared((M, N), "float32")
                T.copy(A[by * M, bx * N], tile)
                T.copy(tile, B[by * M, bx * N])
            for i, j in T.Parallel(M, N):
                row, column = by * M + i, bx * N + j
                if how == "":
                    B[row, column] = T.max(A[row, column], 0) + S[row]
                elif how == "row of all rows":
                    B[row, column] = A[row, column] + A[0, column]
                elif how == "same elements":
                    B[row, j] = 1.0
                elif how == "transposed":
                    B[row, column] = A[column, row]
                elif how == "atomic":
                    T.atomic_add(B[row, column], A[row, column])

    return main


def grid(func):
    """The extents of the grid after all passes."""
    (launch,) = (s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, Launch))
    return [str(extent) for extent in launch.grid]


def test_blocks_along_rows_are_merged():
    assert ["64"] == grid(relu())


def test_enough_blocks_remain():
    assert ["5", "63"] == grid(relu(63 * 16))
    assert ["5", "32"] == grid(relu(tile=(32, 64)))


@pytest.mark.parametrize("how", ["through a tile", "row of all rows", "same elements", "transposed", "atomic"])
def test_other_blocks_are_left_alone(how):
    assert ["16", "64"] == grid(relu(columns=1024, how=how))


def test_the_grid_may_have_three_dimensions():
    @T.prim_func
    def main(A: T.Tensor((8, 128, 256), "float16")):
        with T.Kernel(4, 8, 8) as (bx, by, bz):
            for i, j in T.Parallel(16, 64):
                A[bz, by * 16 + i, bx * 64 + j] = bz + bx

    assert ["8", "8"] == grid(main)
    found = np.zeros((8, 128, 256), np.float16)
    tilelang.compile(main, target="cpu")(found)
    np.testing.assert_array_equal(found, (np.arange(8)[:, None, None] + np.arange(256) // 64) * np.ones((8, 128, 256)))


def test_merged_blocks_compute_the_same():
    rng = np.random.default_rng(0)
    a, s = rng.standard_normal(SHAPE, np.float32), rng.standard_normal(SHAPE[0], np.float32)
    b = np.zeros_like(a)
    tilelang.compile(relu(), target="cpu")(a, s, b)
    np.testing.assert_array_equal(np.maximum(a, 0) + s[:, None], b)
