"""FlashAttention, forward: softmax(Q @ K^T / sqrt(d)) @ V without ever holding the matrix of scores.

Each block owns `block_M` queries and walks over the keys in tiles of `block_N`. `m_current` is the largest
score seen so far, `l_current` the sum of exponentials relative to it; both, and the output, are rescaled when
a larger score turns up.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[3])
def flash_attention(batch, n_heads, seq_len, head_dim, block_M=64, block_N=64, causal=False, dtype="float16"):
    @T.prim_func
    def main(
        Q: T.Tensor((batch, n_heads, seq_len, head_dim), dtype),
        K: T.Tensor((batch, n_heads, seq_len, head_dim), dtype),
        V: T.Tensor((batch, n_heads, seq_len, head_dim), dtype),
        O: T.Tensor((batch, n_heads, seq_len, head_dim), dtype),
    ):
        scale = T.float32(1.0) / T.sqrt(T.float32(head_dim))

        with T.Kernel(T.ceildiv(seq_len, block_M), n_heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, head_dim), dtype)
            K_shared = T.alloc_shared((block_N, head_dim), dtype)
            V_shared = T.alloc_shared((block_N, head_dim), dtype)
            S_local = T.alloc_fragment((block_M, block_N), "float32")
            O_local = T.alloc_fragment((block_M, head_dim), "float32")
            m_current = T.alloc_fragment((block_M,), "float32")
            m_prev = T.alloc_fragment((block_M,), "float32")
            l_current = T.alloc_fragment((block_M,), "float32")

            T.fill(m_current, -1e9)
            T.clear(l_current)
            T.clear(O_local)
            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)

            # with a causal mask, tiles of keys that lie behind every query of this block are left out
            visible = T.min(seq_len, (bx + 1) * block_M) if causal else seq_len
            for k in T.Pipelined(T.ceildiv(visible, block_N), num_stages=2):
                T.copy(K[bz, by, k * block_N, 0], K_shared)
                T.copy(V[bz, by, k * block_N, 0], V_shared)

                T.gemm(Q_shared, K_shared, S_local, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j < seq_len
                    if causal:
                        seen = T.all_of(seen, k * block_N + j <= bx * block_M + i)
                    S_local[i, j] = T.if_then_else(seen, S_local[i, j] * scale, -T.infinity("float32"))

                T.copy(m_current, m_prev)
                T.reduce_max(S_local, m_current, dim=1, clear=False)

                for i in T.Parallel(block_M):
                    correction = T.exp(m_prev[i] - m_current[i])
                    l_current[i] = l_current[i] * correction
                    for d in T.Parallel(head_dim):
                        O_local[i, d] = O_local[i, d] * correction

                for i, j in T.Parallel(block_M, block_N):
                    S_local[i, j] = T.exp(S_local[i, j] - m_current[i])

                for i in T.Parallel(block_M):
                    row_sum = T.float32(0.0)
                    for j in T.Parallel(block_N):
                        row_sum = row_sum + S_local[i, j]
                    l_current[i] = l_current[i] + row_sum

                T.gemm(S_local, V_shared, O_local)

            for i, d in T.Parallel(block_M, head_dim):
                O_local[i, d] = O_local[i, d] / l_current[i]
            T.copy(O_local, O[bz, by, bx * block_M, 0])

    return main


def reference(q, k, v, causal):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main(batch=1, n_heads=4, seq_len=300, head_dim=64):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, batch, n_heads, seq_len, head_dim), dtype=np.float32).astype(np.float16)
    for causal in (False, True):
        kernel = flash_attention(batch, n_heads, seq_len, head_dim, causal=causal)
        out = to_host(kernel(*to_device(q, k, v)))
        np.testing.assert_allclose(out.astype(np.float32), reference(q, k, v, causal), rtol=1e-2, atol=1e-2)
        print(f"flash_attention: {q.shape}, causal={causal}, agrees with NumPy")


if __name__ == "__main__":
    main()
