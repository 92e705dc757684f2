"""The gated delta rule in chunks: a linear attention that replaces what a key retrieves instead of adding to it.

state[t] = alpha[t] (I - beta[t] k[t] k[t]^T) state[t - 1] + beta[t] k[t] v[t]^T and O[t] = state[t]^T q[t], for each
head. A chunk adds a decayed sum of k[j] u[j]^T to the state, where (I + L) U = beta (V - decayed K state), and L is
strictly lower triangular, of products of keys. A first kernel inverts I + L for all chunks at once; in a second one, a
block owns a head and `block_D` columns of V, and walks over the chunks.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[5])
def gated_delta_rule(
    batch, heads, length, dim, dim_v, chunk=64, block_D=64, num_stages=2, threads=128, dtype="float16"
):
    chunks = -(-length // chunk)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, length, dim), dtype),
        K: T.Tensor((batch, heads, length, dim), dtype),
        V: T.Tensor((batch, heads, length, dim_v), dtype),
        log_alpha: T.Tensor((batch, heads, length), "float32"),
        beta: T.Tensor((batch, heads, length), "float32"),
        O: T.Tensor((batch, heads, length, dim_v), dtype),
    ):
        # after the end of the sequence, keys and gates are read as 0: nothing decays, nothing is added
        log2_decay = T.alloc_global((batch, heads, chunks, chunk), "float32")  # from before a chunk to a position
        inverse = T.alloc_global((batch, heads, chunks, chunk, chunk), dtype)

        with T.Kernel(chunks, heads, batch, threads=threads) as (c, h, b):
            K_shared = T.alloc_shared((chunk, dim), dtype)
            decay = T.alloc_shared((chunk,), "float32")
            gate = T.alloc_shared((chunk,), "float32")
            products = T.alloc_fragment((chunk, chunk), "float32")
            lower = T.alloc_shared((chunk, chunk), "float32")
            solution = T.alloc_shared((chunk, chunk), "float32")

            T.copy(K[b, h, c * chunk, 0], K_shared)
            T.copy(beta[b, h, c * chunk], gate)
            T.copy(log_alpha[b, h, c * chunk], decay)
            for i in T.Parallel(chunk):
                decay[i] *= LOG2_E
            T.cumsum(decay, dim=0)
            T.copy(decay, log2_decay[b, h, c, 0])

            T.gemm(K_shared, K_shared, products, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(chunk, chunk):
                lower[i, j] = products[i, j] * gate[i] * T.exp2(T.min(decay[i] - decay[j], 0))
            for j in T.Parallel(chunk):  # a column each, from the first row to the last
                for i in T.serial(chunk):
                    value = T.alloc_var("float32", init=T.if_then_else(i == j, T.float32(1), T.float32(0)))
                    for m in T.serial(i):
                        value -= lower[i, m] * solution[m, j]
                    solution[i, j] = value
            T.copy(solution, inverse[b, h, c, 0, 0])

        with T.Kernel(T.ceildiv(dim_v, block_D), heads, batch, threads=threads) as (bx, h, b):
            Q_shared = T.alloc_shared((chunk, dim), dtype)
            K_shared = T.alloc_shared((chunk, dim), dtype)
            K_decayed = T.alloc_shared((chunk, dim), dtype)
            V_shared = T.alloc_shared((chunk, block_D), dtype)
            inverse_shared = T.alloc_shared((chunk, chunk), dtype)
            decay = T.alloc_shared((chunk,), "float32")
            gate = T.alloc_shared((chunk,), "float32")
            state_shared = T.alloc_shared((dim, block_D), dtype)
            U_shared = T.alloc_shared((chunk, block_D), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_fragment((chunk, chunk), dtype)
            retrieved = T.alloc_fragment((chunk, block_D), "float32")
            U = T.alloc_fragment((chunk, block_D), "float32")
            state = T.alloc_fragment((dim, block_D), "float32")
            out = T.alloc_fragment((chunk, block_D), "float32")

            T.clear(state)
            for c in T.Pipelined(chunks, num_stages=num_stages):
                T.copy(K[b, h, c * chunk, 0], K_shared)
                T.copy(V[b, h, c * chunk, bx * block_D], V_shared)
                T.copy(inverse[b, h, c, 0, 0], inverse_shared)
                T.copy(Q[b, h, c * chunk, 0], Q_shared)
                T.copy(log2_decay[b, h, c, 0], decay)
                T.copy(beta[b, h, c * chunk], gate)

                # U = inverse @ (beta * (V - decayed K @ state))
                T.copy(state, state_shared)
                T.gemm(K_shared, state_shared, retrieved, clear_accum=True)
                for i, j in T.Parallel(chunk, block_D):
                    U_shared[i, j] = gate[i] * (V_shared[i, j] - T.exp2(decay[i]) * retrieved[i, j])
                T.gemm(inverse_shared, U_shared, U, clear_accum=True)
                T.copy(U, U_shared)

                # what the queries retrieve from the chunks before, and from this one
                T.gemm(Q_shared, state_shared, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_D):
                    out[i, j] *= T.exp2(decay[i])
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    weights[i, j] = T.if_then_else(i >= j, scores[i, j] * T.exp2(T.min(decay[i] - decay[j], 0)), 0)
                T.gemm(weights, U_shared, out)
                T.copy(out, O[b, h, c * chunk, bx * block_D])

                # the state after this chunk
                for i, j in T.Parallel(chunk, dim):
                    K_decayed[i, j] = K_shared[i, j] * T.exp2(decay[chunk - 1] - decay[i])
                for i, j in T.Parallel(dim, block_D):
                    state[i, j] *= T.exp2(decay[chunk - 1])
                T.gemm(K_decayed, U_shared, state, transpose_A=True)

    return main


def reference(q, k, v, log_alpha, beta):
    """One position after the other."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    state = np.zeros((*q.shape[:2], q.shape[-1], v.shape[-1]), np.float32)
    out = np.empty_like(v)
    for t in range(q.shape[2]):
        state *= np.exp(log_alpha[:, :, t, None, None])
        wrong = v[:, :, t] - np.einsum("bhk,bhkv->bhv", k[:, :, t], state)
        state += k[:, :, t, :, None] * (beta[:, :, t, None] * wrong)[:, :, None, :]
        out[:, :, t] = np.einsum("bhk,bhkv->bhv", q[:, :, t], state)
    return out


def main(batch=1, heads=3, length=300, dim=64, dim_v=80, **tiles):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, batch, heads, length, dim), dtype=np.float32)
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    v = rng.standard_normal((batch, heads, length, dim_v), dtype=np.float32)
    inputs: list[np.ndarray] = [x.astype(np.float16) for x in (q, k, v)]
    inputs.append(np.log(rng.uniform(0.9, 1, (batch, heads, length))).astype(np.float32))
    inputs.append(rng.uniform(0, 1, (batch, heads, length)).astype(np.float32))
    kernel = gated_delta_rule(batch, heads, length, dim, dim_v, **tiles)
    out = to_host(kernel(*to_device(*inputs)))
    np.testing.assert_allclose(out.astype(np.float32), reference(*inputs), rtol=2e-2, atol=2e-2)
    print(f"gated_delta_rule: {q.shape} -> {out.shape} agrees with NumPy")


if __name__ == "__main__":
    main()
