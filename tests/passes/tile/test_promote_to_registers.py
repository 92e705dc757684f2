import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile.promote_to_registers import PASS

ROWS, WIDTH, TRIPS = 8, 16, 3


def kernel(case="", *, loop=T.serial, rows=ROWS, dtype="int32"):
    """Sums tiles of A by way of a tile in shared memory and doubles them; `case` says how it is used besides."""

    @T.prim_func
    def main(A: T.Tensor((rows, WIDTH * TRIPS), dtype), B: T.Tensor((rows, WIDTH * TRIPS), dtype), C: T.Tensor((rows, WIDTH), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((rows, WIDTH), dtype)
            total = T.alloc_fragment((rows, WIDTH), dtype)
            if case == "layout":
                T.annotate_layout({tile: T.Layout((rows, WIDTH), lambda i, j: (i, j))})
            elif case == "view":
                flat = T.view(tile, (rows * WIDTH,), dtype)
            elif case == "outside":
                T.copy(A[0, 0], tile)
            T.clear(total)
            for k in loop(TRIPS):
                if case != "outside":
                    T.copy(A[0, k * WIDTH], tile)
                if case == "scalar":
                    tile[0, 0] = 7
                elif case == "view":
                    for n in T.Parallel(rows * WIDTH):
                        flat[n] += 1
                for i, j in T.Parallel(rows, WIDTH):
                    if case == "neighbors":
                        total[i, j] += tile[i, WIDTH - 1 - j]
                    elif case == "rows":
                        total[i, j] += tile[i, 0]
                    elif case == "condition":
                        total[i, j] += T.if_then_else(i < k, tile[i, j], 0)
                    else:
                        total[i, j] += tile[i, j] * 3
                for i, j in T.Parallel(rows, WIDTH):
                    tile[i, j] = tile[i, j] * 2
                T.copy(tile, B[0, k * WIDTH])
            T.copy(total, C)

    return main


def is_in_registers(func: PrimFunc) -> bool:
    """Whether the tile is in registers after the pass."""
    return all(s.buffer.scope is not Scope.SHARED for s in walk(PASS.run(func, PassContext()).body) if isinstance(s, Alloc))


@pytest.mark.parametrize("case", ["", "condition"])
def test_tiles_that_threads_use_as_they_load_them_stay_in_registers(case):
    func = kernel(case)
    assert is_in_registers(func)
    a = np.arange(ROWS * WIDTH * TRIPS, dtype=np.int32).reshape(ROWS, -1)
    run_everywhere(func, a, np.zeros_like(a), np.zeros((ROWS, WIDTH), np.int32))


@pytest.mark.parametrize("case", ["neighbors", "rows", "scalar", "view", "layout", "outside"])
def test_tiles_that_threads_may_share_do_not(case):
    assert not is_in_registers(kernel(case))


def test_loops_without_stages_count_as_serial():
    assert is_in_registers(kernel(loop=lambda n: T.Pipelined(n, num_stages=0)))
    assert not is_in_registers(kernel(loop=lambda n: T.Pipelined(n, num_stages=1)))
    assert not is_in_registers(kernel(loop=lambda n: T.Pipelined(n, num_stages=3)))


@pytest.mark.parametrize(("rows", "dtype", "kept"), [(1, "int32", False), (2, "int32", True), (64, "int32", True), (128, "int32", False), (128, "int16", True)])
def test_tiles_have_to_fill_threads_and_fit_in_their_registers(rows, dtype, kept):
    assert kept == is_in_registers(kernel(rows=rows, dtype=dtype))


def test_the_assembler_need_not_save_registers():
    launches = [s for s in walk(PASS.run(kernel(), PassContext()).body) if isinstance(s, Launch)]
    assert [1] == [launch.hints.min_blocks_per_sm for launch in launches]


def test_operands_of_products_stay_in_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((32, 32), "float16")
            total = T.alloc_fragment((32, 32), "float32")
            for k in T.serial(2):
                T.copy(A[0, k * 32], tile)
                T.gemm(tile, tile, total, transpose_B=True)
            T.copy(total, C)

    assert not is_in_registers(main)
