"""FlashAttention in float8: both gemms multiply 8-bit operands, and a tensor's values share one scale per head.

A query, key or value is `scale[head]` times its float8. The scales of queries and keys belong to the exponent, that of
values to the result. Values lie as (dim, length), since 8-bit matrix instructions take both operands along K, which for
the second gemm are the keys.
"""

import numpy as np
from ml_dtypes import float8_e4m3fn

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634
LARGEST = 448.0  # of float8_e4m3fn


@tilelang.jit(out_idx=[4])
def float8_attention(
    heads, length, dim, block_M=128, block_N=128, causal=False, num_stages=2, threads=256, dtype="float8_e4m3fn"
):
    @T.prim_func
    def main(
        Q: T.Tensor((heads, length, dim), dtype),
        K: T.Tensor((heads, length, dim), dtype),
        V: T.Tensor((heads, dim, length), dtype),
        scales: T.Tensor((3, heads), "float32"),  # of Q, K and V
        O: T.Tensor((heads, length, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, threads=threads) as (bx, h):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((dim, block_N), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")

            scale = T.alloc_var("float32", init=scales[0, h] * scales[1, h] * (dim**-0.5 * LOG2_E))
            T.copy(Q[h, bx * block_M, 0], Q_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            visible = T.min(length, (bx + 1) * block_M) if causal else length
            for k in T.Pipelined(T.ceildiv(visible, block_N), num_stages=num_stages):
                T.copy(K[h, k * block_N, 0], K_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j < length
                    if causal:
                        seen = T.all_of(seen, k * block_N + j <= bx * block_M + i)
                    S[i, j] = T.if_then_else(seen, S[i, j] * scale, -T.infinity("float32"))
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
                T.copy(V[h, 0, k * block_N], V_shared)
                T.gemm(P, V_shared, out, transpose_B=True)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] = out[i, j] / row_sum[i] * scales[2, h]
            T.copy(out, O[h, bx * block_M, 0])

    return main


def quantized(x):
    """A tensor of heads in float8, and the scale of each head."""
    scale = np.abs(x).max(axis=(1, 2)) / LARGEST
    return (x / scale[:, None, None]).astype(float8_e4m3fn), scale.astype(np.float32)


def reference(q, k, v, scales, causal):
    q, k, v = (x.astype(np.float32) * scale[:, None, None] for x, scale in zip((q, k, v), scales, strict=True))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v.swapaxes(-1, -2)


def main(heads=4, length=272, dim=64, **tiles):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, heads, length, dim), dtype=np.float32)
    (q, *of_q), (k, *of_k), (v, *of_v) = quantized(q), quantized(k), quantized(np.ascontiguousarray(v.swapaxes(1, 2)))
    scales = np.stack((*of_q, *of_k, *of_v))
    for causal in (False, True):
        kernel = float8_attention(heads, length, dim, causal=causal, **tiles)
        out = to_host(kernel(*to_device(q, k, v, scales)))
        # probabilities have three bits behind the leading one
        expected = reference(q, k, v, scales, causal)
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=5e-2, atol=5e-2)
        print(f"float8_attention: {heads} heads of {length} positions, causal={causal}, agrees with NumPy")


if __name__ == "__main__":
    main()
