"""Folds that wait until the serial loop around them ends."""

import numpy as np
from simt import SM80, TO_THREADS, assert_threads_agree, ints

import tilelang.language as T
from tilelang.ir.stmt import CallStmt, For
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes


def shuffles_in_loops(func):
    """Calls of instructions inside of serial loops: there the threads would have to wait for each other."""
    lowered = run_passes(func, TO_THREADS, SM80)
    loops = [s for s in walk(lowered.body) if isinstance(s, For) and s.var.name in ("k", "o")]
    return sum(isinstance(s, CallStmt) for loop in loops[:1] for s in walk(loop))


def test_sums_over_pieces_are_combined_once():
    @T.prim_func
    def f(A: T.Tensor((4, 1000), T.int32), B: T.Tensor((4,), T.int32), C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            total = T.alloc_fragment((4,), T.int32)
            high = T.alloc_var(T.int32, init=-100)
            T.fill(total, 3)
            for k in T.serial(4):
                for i, j in T.Parallel(4, 256):
                    total[i] += A[i, k * 256 + j]
                    high = T.max(high, A[i, k * 256 + j])
            T.copy(total, B)
            C[0] = high

    assert_threads_agree(f, ints(4, 1000, dtype=np.int32), ints(4, dtype=np.int32), ints(1, dtype=np.int32))
    assert 0 == shuffles_in_loops(f)


def test_the_outermost_loop_that_allows_it_is_waited_for():
    @T.prim_func
    def f(A: T.Tensor((3, 5, 64), T.int32), B: T.Tensor((3,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            for o in T.serial(3):
                x = T.alloc_var(T.int32, init=o)
                for k in T.serial(5):
                    if A[o, k, 0] > 0:
                        for j in T.Parallel(64):
                            x += A[o, k, j]
                B[o] = x

    assert_threads_agree(f, ints(3, 5, 64, dtype=np.int32), ints(3, dtype=np.int32))
    assert 0 < shuffles_in_loops(f)


def test_elements_that_the_loop_looks_at_or_chooses_cannot_wait():
    @T.prim_func
    def f(A: T.Tensor((5, 64), T.int32), B: T.Tensor((5,), T.int32), C: T.Tensor((5,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_var(T.int32, init=0)
            s = T.alloc_shared((5,), T.int32)
            T.clear(s)
            for k in T.serial(5):
                for j in T.Parallel(64):
                    x += A[k, j]
                    s[k] += A[k, j]
                B[k] = x
            T.copy(s, C)

    assert_threads_agree(f, *[ints(*s, dtype=np.int32) for s in ((5, 64), (5,), (5,))])
    assert 0 < shuffles_in_loops(f)


def test_loops_without_iterations_leave_the_old_value():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n, 64), T.int32), B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            for k in T.serial(n):
                for j in T.Parallel(64):
                    B[0] = T.min(B[0], A[k, j])

    for size in (0, 3):
        assert_threads_agree(f, ints(size, 64, dtype=np.int32), ints(1, dtype=np.int32))
    assert 0 == shuffles_in_loops(f)
