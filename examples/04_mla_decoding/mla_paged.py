"""Decoding with absorbed Multi-Head Latent Attention from a paged cache: sequences of any length, in splits.

The cache is a pool of pages of `page` positions, and a table says which pages a sequence has. Each block owns `block_H`
heads of a sequence and walks over the pages of its split, one at a time; a second kernel combines the splits. Sequences
differ in length: a split may have no page.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[6])
def mla_paged(
    batch, heads, pool, max_pages, dim, rope_dim, splits=1, page=64, block_H=64, stages=2, threads=256, dtype="float16"
):
    scale = (dim + rope_dim) ** -0.5 * LOG2_E  # of exponents of 2

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope_dim), dtype),
        KV: T.Tensor((pool, page, dim), dtype),
        K_rope: T.Tensor((pool, page, rope_dim), dtype),
        pages: T.Tensor((batch, max_pages), "int32"),
        lengths: T.Tensor((batch,), "int32"),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        part_out = T.alloc_global((batch, splits, heads, dim), "float32")
        part_log2 = T.alloc_global((batch, splits, heads), "float32")  # of the sums of exponentials

        with T.Kernel(T.ceildiv(heads, block_H), splits, batch, threads=threads) as (h, s, b):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            Q_rope_shared = T.alloc_shared((block_H, rope_dim), dtype)
            KV_shared = T.alloc_shared((page, dim), dtype)
            K_rope_shared = T.alloc_shared((page, rope_dim), dtype)
            P_shared = T.alloc_shared((block_H, page), dtype)
            S = T.alloc_fragment((block_H, page), "float32")
            out = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            previous = T.alloc_fragment((block_H,), "float32")
            rescale = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")
            tile_sum = T.alloc_fragment((block_H,), "float32")

            length = lengths[b]
            used = T.ceildiv(length, page)
            share = T.ceildiv(used, splits)
            first, stop = T.min(s * share, used), T.min((s + 1) * share, used)

            T.copy(Q[b, h * block_H, 0], Q_shared)
            T.copy(Q_rope[b, h * block_H, 0], Q_rope_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(stop - first, num_stages=stages):
                T.copy(KV[pages[b, first + k], 0, 0], KV_shared)
                T.copy(K_rope[pages[b, first + k], 0, 0], K_rope_shared)
                T.gemm(Q_shared, KV_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_rope_shared, K_rope_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, page):
                    S[i, j] = T.if_then_else((first + k) * page + j < length, S[i, j] * scale, -T.infinity("float32"))
                T.copy(row_max, previous)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    rescale[i] = T.exp2(previous[i] - row_max[i])
                for i, j in T.Parallel(block_H, page):
                    S[i, j] = T.exp2(S[i, j] - row_max[i])
                T.reduce_sum(S, tile_sum, dim=1)
                for i in T.Parallel(block_H):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                T.copy(S, P_shared)
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= rescale[i]
                T.gemm(P_shared, KV_shared, out, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] /= T.max(row_sum[i], 1)  # less only without a page: the largest score adds 1
            for i in T.Parallel(block_H):
                row_sum[i] = T.log2(row_sum[i]) + row_max[i]  # -inf without a page
            T.copy(out, part_out[b, s, h * block_H, 0])
            T.copy(row_sum, part_log2[b, s, h * block_H])

        with T.Kernel(heads, batch, threads=128) as (h, b):
            out = T.alloc_fragment((dim,), "float32")
            largest = T.alloc_var("float32", init=-1e30)
            total = T.alloc_var("float32", init=0.0)
            for s in T.serial(splits):
                largest = T.max(largest, part_log2[b, s, h])
            T.clear(out)
            for s in T.serial(splits):
                weight = T.exp2(part_log2[b, s, h] - largest)
                total += weight
                for j in T.Parallel(dim):
                    out[j] += part_out[b, s, h, j] * weight
            for j in T.Parallel(dim):
                O[b, h, j] = out[j] / total

    return main


def reference(q, q_rope, kv, k_rope, pages, lengths):
    q, q_rope, kv, k_rope = (x.astype(np.float32) for x in (q, q_rope, kv, k_rope))
    out = np.empty_like(q)
    for b, length in enumerate(lengths):
        keys = kv[pages[b]].reshape(-1, kv.shape[-1])[:length]
        rope = k_rope[pages[b]].reshape(-1, k_rope.shape[-1])[:length]
        scores = (q[b] @ keys.T + q_rope[b] @ rope.T) / np.sqrt(q.shape[-1] + q_rope.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[b] = weights / weights.sum(axis=-1, keepdims=True) @ keys
    return out


def main(lengths=(300, 1, 130), heads=80, dim=128, rope_dim=64, splits=3, page=64, **tiles):
    rng = np.random.default_rng(0)
    batch, max_pages = len(lengths), -(-max(lengths) // page)
    pool = batch * max_pages + 1
    shapes = ((batch, heads, dim), (batch, heads, rope_dim), (pool, page, dim), (pool, page, rope_dim))
    arrays = [rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes]
    arrays += [rng.permutation(pool)[:-1].reshape(batch, max_pages).astype(np.int32), np.array(lengths, np.int32)]
    kernel = mla_paged(batch, heads, pool, max_pages, dim, rope_dim, splits, page, **tiles)
    out = to_host(kernel(*to_device(*arrays)))
    np.testing.assert_allclose(out.astype(np.float32), reference(*arrays), rtol=2e-2, atol=1e-2)
    print(f"mla_paged: sequences of {', '.join(map(str, lengths))} positions in {splits} splits agree with NumPy")


if __name__ == "__main__":
    main()
