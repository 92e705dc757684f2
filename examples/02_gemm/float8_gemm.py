"""GEMM of float8 matrices whose scales are fine: one for 128 neighbors in a row of A, one for 128 x 128 of B.

Each step along K covers one block of scales. Its products are summed by themselves, and their sum is scaled into that
of the steps before, in float32: so small and large blocks keep their precision, and so do long sums.
"""

import ml_dtypes
import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

BLOCK = 128  # neighbors that share a scale
LARGEST = 448  # float8_e4m3fn


@tilelang.jit(out_idx=[-1])
def block_scaled(M, N, K, block_M=128, block_N=128, dtype="float8_e4m3fn", out_dtype="bfloat16", accum_dtype="float32"):
    """C = A @ B.T; A is (M, K) and B is (N, K), as matrix instructions of float8 want them."""
    steps = -(-K // BLOCK)

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        A_scales: T.Tensor((M, steps), "float32"),
        B_scales: T.Tensor((-(-N // BLOCK), steps), "float32"),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, BLOCK), dtype)
            B_shared = T.alloc_shared((block_N, BLOCK), dtype)
            C_step = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(steps, num_stages=3):
                T.copy(A[by * block_M, k * BLOCK], A_shared)
                T.copy(B[bx * block_N, k * BLOCK], B_shared)
                T.gemm(A_shared, B_shared, C_step, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    scale = A_scales[by * block_M + i, k] * B_scales[(bx * block_N + j) // BLOCK, k]
                    C_local[i, j] += C_step[i, j] * scale
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def quantized(values, rows):
    """Values as float8 with a scale for every `rows` x 128 of them, and what they are worth now."""
    height, width = values.shape
    tall, wide = -(-height // rows), -(-width // BLOCK)
    padded = np.zeros((tall * rows, wide * BLOCK), np.float32)
    padded[:height, :width] = values
    blocks = padded.reshape(tall, rows, wide, BLOCK)
    scales = np.maximum(np.abs(blocks).max(axis=(1, 3)), 1e-12) / LARGEST
    small = (blocks / scales[:, None, :, None]).astype(ml_dtypes.float8_e4m3fn)
    worth = small.astype(np.float32) * scales[:, None, :, None]

    def unpadded(array):
        return np.ascontiguousarray(array.reshape(padded.shape)[:height, :width])

    return unpadded(small), scales.astype(np.float32), unpadded(worth)


def main(M=256, N=384, K=512, **tiles):
    rng = np.random.default_rng(0)
    magnitudes = np.exp(rng.standard_normal((1, -(-K // BLOCK)), dtype=np.float32)).repeat(BLOCK, axis=1)[:, :K]
    a, a_scales, a_worth = quantized(rng.standard_normal((M, K), dtype=np.float32) * magnitudes, 1)
    b, b_scales, b_worth = quantized(rng.standard_normal((N, K), dtype=np.float32), BLOCK)
    expected = a_worth @ b_worth.T

    c = to_host(block_scaled(M, N, K, **tiles)(*to_device(a, b, a_scales, b_scales)))
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())
    print(f"float8_gemm: ({M}, {N}, {K}) with a scale for each block agrees with NumPy")


if __name__ == "__main__":
    main()
