"""A tiled GEMM that finds its own tile sizes: one line above the kernel, and what the search says about it."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.autotuner import gemm_configs
from tilelang.testing import to_device, to_host


@tilelang.autotune(configs=gemm_configs, budget=60)
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """The GEMM of gemm_simple.py, with every choice left open."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(M=512, N=512, K=512, **given):
    kernel = matmul(M, N, K, **given)  # tunables that are given are not tuned

    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    c = to_host(kernel(*to_device(a, b)))
    np.testing.assert_allclose(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-1)

    if kernel.latency is not None:
        print(matmul.report(M, N, K, **given))
    print(f"autotuned_gemm: ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
