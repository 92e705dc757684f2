"""One compiled GEMM for every M, N and K: the sizes are read from the arguments at each call."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def matmul(block_M=64, block_N=64, block_K=32, dtype="float16", accum_dtype="float32"):
    M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def main(sizes=((256, 256, 256), (1, 130, 67), (131, 1, 300), (5, 7, 0))):
    kernel = matmul()
    rng = np.random.default_rng(0)
    for M, N, K in sizes:
        a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
        b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        c = to_host(kernel(*to_device(a, b)))
        np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
        print(f"dynamic_gemm: ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
