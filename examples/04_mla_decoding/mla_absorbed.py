"""Decoding with Multi-Head Latent Attention where the projections are absorbed: all heads read one latent cache.

A query has a part of `dim`, already multiplied by the projection of keys, and a rotary part of `rope_dim`; the cache
has one vector of each part per position, and its first part is the values, too. Each block owns `block_H` heads and
walks over the cache. With `splits` > 1 the cache is divided among blocks, and a second kernel combines what they found.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


def attend_tile(length, dim, rope_dim, scale, block_H, block_N, num_stages, dtype):
    """The macro by which a block attends to some positions of the cache; `scale` is that of exponents of 2."""

    @T.macro
    def attend(Q, Q_rope, KV, K_rope, b, h, first, stop, out, row_max, row_sum):
        """The unscaled output of `block_H` heads over positions from `first` to `stop`, with maxima and sums."""
        Q_shared = T.alloc_shared((block_H, dim), dtype)
        Q_rope_shared = T.alloc_shared((block_H, rope_dim), dtype)
        KV_shared = T.alloc_shared((block_N, dim), dtype)
        K_rope_shared = T.alloc_shared((block_N, rope_dim), dtype)
        P_shared = T.alloc_shared((block_H, block_N), dtype)
        S = T.alloc_fragment((block_H, block_N), "float32")
        previous = T.alloc_fragment((block_H,), "float32")
        rescale = T.alloc_fragment((block_H,), "float32")
        tile_sum = T.alloc_fragment((block_H,), "float32")

        T.copy(Q[b, h * block_H, 0], Q_shared)
        T.copy(Q_rope[b, h * block_H, 0], Q_rope_shared)
        T.clear(out)
        T.clear(row_sum)
        T.fill(row_max, -1e30)
        for k in T.Pipelined(T.ceildiv(stop - first, block_N), num_stages=num_stages):
            T.copy(KV[b, first + k * block_N, 0], KV_shared)
            T.copy(K_rope[b, first + k * block_N, 0], K_rope_shared)
            T.gemm(Q_shared, KV_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.gemm(Q_rope_shared, K_rope_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
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
            T.copy(S, P_shared)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] *= rescale[i]
            T.gemm(P_shared, KV_shared, out, policy=T.GemmWarpPolicy.FullCol)

    return attend


@tilelang.jit(out_idx=[4])
def mla_absorbed(
    batch, heads, length, dim, rope_dim, splits=1, block_H=64, block_N=64, num_stages=2, threads=256, dtype="float16"
):
    scale = (dim + rope_dim) ** -0.5 * LOG2_E  # of exponents of 2
    share = -(-length // (splits * block_N)) * block_N  # positions of a split
    attend = attend_tile(length, dim, rope_dim, scale, block_H, block_N, num_stages, dtype)

    @T.prim_func
    def whole(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope_dim), dtype),
        KV: T.Tensor((batch, length, dim), dtype),
        K_rope: T.Tensor((batch, length, rope_dim), dtype),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), batch, threads=threads) as (h, b):
            out = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")
            attend(Q, Q_rope, KV, K_rope, b, h, 0, length, out, row_max, row_sum)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] /= row_sum[i]
            T.copy(out, O[b, h * block_H, 0])

    @T.prim_func
    def split(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope_dim), dtype),
        KV: T.Tensor((batch, length, dim), dtype),
        K_rope: T.Tensor((batch, length, rope_dim), dtype),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        part_out = T.alloc_global((batch, splits, heads, dim), "float32")
        part_log2 = T.alloc_global((batch, splits, heads), "float32")  # of the sums of exponentials

        with T.Kernel(T.ceildiv(heads, block_H), splits, batch, threads=threads) as (h, s, b):
            out = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")
            attend(Q, Q_rope, KV, K_rope, b, h, s * share, T.min(length, (s + 1) * share), out, row_max, row_sum)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] /= row_sum[i]
            for i in T.Parallel(block_H):
                row_sum[i] = T.log2(row_sum[i]) + row_max[i] * scale
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

    assert share * (splits - 1) < length, "every split has positions"
    return whole if splits == 1 else split


def reference(q, q_rope, kv, k_rope):
    q, q_rope, kv, k_rope = (x.astype(np.float32) for x in (q, q_rope, kv, k_rope))
    scores = q @ kv.swapaxes(-1, -2) + q_rope @ k_rope.swapaxes(-1, -2)
    scores /= np.sqrt(q.shape[-1] + q_rope.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ kv


def main(batch=2, heads=80, length=300, dim=128, rope_dim=64, **tiles):
    rng = np.random.default_rng(0)
    shapes = ((batch, heads, dim), (batch, heads, rope_dim), (batch, length, dim), (batch, length, rope_dim))
    arrays = [rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes]
    for splits in (1, 3):
        kernel = mla_absorbed(batch, heads, length, dim, rope_dim, splits, **tiles)
        out = to_host(kernel(*to_device(*arrays)))
        np.testing.assert_allclose(out.astype(np.float32), reference(*arrays), rtol=2e-2, atol=1e-2)
        print(f"mla_absorbed: {heads} heads, {length} cached positions in {splits} splits, agrees with NumPy")


if __name__ == "__main__":
    main()
