"""Retention in chunks: O[t] = sum over s <= t of decay^(t - s) (Q[t] . K[s]) V[s], a linear attention with decay.

A block owns a head and `block_D` columns of V, and walks over the sequence in chunks. What the chunks before left is a
state of dim x block_D; inside a chunk the products are those of attention with a mask of decays instead of a softmax.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[4])
def retention(batch, heads, length, dim, dim_v, chunk=64, block_D=64, num_stages=2, threads=128, dtype="float16"):
    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, length, dim), dtype),
        K: T.Tensor((batch, heads, length, dim), dtype),
        V: T.Tensor((batch, heads, length, dim_v), dtype),
        log2_decay: T.Tensor((heads,), "float32"),
        O: T.Tensor((batch, heads, length, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_D), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((chunk, dim), dtype)
            K_shared = T.alloc_shared((chunk, dim), dtype)
            K_decayed = T.alloc_shared((chunk, dim), dtype)
            V_shared = T.alloc_shared((chunk, block_D), dtype)
            state_shared = T.alloc_shared((dim, block_D), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_fragment((chunk, chunk), dtype)
            state = T.alloc_fragment((dim, block_D), "float32")
            out = T.alloc_fragment((chunk, block_D), "float32")
            rate = log2_decay[by]

            T.clear(state)
            for c in T.Pipelined(T.ceildiv(length, chunk), num_stages=num_stages):
                T.copy(Q[bz, by, c * chunk, 0], Q_shared)
                T.copy(K[bz, by, c * chunk, 0], K_shared)
                T.copy(V[bz, by, c * chunk, bx * block_D], V_shared)

                # what the queries see of the chunks before
                T.copy(state, state_shared)
                T.gemm(Q_shared, state_shared, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_D):
                    out[i, j] *= T.exp2(rate * (i + 1))

                # and of their own
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    weights[i, j] = T.if_then_else(i >= j, scores[i, j] * T.exp2(rate * T.max(i - j, 0)), 0)
                T.gemm(weights, V_shared, out)
                T.copy(out, O[bz, by, c * chunk, bx * block_D])

                # what this chunk leaves to the next
                for i, j in T.Parallel(chunk, dim):
                    K_decayed[i, j] = K_shared[i, j] * T.exp2(rate * (chunk - 1 - i))
                for i, j in T.Parallel(dim, block_D):
                    state[i, j] *= T.exp2(rate * chunk)
                T.gemm(K_decayed, V_shared, state, transpose_A=True)

    return main


def reference(q, k, v, decay):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    distance = np.subtract.outer(np.arange(q.shape[-2]), np.arange(k.shape[-2]))
    mask = np.where(distance >= 0, decay[:, None, None] ** np.maximum(distance, 0), 0)
    return (q @ k.swapaxes(-1, -2) * mask) @ v


def main(batch=1, heads=3, length=300, dim=64, dim_v=80, **tiles):
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, batch, heads, length, dim), dtype=np.float32) / dim**0.25).astype(np.float16)
    v = rng.standard_normal((batch, heads, length, dim_v), dtype=np.float32).astype(np.float16)
    decay = (1 - 2.0 ** -np.arange(3, 3 + heads)).astype(np.float32)
    out = to_host(retention(batch, heads, length, dim, dim_v, **tiles)(*to_device(q, k, v, np.log2(decay))))
    np.testing.assert_allclose(out.astype(np.float32), reference(q, k, v, decay), rtol=2e-2, atol=2e-2)
    print(f"retention: {q.shape} -> {out.shape} agrees with NumPy")


if __name__ == "__main__":
    main()
