"""The state space model of Mamba 2 in chunks: a linear attention whose decay depends on the position.

state[t] = exp(dt[t] A) state[t - 1] + dt[t] B[t] X[t]^T and O[t] = C[t] state[t], for each head. A block owns a head
and `block_D` columns of X, and walks over the sequence in chunks: B, C and X take the places of keys, queries and
values, and sums of dt A along a chunk say how much decays between two of its positions.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[5])
def mamba2(
    batch, heads, groups, length, dim_state, dim, chunk=64, block_D=64, num_stages=2, threads=128, dtype="float16"
):
    @T.prim_func
    def main(
        X: T.Tensor((batch, length, heads, dim), dtype),
        dt: T.Tensor((batch, length, heads), "float32"),
        A: T.Tensor((heads,), "float32"),
        B: T.Tensor((batch, length, groups, dim_state), dtype),
        C: T.Tensor((batch, length, groups, dim_state), dtype),
        O: T.Tensor((batch, length, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(dim, block_D), heads, batch, threads=threads) as (bx, h, b):
            X_shared = T.alloc_shared((chunk, block_D), dtype)
            B_shared = T.alloc_shared((chunk, dim_state), dtype)
            C_shared = T.alloc_shared((chunk, dim_state), dtype)
            B_decayed = T.alloc_shared((chunk, dim_state), dtype)
            state_shared = T.alloc_shared((dim_state, block_D), dtype)
            step = T.alloc_shared((chunk,), "float32")
            log2_decay = T.alloc_shared((chunk,), "float32")  # from before the chunk to a position
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_fragment((chunk, chunk), dtype)
            state = T.alloc_fragment((dim_state, block_D), "float32")
            out = T.alloc_fragment((chunk, block_D), "float32")
            group = h // (heads // groups)
            rate = A[h] * LOG2_E

            T.clear(state)
            for c in T.Pipelined(T.ceildiv(length, chunk), num_stages=num_stages):
                T.copy(C[b, c * chunk : (c + 1) * chunk, group, :], C_shared)
                T.copy(B[b, c * chunk : (c + 1) * chunk, group, :], B_shared)
                T.copy(X[b, c * chunk : (c + 1) * chunk, h, bx * block_D : (bx + 1) * block_D], X_shared)
                T.copy(dt[b, c * chunk : (c + 1) * chunk, h], step)  # 0 after the end: nothing is added or decays

                for i in T.Parallel(chunk):
                    log2_decay[i] = step[i] * rate
                T.cumsum(log2_decay, dim=0)

                # the outputs of the chunks before
                T.copy(state, state_shared)
                T.gemm(C_shared, state_shared, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_D):
                    out[i, j] *= T.exp2(log2_decay[i])

                # and of this one
                T.gemm(C_shared, B_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    decay = T.exp2(T.min(log2_decay[i] - log2_decay[j], 0))
                    weights[i, j] = T.if_then_else(i >= j, scores[i, j] * decay * step[j], 0)
                T.gemm(weights, X_shared, out)
                T.copy(out, O[b, c * chunk : (c + 1) * chunk, h, bx * block_D : (bx + 1) * block_D])

                # the state after this chunk
                for i, j in T.Parallel(chunk, dim_state):
                    B_decayed[i, j] = B_shared[i, j] * step[i] * T.exp2(log2_decay[chunk - 1] - log2_decay[i])
                for i, j in T.Parallel(dim_state, block_D):
                    state[i, j] *= T.exp2(log2_decay[chunk - 1])
                T.gemm(B_decayed, X_shared, state, transpose_A=True)

    return main


def reference(x, dt, a, b, c):
    """One position after the other."""
    x, b, c = (array.astype(np.float32) for array in (x, b, c))
    heads, groups = x.shape[2], b.shape[2]
    b, c = (array.repeat(heads // groups, axis=2) for array in (b, c))
    state = np.zeros((x.shape[0], heads, b.shape[3], x.shape[3]), np.float32)
    out = np.empty_like(x)
    for t in range(x.shape[1]):
        added = dt[:, t, :, None, None] * b[:, t, :, :, None] * x[:, t, :, None, :]
        state = np.exp(dt[:, t] * a)[..., None, None] * state + added
        out[:, t] = np.einsum("bhs,bhsd->bhd", c[:, t], state)
    return out


def main(batch=1, heads=4, groups=2, length=300, dim_state=64, dim=80, **tiles):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, length, heads, dim), dtype=np.float32).astype(np.float16)
    b, c = rng.standard_normal((2, batch, length, groups, dim_state), dtype=np.float32) / dim_state**0.25
    b, c = b.astype(np.float16), c.astype(np.float16)
    dt = rng.uniform(0.01, 0.1, (batch, length, heads)).astype(np.float32)
    a = -rng.uniform(1, 8, heads).astype(np.float32)
    out = to_host(mamba2(batch, heads, groups, length, dim_state, dim, **tiles)(*to_device(x, dt, a, b, c)))
    np.testing.assert_allclose(out.astype(np.float32), reference(x, dt, a, b, c), rtol=2e-2, atol=2e-2)
    print(f"mamba2: {heads} heads, {groups} groups, {length} positions, agrees with NumPy")


if __name__ == "__main__":
    main()
