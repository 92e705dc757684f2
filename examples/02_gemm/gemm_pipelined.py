"""Four ways to overlap copies with the product; they differ in speed and never in the result."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

# where a GPU has more multiprocessors than there are tiles, blocks may share a tile's sum, which adds in another order
WHOLE_TILES = {"tl.split": 1, "tl.workspace_split": 1}


@tilelang.jit(out_idx=[-1], pass_configs=WHOLE_TILES)
def no_pipeline(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    """Load, then compute, tile after tile."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1], pass_configs=WHOLE_TILES)
def double_buffer(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    """Two versions of each tile by hand: the next one is loaded while the current one is multiplied."""
    num_tiles = -(-K // block_K)

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared([2, block_M, block_K], dtype)
            B_shared = T.alloc_shared([2, block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], accum_dtype)

            T.clear(C_local)
            T.copy(A[by * block_M, 0], A_shared[0])
            T.copy(B[0, bx * block_N], B_shared[0])
            for k in T.serial(num_tiles):
                curr = k % 2
                next_buf = (k + 1) % 2
                if k + 1 < num_tiles:
                    T.copy(A[by * block_M, (k + 1) * block_K], A_shared[next_buf])
                    T.copy(B[(k + 1) * block_K, bx * block_N], B_shared[next_buf])
                T.gemm(A_shared[curr], B_shared[curr], C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1], pass_configs=WHOLE_TILES)
def auto_pipeline(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    """`with T.pipeline(...)` turns the loop inside it into a pipeline."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            with T.pipeline(num_stages=2):
                for k in T.serial(T.ceildiv(K, block_K)):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1], pass_configs=WHOLE_TILES)
def multi_stage(M, N, K, block_M, block_N, block_K, num_stages=3, dtype="float16", accum_dtype="float32"):
    """`T.Pipelined` with as many versions of the tiles in flight as `num_stages` says."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(M=512, N=512, K=512, block_M=128, block_N=128, block_K=32):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    blocks = (block_M, block_N, block_K)
    variants = {
        "no pipeline": no_pipeline(M, N, K, *blocks),
        "double buffer": double_buffer(M, N, K, *blocks),
        "auto pipeline": auto_pipeline(M, N, K, *blocks),
        "2 stages": multi_stage(M, N, K, *blocks, num_stages=2),
        "4 stages": multi_stage(M, N, K, *blocks, num_stages=4),
    }
    tensors = to_device(a, b)
    baseline = to_host(variants["no pipeline"](*tensors))
    np.testing.assert_allclose(baseline.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    for name, kernel in variants.items():
        np.testing.assert_array_equal(to_host(kernel(*tensors)), baseline)
        print(f"gemm_pipelined: {name:<14} gives the same bits")


if __name__ == "__main__":
    main()
