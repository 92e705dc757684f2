"""What is done to a tile of a product before it leaves: bias and activation, a residual, the two halves of SwiGLU.

The sums are still in registers, so what follows costs neither a launch nor a way to memory and back.
"""

import math

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host

ACTIVATIONS = {
    "relu": lambda x: T.max(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + T.erf(x * 0.7071067811865476)),
    "silu": lambda x: x * T.sigmoid(x),
}


@tilelang.jit(out_idx=[-1])
def bias_activation(
    M, N, K, activation="gelu", block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"
):
    """C = activation(A @ B + bias), with a bias for each column."""
    apply = ACTIVATIONS[activation]

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = apply(C_local[i, j] + T.cast(bias[bx * block_N + j], accum_dtype))
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1])
def residual(
    M, N, K, alpha=1.0, beta=1.0, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"
):
    """C = alpha * A @ B + beta * R."""

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        R: T.Tensor((M, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            R_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.copy(R[by * block_M, bx * block_N], R_shared)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = alpha * C_local[i, j] + beta * T.cast(R_shared[i, j], accum_dtype)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@tilelang.jit(out_idx=[-1])
def swiglu(M, N, K, block_M=128, block_N=64, block_K=32, dtype="float16", accum_dtype="float32"):
    """C = silu(A @ gate) * (A @ up): a tile of A is loaded once for both products."""

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        gate: T.Tensor((K, N), dtype),
        up: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            gate_shared = T.alloc_shared((block_K, block_N), dtype)
            up_shared = T.alloc_shared((block_K, block_N), dtype)
            gate_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            up_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(gate_local)
            T.clear(up_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(gate[k * block_K, bx * block_N], gate_shared)
                T.copy(up[k * block_K, bx * block_N], up_shared)
                T.gemm(A_shared, gate_shared, gate_local)
                T.gemm(A_shared, up_shared, up_local)
            for i, j in T.Parallel(block_M, block_N):
                gate_local[i, j] = ACTIVATIONS["silu"](gate_local[i, j]) * up_local[i, j]
            T.copy(gate_local, C[by * block_M, bx * block_N])

    return gemm


def check(name, kernel, arrays, expected):
    c = to_host(kernel(*to_device(*arrays)))
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-2)
    print(f"gemm_epilogues: {name:<16} agrees with NumPy")


def main(M=256, N=384, K=192, **tiles):
    rng = np.random.default_rng(0)

    def matrix(*shape, scale=1.0):
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(np.float16)

    a, b, up, r, bias = matrix(M, K), matrix(K, N, scale=K**-0.5), matrix(K, N, scale=K**-0.5), matrix(M, N), matrix(N)
    wide = [x.astype(np.float32) for x in (a, b, up, r, bias)]
    product = wide[0] @ wide[1]
    with_bias = product + wide[4]
    erf = np.vectorize(math.erf, otypes=[np.float32])
    expected = {
        "relu": np.maximum(with_bias, 0),
        "gelu": 0.5 * with_bias * (1 + erf(with_bias * math.sqrt(0.5))),
        "silu": with_bias / (1 + np.exp(-with_bias)),
    }
    for name, result in expected.items():
        check(f"bias and {name}", bias_activation(M, N, K, name, **tiles), (a, b, bias), result)
    check("residual", residual(M, N, K, 0.5, 2.0, **tiles), (a, b, r), 0.5 * product + 2 * wide[3])
    gated = product / (1 + np.exp(-product)) * (wide[0] @ wide[2])
    check("SwiGLU", swiglu(M, N, K, **tiles), (a, b, up), gated)


if __name__ == "__main__":
    main()
