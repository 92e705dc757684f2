"""Scans by warps and by threads."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("threads", [1, 32, 80, 128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (5, 64), (7, 33), (2, 3, 5)])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_dimension_in_both_directions(shape, threads, reverse):
    dims = tuple(range(len(shape)))

    @T.prim_func
    def f(A: T.Tensor(shape, T.int32), B: T.Tensor((len(shape), *shape), T.int32)):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared(shape, T.int32)
            r = T.alloc_fragment(shape, T.int32)
            for dim in dims:
                T.copy(A, s)
                T.cumsum(s, dim=dim, reverse=reverse)
                T.copy(s, r)
                T.cummax(r, dim=dim, reverse=not reverse)
                T.copy(r, B[dim, ...])

    assert_threads_agree(f, ints(*shape, dtype=np.int32), ints(len(shape), *shape, dtype=np.int32))


def test_narrow_floats_run_in_float32():
    @T.prim_func
    def f(A: T.Tensor((300,), T.float16), B: T.Tensor((300,), T.float16)):
        with T.Kernel(1, threads=64) as _:
            T.cumsum(A, B, dim=0)

    assert_threads_agree(f, ints(300, dtype=np.float16, low=0) * 64, ints(300, dtype=np.float16))


def test_nan_propagates_from_its_position():
    @T.prim_func
    def f(A: T.Tensor((50,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            T.cummax(A, dim=0)

    values = ints(50)
    values[33] = np.nan
    assert_threads_agree(f, values)


def test_symbolic_sizes():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((3, n), T.int32)):
        with T.Kernel(1, threads=64) as _:
            T.cumsum(A, dim=1)
            T.cumsum(A, dim=0)

    for size in (0, 1, 31, 70):
        assert_threads_agree(f, ints(3, size, dtype=np.int32))
