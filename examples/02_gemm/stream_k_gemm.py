"""Stream-K: every block does the same number of steps along K, wherever that begins and ends among the tiles of C.

All tiles of C together are one row of steps, tile after tile, which is cut into equal pieces, one for each block. So no
block waits for others that have a tile more to compute. Where a cut goes through a tile, its parts meet in a second
kernel, always in the same order.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def stream_k(
    M, N, K, num_blocks=132, block_M=128, block_N=128, block_K=32, rows=8, dtype="float16", accum_dtype="float32"
):
    columns = -(-N // block_N)
    tiles = -(-M // block_M) * columns
    steps = -(-K // block_K)  # of one tile

    def first_step(block):
        return block * (tiles * steps) // num_blocks

    def block_of(step):
        return ((step + 1) * num_blocks - 1) // (tiles * steps)

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        # a block has at most two parts of tiles: one that others began, and one that others end
        parts = T.alloc_global((num_blocks, 2, block_M, block_N), accum_dtype)

        with T.Kernel(num_blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            for tile in T.serial(first_step(block) // steps, T.ceildiv(first_step(block + 1), steps)):
                by, bx = tile // columns, tile % columns
                begin = T.max(first_step(block) - tile * steps, 0)
                end = T.min(first_step(block + 1) - tile * steps, steps)

                T.clear(C_local)
                for k in T.Pipelined(begin, end, num_stages=3):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)

                if end - begin == steps:
                    T.copy(C_local, C[by * block_M, bx * block_N])
                else:
                    T.copy(C_local, parts[block, T.if_then_else(begin > 0, 0, 1), :, :])

        with T.Kernel(tiles, T.ceildiv(block_M, rows), threads=128) as (tile, strip):
            total = T.alloc_fragment((rows, block_N), accum_dtype)
            first = block_of(tile * steps)
            last = block_of(tile * steps + steps - 1)
            if first < last:
                T.copy(parts[first, 1, strip * rows, 0], total)
                for block in T.serial(first + 1, last + 1):
                    for i, j in T.Parallel(rows, block_N):
                        total[i, j] += parts[block, 0, strip * rows + i, j]
                T.copy(total, C[tile // columns * block_M + strip * rows, tile % columns * block_N])

    return gemm


def main(M=640, N=384, K=1024, num_blocks=11, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    c = to_host(stream_k(M, N, K, num_blocks, **tiles)(*to_device(a, b)))
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"stream_k_gemm: ({M}, {N}, {K}) in {num_blocks} equal pieces agrees with NumPy")


if __name__ == "__main__":
    main()
