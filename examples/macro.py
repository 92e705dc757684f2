"""Macros: pieces of kernel with a name. They are inlined, take buffers and values, and may return values."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@T.macro
def load_tile(source, row, col, tile):
    T.copy(source[row, col], tile)


@T.macro
def swish(x):
    return x * T.sigmoid(x)


def epilogue(activation, block_M, block_N):
    """A macro made for one activation: macros are values, and close over Python values like any function."""

    @T.macro
    def apply(tile):
        for i, j in T.Parallel(block_M, block_N):
            tile[i, j] = activation(tile[i, j])

    return apply


@tilelang.jit(out_idx=[-1])
def matmul_swish(M, N, K, block_M=64, block_N=64, block_K=32, dtype="float16", accum_dtype="float32"):
    apply_swish = epilogue(swish, block_M, block_N)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                load_tile(A, by * block_M, k * block_K, A_shared)
                load_tile(B, k * block_K, bx * block_N, B_shared)
                T.gemm(A_shared, B_shared, C_local)
            apply_swish(C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def main(M=200, N=130, K=100):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)

    c = to_host(matmul_swish(M, N, K)(*to_device(a, b)))

    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c.astype(np.float32), product / (1 + np.exp(-product)), rtol=1e-2, atol=1e-1)
    print(f"macro: swish(A @ B) with ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
