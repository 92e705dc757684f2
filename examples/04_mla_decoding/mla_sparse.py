"""Multi-Head Latent Attention that reads chosen positions only: every query brings the indices of its keys.

A block owns a query and `block_H` of its heads. It gathers `block_N` cached vectors at a time; their first `dim`
elements are the values, too, the rest is the rotary part. An index below 0 names no position and is masked out.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[3])
def mla_sparse(
    queries, heads, length, chosen, dim, rope_dim, block_H=64, block_N=64, num_stages=1, threads=256, dtype="float16"
):
    scale = (dim + rope_dim) ** -0.5 * LOG2_E  # of exponents of 2

    @T.prim_func
    def main(
        Q: T.Tensor((queries, heads, dim + rope_dim), dtype),
        KV: T.Tensor((length, dim + rope_dim), dtype),
        indices: T.Tensor((queries, chosen), "int32"),
        O: T.Tensor((queries, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), queries, threads=threads) as (h, q):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            Q_rope_shared = T.alloc_shared((block_H, rope_dim), dtype)
            KV_shared = T.alloc_shared((block_N, dim), dtype)
            K_rope_shared = T.alloc_shared((block_N, rope_dim), dtype)
            P_shared = T.alloc_shared((block_H, block_N), dtype)
            named = T.alloc_shared((block_N,), "bool")
            S = T.alloc_fragment((block_H, block_N), "float32")
            out = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            previous = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")
            tile_sum = T.alloc_fragment((block_H,), "float32")

            T.copy(Q[q, h * block_H, 0], Q_shared)
            T.copy(Q[q, h * block_H, dim], Q_rope_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(T.ceildiv(chosen, block_N), num_stages=num_stages):
                for j in T.Parallel(block_N):
                    named[j] = (k * block_N + j < chosen) & (indices[q, k * block_N + j] >= 0)
                for j, d in T.Parallel(block_N, dim):
                    KV_shared[j, d] = KV[T.max(indices[q, k * block_N + j], 0), d]
                for j, d in T.Parallel(block_N, rope_dim):
                    K_rope_shared[j, d] = KV[T.max(indices[q, k * block_N + j], 0), dim + d]
                T.gemm(Q_shared, KV_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_rope_shared, K_rope_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.if_then_else(named[j], S[i, j] * scale, -T.infinity("float32"))
                T.copy(row_max, previous)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.exp2(S[i, j] - row_max[i])
                T.reduce_sum(S, tile_sum, dim=1)
                for i in T.Parallel(block_H):
                    row_sum[i] = row_sum[i] * T.exp2(previous[i] - row_max[i]) + tile_sum[i]
                T.copy(S, P_shared)
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= T.exp2(previous[i] - row_max[i])
                T.gemm(P_shared, KV_shared, out, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                out[i, j] /= row_sum[i]
            T.copy(out, O[q, h * block_H, 0])

    return main


def reference(q, kv, indices, dim):
    q, kv = (x.astype(np.float32) for x in (q, kv))
    chosen = kv[np.maximum(indices, 0)]  # of each query
    scores = q @ chosen.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(indices[:, None, :] >= 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ chosen[..., :dim]


def main(queries=5, heads=80, length=500, chosen=200, dim=128, rope_dim=64, **tiles):
    rng = np.random.default_rng(0)
    q, kv = (
        rng.standard_normal(shape, dtype=np.float32).astype(np.float16)
        for shape in ((queries, heads, dim + rope_dim), (length, dim + rope_dim))
    )
    indices = np.stack([rng.permutation(length)[:chosen] for _ in range(queries)]).astype(np.int32)
    indices[0, chosen // 3 :] = -1  # a query near the beginning of its sequence has fewer keys
    out = to_host(mla_sparse(queries, heads, length, chosen, dim, rope_dim, **tiles)(*to_device(q, kv, indices)))
    np.testing.assert_allclose(out.astype(np.float32), reference(q, kv, indices, dim), rtol=2e-2, atol=1e-2)
    print(f"mla_sparse: {queries} queries read {chosen} of {length} positions each, agrees with NumPy")


if __name__ == "__main__":
    main()
