"""int8 activations times int8 weights, C = (A @ W^T) * scale of the row * scale of the column.

Sums are exact in int32; the scales are applied once, behind the loop.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[4])
def w8a8_gemm(M, N, K, block_M=128, block_N=128, block_K=128, num_stages=3, threads=256, out_dtype="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int8"),
        W: T.Tensor((N, K), "int8"),
        row_scales: T.Tensor((M,), "float32"),
        column_scales: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "int8")
            W_shared = T.alloc_shared((block_N, block_K), "int8")
            sums = T.alloc_fragment((block_M, block_N), "int32")
            C_local = T.alloc_fragment((block_M, block_N), out_dtype)

            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, sums, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = sums[i, j] * row_scales[by * block_M + i] * column_scales[bx * block_N + j]
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def quantize(matrix):
    """Integers of a matrix and a scale for each of its rows."""
    scales = np.abs(matrix).max(axis=1) / 127
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def main(M=150, N=264, K=512, **tiles):
    rng = np.random.default_rng(0)
    a, row_scales = quantize(rng.standard_normal((M, K), dtype=np.float32))
    w, column_scales = quantize(rng.standard_normal((N, K), dtype=np.float32))
    c = to_host(w8a8_gemm(M, N, K, **tiles)(*to_device(a, w, row_scales, column_scales)))
    expected = (a.astype(np.int32) @ w.astype(np.int32).T) * row_scales[:, None] * column_scales
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=2e-3, atol=2e-3)
    print(f"w8a8_gemm: {M} x {N} x {K} agrees with NumPy")


if __name__ == "__main__":
    main()
