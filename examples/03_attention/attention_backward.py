"""Attention, backward: the gradients of Q, K and V from that of the output, without ever holding the matrix of scores.

The forward pass left the logarithm of the sum of exponentials per query. A first small kernel computes delta, the sum
of dO * O per query, scales both as the second one needs them, and clears dQ. In the second, each block owns `block_N`
keys and walks over the queries: it keeps dK and dV on chip, and adds its part of dQ to global memory, in float32 and in
no fixed order.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[3, 4, 5])
def attention_delta(batch, heads, length, dim, block_M=64, threads=128, dtype="float16"):
    """The logarithms of the sums to the base 2, delta times the scale of the scores, and dQ."""
    scale = dim**-0.5

    @T.prim_func
    def main(
        O: T.Tensor((batch, heads, length, dim), dtype),
        dO: T.Tensor((batch, heads, length, dim), dtype),
        lse: T.Tensor((batch, heads, length), "float32"),
        log2: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor((batch, heads, length, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            products = T.alloc_fragment((block_M, dim), "float32")
            sums = T.alloc_fragment((block_M,), "float32")
            for i, d in T.Parallel(block_M, dim):
                products[i, d] = T.cast(O[bz, by, bx * block_M + i, d], "float32") * dO[bz, by, bx * block_M + i, d]
                dQ[bz, by, bx * block_M + i, d] = 0
            T.reduce_sum(products, sums, dim=1)
            for i in T.Parallel(block_M):
                delta[bz, by, bx * block_M + i] = sums[i] * scale
                log2[bz, by, bx * block_M + i] = lse[bz, by, bx * block_M + i] * LOG2_E

    return main


@tilelang.jit(out_idx=[7, 8])
def attention_backward(
    batch, heads, length, dim, block_M=64, block_N=64, causal=False, num_stages=2, threads=128, dtype="float16"
):
    scale = dim**-0.5
    shape = (batch, heads, length, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        dO: T.Tensor(shape, dtype),
        log2: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor(shape, "float32"),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_N), heads, batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            dO_shared = T.alloc_shared((block_M, dim), dtype)
            log2_shared = T.alloc_shared((block_M,), "float32")
            delta_shared = T.alloc_shared((block_M,), "float32")
            dS_shared = T.alloc_shared((block_N, block_M), dtype)
            P = T.alloc_fragment((block_N, block_M), "float32")  # of keys by queries, so that it is an operand of dV
            dS = T.alloc_fragment((block_N, block_M), "float32")
            P_half = T.alloc_fragment((block_N, block_M), dtype)
            dS_half = T.alloc_fragment((block_N, block_M), dtype)
            dK_local = T.alloc_fragment((block_N, dim), "float32")
            dV_local = T.alloc_fragment((block_N, dim), "float32")
            dQ_local = T.alloc_fragment((block_M, dim), "float32")

            T.copy(K[bz, by, bx * block_N, 0], K_shared)
            T.copy(V[bz, by, bx * block_N, 0], V_shared)
            T.clear(dK_local)
            T.clear(dV_local)

            # with a causal mask, tiles of queries before every key of this block see none of them
            first = bx * block_N // block_M if causal else 0
            for m in T.Pipelined(first, T.ceildiv(length, block_M), num_stages=num_stages):
                T.copy(Q[bz, by, m * block_M, 0], Q_shared)
                T.copy(dO[bz, by, m * block_M, 0], dO_shared)
                T.copy(log2[bz, by, m * block_M], log2_shared)
                T.copy(delta[bz, by, m * block_M], delta_shared)

                T.gemm(K_shared, Q_shared, P, transpose_B=True, clear_accum=True)
                T.gemm(V_shared, dO_shared, dS, transpose_B=True, clear_accum=True)
                for j, i in T.Parallel(block_N, block_M):
                    seen = T.all_of(bx * block_N + j < length, m * block_M + i < length)
                    if causal:
                        seen = T.all_of(seen, bx * block_N + j <= m * block_M + i)
                    P[j, i] = T.if_then_else(seen, T.exp2(P[j, i] * (scale * LOG2_E) - log2_shared[i]), 0)
                for j, i in T.Parallel(block_N, block_M):
                    dS[j, i] = P[j, i] * (dS[j, i] * scale - delta_shared[i])

                T.copy(P, P_half)
                T.gemm(P_half, dO_shared, dV_local)
                T.copy(dS, dS_half)
                T.gemm(dS_half, Q_shared, dK_local)
                T.copy(dS_half, dS_shared)
                T.gemm(dS_shared, K_shared, dQ_local, transpose_A=True, clear_accum=True)
                T.atomic_add(dQ[bz, by, m * block_M, 0], dQ_local)

            T.copy(dK_local, dK[bz, by, bx * block_N, 0])
            T.copy(dV_local, dV[bz, by, bx * block_N, 0])

    return main


def reference(q, k, v, grad, causal):
    """Output, log-sum-exp and the three gradients."""
    q, k, v, grad = (x.astype(np.float32) for x in (q, k, v, grad))
    scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores - scores.max(axis=-1, keepdims=True)).sum(axis=-1)) + scores.max(axis=-1)
    weights = np.exp(scores - lse[..., None])
    out = weights @ v
    d_weights = grad @ v.swapaxes(-1, -2)
    d_scores = weights * (d_weights - (grad * out).sum(axis=-1, keepdims=True)) * scale
    return out, lse, d_scores @ k, d_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad


def main(batch=1, heads=3, length=300, dim=64, **tiles):
    rng = np.random.default_rng(0)
    shape = (4, batch, heads, length, dim)
    q, k, v, grad = rng.standard_normal(shape, dtype=np.float32).astype(np.float16)
    for causal in (False, True):
        out, lse, *expected = reference(q, k, v, grad, causal)
        tensors = to_device(q, k, v, out.astype(np.float16), grad, lse.astype(np.float32))
        q_device, k_device, v_device, out_device, grad_device, lse_device = tensors
        log2, delta, dq = attention_delta(batch, heads, length, dim)(out_device, grad_device, lse_device)
        kernel = attention_backward(batch, heads, length, dim, causal=causal, **tiles)
        dk, dv = kernel(q_device, k_device, v_device, grad_device, log2, delta, dq)
        for gradient, right in zip((dq, dk, dv), expected, strict=True):
            np.testing.assert_allclose(to_host(gradient).astype(np.float32), right, rtol=2e-2, atol=2e-2)
        print(f"attention_backward: {q.shape}, causal={causal}, agrees with NumPy")


if __name__ == "__main__":
    main()
