"""Decoding of grouped heads from a paged cache: sequences of any length, whose keys and values lie in pages anywhere.

The cache is a pool of pages of `page` positions, and a table says which pages a sequence has. Each block owns a
group of heads, which share a head of the cache, and walks over the pages of its split, one at a time; a second kernel
combines the splits. Sequences differ in length: a split may have no page.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[5])
def paged_decoding(
    batch, kv_heads, group, pool, max_pages, dim, splits=1, page=64, block_H=None, stages=2, threads=128,
    dtype="float16",
):  # fmt: skip
    """Queries of `kv_heads` groups of `group` heads, the first of `block_H` rows; a multiple of 8 without that."""
    block_H = T.ceildiv(group, 8) * 8 if block_H is None else block_H
    assert group <= block_H, "a tile has the queries of a group"
    scale = dim**-0.5 * LOG2_E  # of exponents of 2

    @T.prim_func
    def main(
        Q: T.Tensor((batch, kv_heads, group, dim), dtype),
        K: T.Tensor((pool, page, kv_heads, dim), dtype),
        V: T.Tensor((pool, page, kv_heads, dim), dtype),
        pages: T.Tensor((batch, max_pages), "int32"),
        lengths: T.Tensor((batch,), "int32"),
        O: T.Tensor((batch, kv_heads, group, dim), dtype),
    ):
        part_out = T.alloc_global((batch, kv_heads, splits, group, dim), "float32")
        part_log2 = T.alloc_global((batch, kv_heads, splits, group), "float32")  # of the sums of exponentials

        with T.Kernel(splits, kv_heads, batch, threads=threads) as (s, h, b):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_shared = T.alloc_shared((page, dim), dtype)
            V_shared = T.alloc_shared((page, dim), dtype)
            S = T.alloc_fragment((block_H, page), "float32")
            P = T.alloc_fragment((block_H, page), dtype)
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

            T.copy(Q[b, h, 0, 0], Q_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(stop - first, num_stages=stages):
                T.copy(K[pages[b, first + k], :, h, :], K_shared)
                T.copy(V[pages[b, first + k], :, h, :], V_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
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
                T.copy(S, P)
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= rescale[i]
                T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_H, dim):
                if i < group:
                    part_out[b, h, s, i, j] = out[i, j] / T.max(row_sum[i], 1)  # less only without a page
            for i in T.Parallel(block_H):
                if i < group:
                    part_log2[b, h, s, i] = T.log2(row_sum[i]) + row_max[i]  # -inf without a page

        with T.Kernel(group, kv_heads, batch, threads=128) as (i, h, b):
            out = T.alloc_fragment((dim,), "float32")
            largest = T.alloc_var("float32", init=-1e30)
            total = T.alloc_var("float32", init=0.0)
            for s in T.serial(splits):
                largest = T.max(largest, part_log2[b, h, s, i])
            T.clear(out)
            for s in T.serial(splits):
                weight = T.exp2(part_log2[b, h, s, i] - largest)
                total += weight
                for j in T.Parallel(dim):
                    out[j] += part_out[b, h, s, i, j] * weight
            for j in T.Parallel(dim):
                O[b, h, i, j] = out[j] / total

    return main


def reference(q, k, v, pages, lengths):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    out = np.empty_like(q)
    for b, length in enumerate(lengths):
        keys, values = (x[pages[b]].reshape(-1, *x.shape[2:])[:length].swapaxes(0, 1) for x in (k, v))
        scores = q[b] @ keys.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[b] = weights / weights.sum(axis=-1, keepdims=True) @ values
    return out


def main(lengths=(300, 1, 130), kv_heads=2, group=8, dim=64, splits=3, page=64, **tiles):
    rng = np.random.default_rng(0)
    batch, max_pages = len(lengths), -(-max(lengths) // page)
    pool = batch * max_pages + 1
    shapes = ((batch, kv_heads, group, dim), (pool, page, kv_heads, dim), (pool, page, kv_heads, dim))
    arrays = [rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes]
    arrays += [rng.permutation(pool)[:-1].reshape(batch, max_pages).astype(np.int32), np.array(lengths, np.int32)]
    kernel = paged_decoding(batch, kv_heads, group, pool, max_pages, dim, splits, page, **tiles)
    out = to_host(kernel(*to_device(*arrays)))
    np.testing.assert_allclose(out.astype(np.float32), reference(*arrays), rtol=2e-2, atol=1e-2)
    print(f"paged_decoding: sequences of {', '.join(map(str, lengths))} positions in {splits} splits agree with NumPy")


if __name__ == "__main__":
    main()
