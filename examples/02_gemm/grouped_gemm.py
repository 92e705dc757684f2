"""Products of different heights in one launch, as a layer of experts needs them: rows of A meet the B of their group.

The rows of all groups stand in one matrix, group after group, and only the device knows how many each has: one compiled
kernel serves all lists of sizes with the same sum. A first small kernel lists the tiles, and the grid of the second has
room for the worst list; blocks for which no tile is left have nothing to do.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def grouped(groups, total, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    """`total` rows in all; group g has the rows `offsets[g]` to `offsets[g + 1]` of A and of C."""
    most_tiles = total // block_M + groups  # each group may end in a tile that is not full

    @T.prim_func
    def gemm(
        A: T.Tensor((total, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        C: T.Tensor((total, N), dtype),
    ):
        group_of = T.alloc_global((most_tiles,), "int32")
        first_row = T.alloc_global((most_tiles,), "int32")

        with T.Kernel(1, threads=128) as _:
            first_tile = T.alloc_shared((groups + 1,), "int32")  # of each group, and behind the last
            for group in T.Parallel(groups + 1):
                rows = offsets[group] - offsets[T.max(group - 1, 0)]
                first_tile[group] = T.ceildiv(rows, block_M)
            T.cumsum(first_tile)
            for tile in T.Parallel(most_tiles):
                group = T.alloc_var("int32", init=0)
                for before in T.serial(groups):
                    group += T.if_then_else(first_tile[before + 1] <= tile, 1, 0)
                group_of[tile] = group  # `groups` where no tile is left
                if group < groups:
                    first_row[tile] = offsets[group] + (tile - first_tile[group]) * block_M

        with T.Kernel(T.ceildiv(N, block_N), most_tiles, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(4)  # neighbors read the same rows of A, or the same columns of B

            group = group_of[by]
            if group < groups:
                row = first_row[by]
                end = offsets[group + 1]
                T.assume(row >= 0)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[row, k * block_K], A_shared)
                    T.copy(B[group, k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                if row + block_M <= end:
                    T.copy(C_local, C[row, bx * block_N])
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        if row + i < end:  # the rows behind belong to the next group
                            C[row + i, bx * block_N + j] = C_local[i, j]

    return gemm


def main(sizes=(100, 0, 257, 31, 124), N=256, K=160, **tiles):
    rng = np.random.default_rng(0)
    groups, total = len(sizes), sum(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    a = rng.standard_normal((total, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((groups, K, N), dtype=np.float32).astype(np.float16)
    spans = zip(offsets[:-1], offsets[1:], b.astype(np.float32), strict=True)
    expected = np.concatenate([a[first:last].astype(np.float32) @ weights for first, last, weights in spans])

    c = to_host(grouped(groups, total, N, K, **tiles)(*to_device(a, b, offsets)))
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"grouped_gemm: {groups} groups of {', '.join(map(str, sizes))} rows agree with NumPy")


if __name__ == "__main__":
    main()
