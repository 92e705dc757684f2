"""Multi-Head Latent Attention over a prompt: keys and values of each head are at hand, and one rotated key for all.

A score is the product of a head's query and key, of `dim` elements, plus that of the rotated parts, of `rope_dim`
elements, of which the key is shared by all heads; so the two are multiplied one after the other into the same tile. A
value has `dim` elements. A position sees those up to its own.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[5])
def mla_prefill(
    batch, heads, length, dim, rope_dim, block_M=128, block_N=128, num_stages=2, threads=256, dtype="float16"
):
    scale = (dim + rope_dim) ** -0.5 * LOG2_E  # of exponents of 2
    of_heads, of_ropes = (batch, heads, length, dim), (batch, heads, length, rope_dim)

    @T.prim_func
    def main(
        Q: T.Tensor(of_heads, dtype),
        Q_rope: T.Tensor(of_ropes, dtype),
        K: T.Tensor(of_heads, dtype),
        K_rope: T.Tensor((batch, length, rope_dim), dtype),
        V: T.Tensor(of_heads, dtype),
        O: T.Tensor(of_heads, dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, h, b):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            Q_rope_shared = T.alloc_shared((block_M, rope_dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            K_rope_shared = T.alloc_shared((block_N, rope_dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[b, h, bx * block_M, 0], Q_shared)
            T.copy(Q_rope[b, h, bx * block_M, 0], Q_rope_shared)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(T.ceildiv(T.min(length, (bx + 1) * block_M), block_N), num_stages=num_stages):
                T.copy(K[b, h, k * block_N, 0], K_shared)
                T.copy(K_rope[b, k * block_N, 0], K_rope_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True)
                T.gemm(Q_rope_shared, K_rope_shared, S, transpose_B=True)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j <= bx * block_M + i
                    S[i, j] = T.if_then_else(seen, S[i, j], -T.infinity("float32"))
                T.copy(row_max, previous)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2((previous[i] - row_max[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(S, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= rescale[i]
                T.copy(V[b, h, k * block_N, 0], V_shared)
                T.gemm(P, V_shared, out)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= row_sum[i]
            T.copy(out, O[b, h, bx * block_M, 0])

    return main


def reference(q, q_rope, k, k_rope, v):
    q, q_rope, k, k_rope, v = (x.astype(np.float32) for x in (q, q_rope, k, k_rope, v))
    scores = q @ k.swapaxes(-1, -2) + q_rope @ k_rope[:, None].swapaxes(-1, -2)
    scores = np.where(np.tri(q.shape[-2], dtype=bool), scores / np.sqrt(q.shape[-1] + q_rope.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main(batch=1, heads=4, length=300, dim=128, rope_dim=64, **tiles):
    rng = np.random.default_rng(0)
    of_heads, of_ropes = (batch, heads, length, dim), (batch, heads, length, rope_dim)
    shapes = (of_heads, of_ropes, of_heads, (batch, length, rope_dim), of_heads)
    arrays = [rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes]
    kernel = mla_prefill(batch, heads, length, dim, rope_dim, **tiles)
    out = to_host(kernel(*to_device(*arrays)))
    np.testing.assert_allclose(out.astype(np.float32), reference(*arrays), rtol=1e-2, atol=1e-2)
    print(f"mla_prefill: {heads} heads of {length} positions, {dim} + {rope_dim} elements, agree with NumPy")


if __name__ == "__main__":
    main()
