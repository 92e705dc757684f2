"""Softmax over the rows of a matrix: a block holds a few whole rows in a fragment."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def softmax(M, N, block_M=1, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_fragment((block_M, N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(X[bx * block_M, 0], rows)
            T.reduce_max(rows, largest, dim=1)
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = T.exp(rows[i, j] - largest[i])
            T.reduce_sum(rows, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = rows[i, j] / total[i]

    return main


def main(M=255, N=1000):
    x = np.random.default_rng(0).standard_normal((M, N), dtype=np.float32) * 10
    e = np.exp(x - x.max(axis=1, keepdims=True))
    expected = e / e.sum(axis=1, keepdims=True)

    for block_M in (1, 4):
        y = to_host(softmax(M, N, block_M)(to_device(x)))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)
    print(f"softmax: ({M}, {N}) agrees with NumPy")


if __name__ == "__main__":
    main()
