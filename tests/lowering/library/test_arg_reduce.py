"""Arg-reductions by threads."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("threads", [1, 32, 80])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (7,), (2, 3, 5)])
def test_every_dimension(shape, threads):
    dims = tuple(range(len(shape)))

    @T.prim_func
    def f(A: T.Tensor(shape, "float32"), B: T.Tensor((len(shape), 2, 64), "int32")):
        with T.Kernel(1, threads=threads) as _:
            r = T.alloc_fragment(shape, "float32")
            T.copy(A, r)
            for dim in dims:
                left = tuple(e for axis, e in enumerate(shape) if axis != dim) or (1,)
                out = T.alloc_shared(left, "int32")
                flat = T.reshape(out, (-1,))
                T.argmax(r, out, dim=dim)
                T.copy(flat, B[dim, 0, 0 : flat.shape[0]])
                T.argmin(A, out, dim=dim)
                T.copy(flat, B[dim, 1, 0 : flat.shape[0]])

    values = ints(*shape)
    values.ravel()[::9] = np.nan
    assert_threads_agree(f, values, np.zeros((len(shape), 2, 64), np.int32))
