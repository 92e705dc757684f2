"""Attention as models use it: grouped heads, sliding windows, soft caps, linear biases, sinks, and what backward needs.

A query sees the keys up to its own position, the last `window` of them if one is given. The variants change the scores
between two gemms of a usual pipelined loop, so that they cost a few instructions per score:

    soft cap:  cap * tanh(score / cap)
    ALiBi:     score - slope[head] * distance
    sink:      exp(sink[head]) is added to the sum of exponentials, as if by a key without a value

The second result is the logarithm of that sum.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[5, 6])
def attention(
    batch,
    kv_heads,
    group,
    length,
    dim,
    window=None,
    softcap=None,
    alibi=False,
    sinks=False,
    block_M=64,
    block_N=64,
    num_stages=2,
    threads=128,
    dtype="float16",
):
    heads = kv_heads * group
    scale = dim**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, length, dim), dtype),
        K: T.Tensor((batch, kv_heads, length, dim), dtype),
        V: T.Tensor((batch, kv_heads, length, dim), dtype),
        slopes: T.Tensor((heads,), "float32"),
        sink: T.Tensor((heads,), "float32"),
        O: T.Tensor((batch, heads, length, dim), dtype),
        lse: T.Tensor((batch, heads, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, h, b):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")  # of scores in units of log 2
            previous = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[b, h, bx * block_M, 0], Q_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            stop = T.min(length, (bx + 1) * block_M)
            first = T.max(0, bx * block_M - window + 1) // block_N if window else 0
            for step in T.Pipelined(T.ceildiv(stop, block_N) - first, num_stages=num_stages):
                k = first + step
                T.copy(K[b, h // group, k * block_N, 0], K_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    score = S[i, j] * scale
                    if softcap:
                        score = softcap * T.tanh(score / softcap)
                    distance = bx * block_M + i - (k * block_N + j)
                    if alibi:
                        score = score - slopes[h] * distance
                    seen = distance >= 0
                    if window:
                        seen = seen & (distance < window)
                    S[i, j] = T.if_then_else(seen, score * LOG2_E, -T.infinity("float32"))
                T.copy(row_max, previous)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(previous[i] - row_max[i])
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] - row_max[i])
                T.reduce_sum(S, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= rescale[i]
                T.copy(V[b, h // group, k * block_N, 0], V_shared)
                T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            if sinks:
                for i in T.Parallel(block_M):
                    row_sum[i] += T.exp2(sink[h] * LOG2_E - row_max[i])
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= row_sum[i]
            for i in T.Parallel(block_M):
                row_sum[i] = (T.log2(row_sum[i]) + row_max[i]) / LOG2_E
            T.copy(out, O[b, h, bx * block_M, 0])
            T.copy(row_sum, lse[b, h, bx * block_M])

    return main


def reference(q, k, v, slopes, sink, window=None, softcap=None, alibi=False, sinks=False):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    distance = np.subtract.outer(np.arange(q.shape[-2]), np.arange(k.shape[-2]))
    if alibi:
        scores = scores - slopes[:, None, None] * distance
    scores = np.where((distance >= 0) & (distance < (window or distance.max() + 1)), scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks:
        total = total + np.exp(sink[:, None, None] - largest)
    return weights / total @ v, (np.log(total) + largest)[..., 0]


VARIANTS: dict[str, dict] = {
    "causal": {},
    "window": {"window": 100},
    "window and sinks": {"window": 100, "sinks": True},
    "soft cap": {"softcap": 2.0},
    "ALiBi": {"alibi": True},
}


def main(batch=1, kv_heads=2, group=4, length=300, dim=64, variants=tuple(VARIANTS), **tiles):
    rng = np.random.default_rng(0)
    heads = kv_heads * group
    q = rng.standard_normal((batch, heads, length, dim), dtype=np.float32).astype(np.float16)
    k, v = rng.standard_normal((2, batch, kv_heads, length, dim), dtype=np.float32).astype(np.float16)
    slopes = (2.0 ** -np.arange(1, heads + 1)).astype(np.float32)
    sink = rng.standard_normal(heads, dtype=np.float32)
    for name in variants:
        kernel = attention(batch, kv_heads, group, length, dim, **VARIANTS[name], **tiles)
        out, lse = (to_host(x) for x in kernel(*to_device(q, k, v, slopes, sink)))
        expected, expected_lse = reference(q, k, v, slopes, sink, **VARIANTS[name])
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=1e-2, atol=1e-2)
        np.testing.assert_allclose(lse, expected_lse, rtol=1e-3, atol=1e-3)
        print(f"attention, {name}: {heads} heads in groups of {group}, {length} positions, agrees with NumPy")


if __name__ == "__main__":
    main()
