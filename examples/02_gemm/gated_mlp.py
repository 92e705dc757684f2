"""The first half of a gated MLP in one kernel: silu(X @ W_gate) * (X @ W_up), as LLaMA's feed-forward layer has it.

Both products read the same tile of X, which is loaded once; neither is ever in global memory by itself.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[3])
def gated_mlp(
    tokens, hidden, inner, block_M=128, block_N=128, block_K=64, num_stages=2, threads=256, panel=16, dtype="float16"
):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), dtype),
        W_gate: T.Tensor((hidden, inner), dtype),
        W_up: T.Tensor((hidden, inner), dtype),
        Y: T.Tensor((tokens, inner), dtype),
    ):
        with T.Kernel(T.ceildiv(inner, block_N), T.ceildiv(tokens, block_M), threads=threads) as (bx, by):
            X_shared = T.alloc_shared((block_M, block_K), dtype)
            gate_shared = T.alloc_shared((block_K, block_N), dtype)
            up_shared = T.alloc_shared((block_K, block_N), dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(panel)  # neighbors read the same rows of X, or the same columns of the weights

            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(hidden, block_K), num_stages=num_stages):
                T.copy(X[by * block_M, k * block_K], X_shared)
                T.copy(W_gate[k * block_K, bx * block_N], gate_shared)
                T.copy(W_up[k * block_K, bx * block_N], up_shared)
                T.gemm(X_shared, gate_shared, gate)
                T.gemm(X_shared, up_shared, up)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] / (1 + T.exp(-gate[i, j])) * up[i, j]
            T.copy(gate, Y[by * block_M, bx * block_N])

    return main


def reference(x, w_gate, w_up):
    x, w_gate, w_up = (operand.astype(np.float32) for operand in (x, w_gate, w_up))
    gate = x @ w_gate
    return gate / (1 + np.exp(-gate)) * (x @ w_up)


def main(tokens=200, hidden=320, inner=264, **tiles):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((tokens, hidden), dtype=np.float32).astype(np.float16)
    w_gate, w_up = (rng.standard_normal((2, hidden, inner), dtype=np.float32) / np.sqrt(hidden)).astype(np.float16)
    y = to_host(gated_mlp(tokens, hidden, inner, **tiles)(*to_device(x, w_gate, w_up)))
    np.testing.assert_allclose(y.astype(np.float32), reference(x, w_gate, w_up), rtol=1e-2, atol=1e-2)
    print(f"gated_mlp: {tokens} tokens, {hidden} -> {inner}, agrees with NumPy")


if __name__ == "__main__":
    main()
