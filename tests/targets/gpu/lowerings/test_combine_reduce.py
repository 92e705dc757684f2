"""Reductions by combine functions, by warps and by threads."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.parametrize("threads", [8, 32, 80])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (5, 64), (2, 3, 5)])
def test_every_dimension(shape, threads):
    dims = tuple(range(len(shape)))
    left = [tuple(e for axis, e in enumerate(shape) if axis != dim) for dim in dims]

    @T.prim_func
    def f(A: T.Tensor(shape, T.int32), B: T.Tensor((len(shape), shape[0] * 120), T.int32)):
        with T.Kernel(1, threads=threads) as _:
            r = T.alloc_fragment(shape, T.int32)
            T.copy(A, r)
            for dim in dims:
                out = T.alloc_shared(left[dim], T.int32)
                T.reduce(r, out, lambda a, b: a + b, dim=dim)
                flat = T.reshape(out, (-1,))
                T.copy(flat, B[dim, 0 : flat.shape[0]])

    assert_threads_agree(f, ints(*shape, dtype=np.int32), np.zeros((len(shape), shape[0] * 120), np.int32))


def test_symbolic_extents():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((3, n), T.int32), B: T.Tensor((3,), T.int32), C: T.Tensor((n,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            T.reduce(A, B, lambda a, b: T.max(a, b), dim=1)
            T.reduce(A, C, lambda a, b: T.max(a, b), dim=0)

    for size in (0, 1, 31, 70):
        assert_threads_agree(f, ints(3, size, dtype=np.int32), np.zeros(3, np.int32), np.zeros(size, np.int32))
