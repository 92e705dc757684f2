"""Many products of one size in one launch: the grid has an extent for the batch."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def batched(batch, M, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(
        A: T.Tensor((batch, M, K), dtype),
        B: T.Tensor((batch, K, N), dtype),
        C: T.Tensor((batch, M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[bz, by * block_M, k * block_K], A_shared)
                T.copy(B[bz, k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[bz, by * block_M, bx * block_N])

    return gemm


def main(batch=6, M=200, N=256, K=160, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batch, M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((batch, K, N), dtype=np.float32).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    c = to_host(batched(batch, M, N, K, **tiles)(*to_device(a, b)))
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"batched_gemm: {batch} products of ({M}, {N}, {K}) agree with NumPy")


if __name__ == "__main__":
    main()
