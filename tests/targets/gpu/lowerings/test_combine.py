"""Distribution of slices over warps and threads, and sources that overlap destinations."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.parametrize("threads", [16, 32, 80])
def test_sources_that_overlap_other_destinations_are_read_first(threads):
    @T.prim_func
    def f(A: T.Tensor((4, 9), "int32"), B: T.Tensor((4, 9), "int32"), C: T.Tensor((9,), "int32")):
        with T.Kernel(1, threads=threads) as _:
            T.associative_scan((A, B), (B, A), lambda a0, b0, a1, b1: (a0 + a1, b0 + b1), dim=1)
            T.associative_scan(B, None, lambda a, b: a + b, dim=0, exclusive=True, init=2)
            T.reduce(A, A[0, :], lambda a, b: a * b, dim=0)
            T.reduce(B, C, lambda a, b: a * b, dim=0)

    values = ints(4, 9, dtype=np.int32)
    assert_threads_agree(f, values, values * 3, np.zeros(9, np.int32))
