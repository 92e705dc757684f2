"""GEMM four times: naive, tiled, in tensor-core form, and with sizes that the tiles do not divide."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def naive(M, N, K, block_M=16, block_N=16, dtype="float16", accum_dtype="float32"):
    """No tiles: every element of C reads its row of A and its column of B from global memory."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                total = T.cast(0, accum_dtype)
                for k in T.serial(K):
                    total += T.cast(A[by * block_M + i, k], accum_dtype) * T.cast(B[k, bx * block_N + j], accum_dtype)
                C[by * block_M + i, bx * block_N + j] = total

    return gemm


@tilelang.jit(out_idx=[-1])
def tiled(M, N, K, block_M=64, block_N=64, block_K=32, dtype="float16", accum_dtype="float32"):
    """Tiles of A and B are brought to shared memory once and multiplied by loops written out."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for ko in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                for k in T.serial(block_K):
                    for i, j in T.Parallel(block_M, block_N):
                        C_local[i, j] += T.cast(A_shared[i, k], accum_dtype) * T.cast(B_shared[k, j], accum_dtype)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1])
def tensor_core(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    """The same tiles given to `T.gemm`, which picks the matrix instructions of the machine."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def check(name, kernel, M, N, K):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    c = to_host(kernel(*to_device(a, b)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"gemm_simple: {name:<12} ({M}, {N}, {K}) agrees with NumPy")


def main(size=256, rectangle=(300, 200, 77)):
    M, N, K = rectangle
    check("naive", naive(size, size, size), size, size, size)
    check("tiled", tiled(size, size, size), size, size, size)
    check("tensor core", tensor_core(size, size, size), size, size, size)
    check("rectangular", tensor_core(M, N, K), M, N, K)
    check("rectangular", tiled(M, N, K), M, N, K)


if __name__ == "__main__":
    main()
