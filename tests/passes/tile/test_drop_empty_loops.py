"""Loops without iterations are dropped before anything is proven about their bodies."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.passes.tile.drop_empty_loops import PASS


def dropped(func):
    return PASS.run(inline_bindings.PASS.run(func, PassContext()), PassContext())


def loops(func):
    return [stmt for stmt in walk(func.body) if isinstance(stmt, For | ParallelLoop)]


def fills(start, stop, step, extent):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.serial(start, stop, step):
                for j in T.Parallel(extent):
                    A[i + j] = 1

    return main


@pytest.mark.parametrize("trips", [(0, 0, 1), (3, 2, 1), (2, 5, -1)])
def test_a_serial_loop_without_iterations_is_dropped_with_its_body(trips):
    assert not loops(dropped(fills(*trips, 2)))


@pytest.mark.parametrize("trips", [(0, 1, 1), (5, 2, -1), (0, 3, 2)])
def test_loops_with_iterations_stay(trips):
    func = inline_bindings.PASS.run(fills(*trips, 2), PassContext())
    assert PASS.run(func, PassContext()) is func


def test_a_parallel_loop_over_nothing_is_dropped():
    assert not any(isinstance(loop, ParallelLoop) for loop in loops(dropped(fills(0, 2, 1, 0))))


def test_a_bound_that_is_a_binding_counts_as_its_value():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as bx:
            none = bx - bx
            for i in T.serial(none):
                A[i] = 1

    assert not loops(dropped(main))


def test_a_loop_of_unknown_length_stays():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            for i in T.serial(n):
                A[i] = 1

    assert len(loops(dropped(main))) == 1


@pytest.mark.parametrize("threads", [96, 192])
def test_an_update_of_a_fragment_in_a_loop_without_iterations_compiles(threads):
    @T.prim_func
    def main(A: T.Tensor((33,), "int64"), O: T.Tensor((2, 2), "int64")):
        with T.Kernel(1, threads=threads):
            S = T.alloc_fragment((2, 2), "int64")
            T.fill(S, 5)
            for k in T.Pipelined(0, num_stages=0):
                for i in T.Parallel(33):
                    S[k, 1] |= A[i]
            T.copy(S, O)

    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_75"}, execution_backend="simulator")
    kernel(np.arange(33), out := np.zeros((2, 2), np.int64))
    np.testing.assert_array_equal(out, np.full((2, 2), 5))
