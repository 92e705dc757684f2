"""The plain GEMM in TileLang, the side of the comparison that is ours; `compare.py` measures it."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit
def matmul(M, N, K, block_M=128, block_N=256, block_K=64, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=4):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(M=256, N=384, K=320, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    given = to_device(a, b, np.empty((M, N), np.float16))
    matmul(M, N, K, **tiles)(*given)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(to_host(given[2]).astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"gemm_tilelang: ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
