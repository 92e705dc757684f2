"""The first program: C = relu(A @ B) over tiles. It needs NumPy and runs on whatever is present: a GPU, or the CPU."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def matmul_relu(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)

            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def main(M=512, N=512, K=512):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)

    kernel = matmul_relu(M, N, K)  # builds the kernel, once per set of arguments
    c = to_host(kernel(*to_device(a, b)))  # a GPU's kernels take and give arrays in its own memory

    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    error = np.abs(c.astype(np.float32) - expected).max()
    print(f"quickstart: relu(A @ B) with M={M}, N={N}, K={K} agrees with NumPy, largest difference {error:.4f}")


if __name__ == "__main__":
    main()
