"""Expanded loops on AMD's GPUs: what runs beyond the last iteration, and loops in loops."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import CallStmt, For, If, Store
from tilelang.ir.visit import walk
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS


def sums(trips, *, stages=2, outer=1, dynamic=False):
    """Sums tiles of A, several times over."""
    rows = T.dynamic("rows") if dynamic else trips * 8

    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float32"), C: T.Tensor((outer, 8, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, 64), "float32")
            total = T.alloc_fragment((8, 64), "float32")
            for n in T.serial(outer):
                T.clear(total)
                for k in T.Pipelined(rows // 8 if dynamic else trips, num_stages=stages):
                    T.copy(A[k * 8, 0], tile)
                    for i, j in T.Parallel(8, 64):
                        total[i, j] += tile[7 - i, j]
                T.copy(total, C[n, 0, 0])

    values = np.random.default_rng(0).integers(-9, 10, (trips * 8, 64)).astype(np.float32)
    return main, values, np.zeros((outer, 8, 64), np.float32)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
@pytest.mark.parametrize("stages", [2, 3])
def test_any_number_of_iterations(trips, stages, dynamic):
    assert_simulates(*sums(trips, stages=stages, dynamic=dynamic), arch="gfx942", seeds=(0,))


@pytest.mark.parametrize("stages", [2, 3])
def test_a_pipeline_inside_of_a_loop_starts_anew_each_time(stages):
    assert_simulates(*sums(3, stages=stages, outer=3), arch="gfx1100", seeds=(0,))


def test_loads_are_in_a_branch_and_stores_to_shared_memory_in_none():
    lowered = lower_func(sums(5)[0], "gfx942")
    loop = next(s for s in walk(lowered.body) if isinstance(s, For) and s.var.name == "k")
    branches = [s for s in walk(loop) if isinstance(s, If)]
    assert branches
    inside = {s for branch in branches for s in walk(branch)}
    stores = [s for s in walk(loop) if isinstance(s, Store) and s.buffer.scope is Scope.SHARED]
    assert stores and inside.isdisjoint(stores)


@pytest.mark.parametrize("stage,order", [([1, 0, 2, 0], [0, 1, 2, 3]), ([0, 0, 2, 1], [1, 3, 2, 0]), ([0, 0, 1, 0], None)])
def test_what_direct_loads_read_is_written_when_they_are_complete(stage, order):
    @T.prim_func
    def main(A: T.Tensor((160, 32), "int32"), B: T.Tensor((32, 32), "int32"), C: T.Tensor((32, 32), "int32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "int32")
            b = T.alloc_shared((32, 32), "int32")
            total = T.alloc_fragment((32, 32), "int32")
            T.clear(total)
            for k in T.Pipelined(5, num_stages=2, stage=stage, order=order):
                T.copy(A[k * 32, 0], a)
                T.copy(B, b)
                for i, j in T.Parallel(32, 32):
                    total[i, j] = total[i, j] * 3 + a[i, j] * b[j, i]
                for i, j in T.Parallel(32, 32):
                    B[31 - i, j] += 1
            T.copy(total, C)

    lowered = lower_func(main, "gfx950")
    assert any(isinstance(s, CallStmt) and s.routine in DIRECT_LOADS.values() for s in walk(lowered.body))
    a = np.arange(160 * 32, dtype=np.int32).reshape(160, 32) % 7
    assert_simulates(main, a, a[:32].copy(), np.zeros((32, 32), np.int32), arch="gfx950")


@pytest.mark.parametrize("used", ["after the loop", "before it is loaded"])
def test_registers_keep_what_is_used_after_the_last_iteration(used):
    @T.prim_func
    def main(A: T.Tensor((40, 32), "int32"), C: T.Tensor((4, 40, 32), "int32")):
        with T.Kernel(1, threads=64):
            rows = T.alloc_fragment((8, 32), "int32")
            total = T.alloc_fragment((8, 32), "int32")
            T.clear(rows)
            T.clear(total)
            for n in T.serial(2):
                for k in T.Pipelined(5, num_stages=2, stage=[1, 0, 1, 1], order=[0, 3, 1, 2]):
                    if used == "before it is loaded":
                        T.copy(rows, C[n + 2, k * 8, 0])
                    else:
                        T.copy(total, C[n + 2, k * 8, 0])
                    T.copy(A[k * 8, 0], rows)
                    T.copy(rows, C[n, k * 8, 0])
                    for i, j in T.Parallel(8, 32):
                        total[i, j] += 1
                if used == "after the loop":
                    for i, j in T.Parallel(8, 32):
                        total[i, j] += rows[i, j]

    a = np.random.default_rng(0).integers(-9, 10, (40, 32)).astype(np.int32)
    assert_simulates(main, a, np.zeros((4, 40, 32), np.int32), arch="gfx1100", seeds=(0,))
