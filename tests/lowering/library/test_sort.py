"""Sorting networks and folds by threads."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.parametrize("threads", [1, 32, 80])
@pytest.mark.parametrize("shape", [(1, 1), (3, 13), (6,)])
@pytest.mark.parametrize("descending", [False, True])
def test_lines_of_any_length(shape, threads, descending):
    first = (*shape[:-1], 1)

    @T.prim_func
    def f(
        A: T.Tensor(shape, "float32"),
        B: T.Tensor(shape, "float32"),
        I: T.Tensor((2, *shape), "int32"),
        J: T.Tensor(first, "int32"),
    ):
        with T.Kernel(1, threads=threads) as _:
            r, i = T.alloc_fragment(shape, "float32"), T.alloc_fragment(shape, "int32")
            T.copy(A, r)
            T.topk(r, 1, None, J, largest=descending)
            T.topk(r, shape[-1], None, I[1, ...], largest=descending)
            T.sort(r, descending=descending, indices=i)
            T.copy(r, B)
            T.copy(i, I[0, ...])

    values = ints(*shape)
    values.ravel()[::5] = np.nan
    results = np.zeros(shape, np.float32), np.zeros((2, *shape), np.int32), np.zeros(first, np.int32)
    assert_threads_agree(f, values, *results)
