"""Attention as tile programs: two gemms, the second of which reads what the first gives, with running maxima and sums."""

import numpy as np

import tilelang.language as T


def flash(
    heads, length, dim, block_m, block_n, *,
    causal=False, threads=128, num_stages=2, dim_v=None, dtype="float16", places=(None, None),
):  # fmt: skip
    """Flash attention over (heads, length, dim), with values of `dim_v`; in 8 bits they lie as (heads, dim_v, length).

    Keys beyond the last are masked; `places` are `order` and `stage` of the loop.
    """
    order, stage = places
    dim_v = dim_v or dim
    shape, narrow = (heads, length, dim), dtype.startswith("float8")
    shape_v, tile_v = ((dim_v, length), (dim_v, block_n)) if narrow else ((length, dim_v), (block_n, dim_v))
    scale = 1.44269504 / dim**0.5

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor((heads, *shape_v), dtype),
        O: T.Tensor((heads, length, dim_v), "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_m), heads, threads=threads) as (bx, by):
            q = T.alloc_shared((block_m, dim), dtype)
            k = T.alloc_shared((block_n, dim), dtype)
            v = T.alloc_shared(tile_v, dtype)
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), dtype)
            sums = T.alloc_fragment((block_m, dim_v), "float32")
            top = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            factor = T.alloc_fragment((block_m,), "float32")
            part = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            T.copy(Q[by, bx * block_m, 0], q)
            T.clear(sums)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * block_m, block_n) if causal else T.ceildiv(length, block_n)
            for step in T.Pipelined(steps, num_stages=num_stages, order=order, stage=stage):
                T.copy(K[by, step * block_n, 0], k)
                if causal:
                    for i, j in T.Parallel(block_m, block_n):
                        seen = bx * block_m + i >= step * block_n + j
                        scores[i, j] = T.if_then_else(seen, 0.0, -T.infinity("float32"))
                elif length % block_n:
                    for i, j in T.Parallel(block_m, block_n):
                        scores[i, j] = T.if_then_else(step * block_n + j < length, 0.0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if narrow:
                    T.copy(V[by, 0, step * block_n], v)
                else:
                    T.copy(V[by, step * block_n, 0], v)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    factor[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_m, block_n):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_m, dim_v):
                    sums[i, j] = sums[i, j] * factor[i]
                T.gemm(weights, v, sums, transpose_B=narrow, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim_v):
                sums[i, j] = sums[i, j] / total[i]
            T.copy(sums, O[by, bx * block_m, 0])

    return main


def attention(q, k, v, causal):
    """The same in float64."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def latent(heads, length, dim, rope, block_n, *, threads=256, num_stages=2):
    """Decoding of multi-head latent attention: all heads share the keys, which are the values, too, and more keys."""
    scale = 1.44269504 / (dim + rope) ** 0.5

    @T.prim_func
    def main(
        Q: T.Tensor((heads, dim), "float16"),
        Q_rope: T.Tensor((heads, rope), "float16"),
        KV: T.Tensor((length, dim), "float16"),
        K_rope: T.Tensor((length, rope), "float16"),
        O: T.Tensor((heads, dim), "float16"),
    ):
        with T.Kernel(1, threads=threads):
            q = T.alloc_shared((heads, dim), "float16")
            q_rope = T.alloc_shared((heads, rope), "float16")
            kv = T.alloc_shared((block_n, dim), "float16")
            k_rope = T.alloc_shared((block_n, rope), "float16")
            weights = T.alloc_shared((heads, block_n), "float16")
            scores = T.alloc_fragment((heads, block_n), "float32")
            sums = T.alloc_fragment((heads, dim), "float32")
            top = T.alloc_fragment((heads,), "float32")
            before = T.alloc_fragment((heads,), "float32")
            factor = T.alloc_fragment((heads,), "float32")
            part = T.alloc_fragment((heads,), "float32")
            total = T.alloc_fragment((heads,), "float32")
            T.copy(Q, q)
            T.copy(Q_rope, q_rope)
            T.clear(sums)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, block_n), num_stages=num_stages):
                T.copy(KV[step * block_n, 0], kv)
                T.copy(K_rope[step * block_n, 0], k_rope)
                T.gemm(q, kv, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                T.gemm(q_rope, k_rope, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(heads):
                    factor[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(heads, block_n):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                T.copy(scores, weights)
                for i in T.Parallel(heads):
                    total[i] = total[i] * factor[i] + part[i]
                for i, j in T.Parallel(heads, dim):
                    sums[i, j] = sums[i, j] * factor[i]
                T.gemm(weights, kv, sums, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(heads, dim):
                sums[i, j] = sums[i, j] / total[i]
            T.copy(sums, O)

    return main


def latent_attention(q, q_rope, kv, k_rope):
    """The same in float64."""
    q, q_rope, kv, k_rope = (each.astype(np.float64) for each in (q, q_rope, kv, k_rope))
    scores = (q @ kv.T + q_rope @ k_rope.T) / (q.shape[1] + q_rope.shape[1]) ** 0.5
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ kv / weights.sum(axis=-1, keepdims=True)
