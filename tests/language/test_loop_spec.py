"""Loops that `with` opens."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import For, ForKind, ParallelLoop
from tilelang.ir.visit import walk


def helper(A, n):
    with T.serial(n) as i, T.If(i % 2 == 0), T.Then():
        T.buffer_store(A, A[i] + 1, [i])
    with T.grid(2, 3) as (i, j):
        T.buffer_store(A, i * 3 + j, [8 + i * 3 + j])


@T.prim_func
def blocks(A: T.Tensor((16,), "int32")):
    with T.Kernel(1, threads=32):
        helper(A, 8)
        total = 0
        with T.unroll(4) as k:
            total = total + k
        A[14] = total
        with T.Parallel(2) as p:
            A[p] += 100


@pytest.mark.parametrize("how", [{"execution_backend": "reference"}, {"target": "cpu"}], ids=["reference", "cpu"])
def test_a_loop_may_be_a_with_block(how):
    a = np.zeros(16, np.int32)
    tilelang.compile(blocks, **how)(a)
    assert [101, 100, 1, 0, 1, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 0] == a.tolist()


def test_it_is_the_loop_that_a_for_would_be():
    loops = [s for s in walk(blocks.body) if isinstance(s, For | ParallelLoop)]
    kinds = [ForKind.SERIAL, ForKind.SERIAL, ForKind.SERIAL, ForKind.UNROLLED]
    assert kinds == [loop.kind for loop in loops if isinstance(loop, For)]
    assert isinstance(loops[-1], ParallelLoop)
