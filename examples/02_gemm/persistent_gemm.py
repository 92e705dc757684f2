"""GEMM by blocks that stay: as many as the GPU runs at once, each of which computes one tile of C after the other.

Blocks that stay pay for their start once, and a block may load its next tile while it stores the last one. On Hopper
the compiler makes the grid of a plain GEMM persistent by itself (`gemm_simple.py`); here the loop over tiles is in the
program, once by `T.Persistent` and once written out.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def persistent(
    M, N, K, num_blocks=132, block_M=128, block_N=128, block_K=32, group_size=8, dtype="float16",
    accum_dtype="float32",
):  # fmt: skip
    """`T.Persistent` deals tiles out, `group_size` rows of them at a time, so that neighbors share the L2 cache."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(num_blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            tiles = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
            for by, bx in T.Persistent(tiles, num_blocks, block, group_size):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1])
def loop_over_tiles(
    M, N, K, num_blocks=132, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"
):
    """The same with the order in sight: block b computes the tiles b, b + num_blocks, b + 2 * num_blocks, ..."""
    columns = -(-N // block_N)
    tiles = -(-M // block_M) * columns

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(num_blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            for turn in T.serial(T.ceildiv(tiles - block, num_blocks)):
                tile = turn * num_blocks + block
                by, bx = tile // columns, tile % columns
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(M=1024, N=768, K=256, num_blocks=20, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    for name, make in {"T.Persistent": persistent, "a loop over tiles": loop_over_tiles}.items():
        c = to_host(make(M, N, K, num_blocks, **tiles)(*to_device(a, b)))
        np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
        print(f"persistent_gemm: {name} ({M}, {N}, {K}) by {num_blocks} blocks agrees with NumPy")


if __name__ == "__main__":
    main()
