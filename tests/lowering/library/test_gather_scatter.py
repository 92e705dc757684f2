"""Rows by threads: no access of rows that are not there."""

import numpy as np
from simt import assert_threads_agree, ints

import tilelang.language as T


def test_gather_and_scatter_along_each_dimension():
    @T.prim_func
    def f(A: T.Tensor((20, 64), "float16"), I: T.Tensor((8,), "int32"), B: T.Tensor((20, 64), "float16")):
        with T.Kernel(1, threads=64) as _:
            rows = T.alloc_shared((8, 64), "float16")
            T.gather(A, I, rows)
            T.scatter(rows, I, B)

    index = np.array([3, -1, 7, 19, 20, 0, 5, 100], np.int32)
    arguments = ints(20, 64, dtype=np.float16), index, np.zeros((20, 64), np.float16)
    assert_threads_agree(f, *arguments)
