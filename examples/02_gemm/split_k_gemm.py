"""GEMM whose sums are split among blocks: for a small C and a long K, where tiles of C alone leave the GPU idle.

Each of `splits` blocks adds up its part of K for the same tile of C. The parts meet either by atomic additions, or in a
workspace that a second kernel sums, always in the same order, so that results are the same bits each time.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def by_atomics(M, N, K, splits=4, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    """C, in the dtype of the sums, is cleared by a first kernel, and every block adds its part."""
    steps = -(-K // block_K)
    steps_each = -(-steps // splits)

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                C[by * block_M + i, bx * block_N + j] = 0

        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for step in T.Pipelined(steps_each, num_stages=3):
                k = (part * steps_each + step) * block_K  # beyond K there are zeros
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return gemm


@tilelang.jit(out_idx=[-1])
def by_workspace(
    M, N, K, splits=4, block_M=128, block_N=128, block_K=32, rows=8, dtype="float16", accum_dtype="float32"
):
    """The parts go to a workspace, which the runtime allocates, and a second kernel sums them."""
    steps = -(-K // block_K)
    steps_each = -(-steps // splits)

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        parts = T.alloc_global((splits, M, N), accum_dtype)

        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for step in T.Pipelined(steps_each, num_stages=3):
                k = (part * steps_each + step) * block_K
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, parts[part, by * block_M, bx * block_N])

        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, rows), threads=128) as (bx, by):
            total = T.alloc_fragment((rows, block_N), accum_dtype)
            T.clear(total)
            for part in T.serial(splits):
                for i, j in T.Parallel(rows, block_N):
                    total[i, j] += parts[part, by * rows + i, bx * block_N + j]
            T.copy(total, C[by * rows, bx * block_N])

    return gemm


def main(M=128, N=256, K=4096, splits=8, **tiles):
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (M, K)).astype(np.float16)  # sums of integers are exact in whatever order
    b = rng.integers(-4, 5, (K, N)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    for name, make in {"atomics": by_atomics, "a workspace": by_workspace}.items():
        c = to_host(make(M, N, K, splits, **tiles)(*to_device(a, b)))
        np.testing.assert_array_equal(c, expected.astype(c.dtype))
        print(f"split_k_gemm: ({M}, {N}, {K}) in {splits} parts that meet by {name} agrees with NumPy")


if __name__ == "__main__":
    main()
