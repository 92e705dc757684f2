"""Parallel loops of symbolic extents."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T
from tilelang.analysis.parallel_legality import ParallelLegality, ParallelReduction
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var
from tilelang.targets.gpu.lowerings.strided import can_stride

n, m = T.dynamic("n"), T.dynamic("m")


@pytest.mark.parametrize("threads", [1, 32, 48])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (9, 17), (3, 100)])
def test_elements_and_totals(shape, threads):
    @T.prim_func
    def f(A: T.Tensor((m, n), T.int32), B: T.Tensor((m, n), T.int32), R: T.Tensor((m,), T.int32),
          C: T.Tensor((n,), T.int32), D: T.Tensor((3,), T.int32)):  # fmt: skip
        with T.Kernel(1, threads=threads) as _:
            total = T.alloc_var(T.int32, init=2)
            last = T.alloc_var(T.int32, init=7)
            for i, j in T.Parallel(m, n):
                B[i, j] = A[i, j] * 3 - i
                total += A[i, j]
                last = A[i, j] + 1
                D[2] = i - j
            for i, j in T.Parallel(m, n):
                R[i] = T.max(R[i], A[i, j])
            for i, j in T.Parallel(m, n):
                C[j] += A[i, j]
            D[0] = total
            D[1] = last

    rows, columns = shape
    tensors = [ints(*s, dtype=np.int32) for s in (shape, shape, (rows,), (columns,), (3,))]
    assert_threads_agree(f, *tensors)


def test_elements_indexed_by_loops_of_one_iteration():
    @T.prim_func
    def f(A: T.Tensor((n,), T.int32), R: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=48) as _:
            total = T.alloc_shared((4,), T.int32)
            T.copy(R, total)
            for i, j in T.Parallel(1, n):
                total[i + 2] += A[j] + i
            T.copy(total, R)

    assert_threads_agree(f, ints(100, dtype=np.int32), ints(4, dtype=np.int32))


def test_updates_along_both_dimensions_run_in_order():
    @T.prim_func
    def f(A: T.Tensor((m, n), T.int32), R: T.Tensor((m,), T.int32), C: T.Tensor((n,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            for i, j in T.Parallel(m, n):
                R[i] += A[i, j]
                C[j] += A[i, j]

    assert_threads_agree(f, *[ints(*s, dtype=np.int32) for s in ((5, 7), (5,), (7,))])


def test_updates_without_a_pattern_are_atomic():
    @T.prim_func
    def f(A: T.Tensor((n,), T.int32), H: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(n):
                H[A[i] % 4] += i

    assert_threads_agree(f, ints(77, dtype=np.int32), ints(4, dtype=np.int32))


def test_all_updates_need_the_same_distribution():
    i, j = (Var(name, INT32, index=True) for name in "ij")
    b = Buffer("b", (), INT32, Scope.VAR)

    def moved(*sets):
        return can_stride(ParallelLegality(reductions=[ParallelReduction(b, (), "+", frozenset(s), ()) for s in sets]))

    assert moved()
    assert moved({i}, {i}, set())
    assert not moved({i}, {j})
