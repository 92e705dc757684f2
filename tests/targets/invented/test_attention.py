"""Attention forward: two gemms, the second of which reads the result of the first, with running maxima and sums."""

import numpy as np
import pytest
from invented.isa.matrix import MATRIX_MULTIPLY

import tilelang.language as T


def flash(heads, length, dim, block_m, block_n, *, causal=False, threads=128, num_stages=2):
    """Flash attention over (heads, length, dim)."""
    shape = (heads, length, dim)
    scale = 1.44269504 / dim**0.5

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, block_m), heads, threads=threads) as (bx, by):
            q = T.alloc_shared((block_m, dim), "float16")
            k = T.alloc_shared((block_n, dim), "float16")
            v = T.alloc_shared((block_n, dim), "float16")
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), "float16")
            sums = T.alloc_fragment((block_m, dim), "float32")
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
            for step in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[by, step * block_n, 0], k)
                if causal:
                    for i, j in T.Parallel(block_m, block_n):
                        seen = bx * block_m + i >= step * block_n + j
                        scores[i, j] = T.if_then_else(seen, 0.0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
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
                for i, j in T.Parallel(block_m, dim):
                    sums[i, j] = sums[i, j] * factor[i]
                T.gemm(weights, v, sums, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim):
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("block_m", "block_n", "threads"), [(64, 64, 128), (64, 32, 256), (128, 64, 256)])
def test_flash_attention(check, causal, block_m, block_n, threads):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 128, 32)).astype(np.float16) for _ in range(3))
    main = flash(2, 128, 32, block_m, block_n, causal=causal, threads=threads)
    outcome = check(main, q, k, v, np.zeros_like(q), rtol=2e-2, atol=2e-3)
    np.testing.assert_allclose(outcome.arguments[3], attention(q, k, v, causal), rtol=2e-2, atol=4e-3)
    assert 2 == len({call.args[0].buffer for call in outcome.calls(MATRIX_MULTIPLY)})
