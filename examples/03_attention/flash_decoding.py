"""Attention of one new query per head against a cache of keys and values, divided among blocks: flash decoding.

Heads in a group share a head of the cache: their queries are the rows of one tile, so that every key is read once.
One kernel attends to each split of the cache, a second one combines what the splits found.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[3])
def flash_decoding(
    batch, kv_heads, group, length, dim, splits, block_H=None, block_N=128, num_stages=2, threads=128, dtype="float16"
):
    """Queries of `kv_heads` groups of `group` heads, the first of `block_H` rows; a multiple of 8 without that."""
    block_H = T.ceildiv(group, 8) * 8 if block_H is None else block_H
    assert group <= block_H, "a tile has the queries of a group"
    scale = dim**-0.5 * 1.4426950408889634  # of exponents of 2
    share = -(-length // (splits * block_N)) * block_N  # positions of a split
    assert share * (splits - 1) < length, "every split has positions"
    cache = (batch, kv_heads, length, dim)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, kv_heads, group, dim), dtype),
        K: T.Tensor(cache, dtype),
        V: T.Tensor(cache, dtype),
        O: T.Tensor((batch, kv_heads, group, dim), dtype),
    ):
        part_out = T.alloc_global((batch, kv_heads, splits, group, dim), "float32")
        part_log2 = T.alloc_global((batch, kv_heads, splits, group), "float32")  # of the sums of exponentials

        with T.Kernel(splits, kv_heads, batch, threads=threads) as (s, h, b):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_H, block_N), "float32")
            P = T.alloc_fragment((block_H, block_N), dtype)
            out = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            previous = T.alloc_fragment((block_H,), "float32")
            rescale = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")
            tile_sum = T.alloc_fragment((block_H,), "float32")

            T.copy(Q[b, h, 0, 0], Q_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            first, stop = s * share, T.min(length, (s + 1) * share)
            for k in T.Pipelined(T.ceildiv(stop - first, block_N), num_stages=num_stages):
                T.copy(K[b, h, first + k * block_N, 0], K_shared)
                T.copy(V[b, h, first + k * block_N, 0], V_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                if length % block_N:
                    for i, j in T.Parallel(block_H, block_N):
                        S[i, j] = T.if_then_else(first + k * block_N + j < stop, S[i, j], -T.infinity("float32"))
                T.copy(row_max, previous)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    rescale[i] = T.exp2((previous[i] - row_max[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(S, tile_sum, dim=1)
                for i in T.Parallel(block_H):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= rescale[i]
                T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_H, dim):
                if i < group:
                    part_out[b, h, s, i, j] = out[i, j] / row_sum[i]
            for i in T.Parallel(block_H):
                if i < group:
                    part_log2[b, h, s, i] = T.log2(row_sum[i]) + row_max[i] * scale

        with T.Kernel(group, kv_heads, batch, threads=128) as (g, h, b):
            parts = T.alloc_fragment((splits, dim), "float32")
            weights = T.alloc_fragment((splits,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            out = T.alloc_fragment((dim,), "float32")
            T.copy(part_log2[b, h, :, g], weights)
            T.copy(part_out[b, h, :, g, :], parts)
            T.reduce_max(weights, largest)
            for s in T.Parallel(splits):
                weights[s] = T.exp2(weights[s] - largest[0])
            T.reduce_sum(weights, total)
            for s, j in T.Parallel(splits, dim):
                parts[s, j] *= weights[s]
            T.reduce_sum(parts, out, dim=0)
            for j in T.Parallel(dim):
                O[b, h, g, j] = out[j] / total[0]

    return main


def reference(q, k, v):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main(batch=2, kv_heads=2, group=8, length=1000, dim=64, splits=3, **tiles):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((batch, kv_heads, group, dim), dtype=np.float32).astype(np.float16)
    k, v = rng.standard_normal((2, batch, kv_heads, length, dim), dtype=np.float32).astype(np.float16)
    out = to_host(flash_decoding(batch, kv_heads, group, length, dim, splits, **tiles)(*to_device(q, k, v)))
    np.testing.assert_allclose(out.astype(np.float32), reference(q, k, v), rtol=1e-2, atol=1e-2)
    print(f"flash_decoding: {k.shape} in {splits} splits agrees with NumPy")


if __name__ == "__main__":
    main()
