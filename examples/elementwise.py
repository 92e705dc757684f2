"""ReLU and GELU, element by element, over tiles of a matrix."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def relu(M, N, block_M=32, block_N=128, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, col = by * block_M + i, bx * block_N + j
                Y[row, col] = T.max(X[row, col], 0)

    return main


@tilelang.jit(out_idx=[-1])
def gelu(M, N, block_M=32, block_N=128, dtype="float32"):
    """The tanh form of GELU."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                x = X[by * block_M + i, bx * block_N + j]
                y = 0.5 * x * (1.0 + T.tanh(0.797885 * (x + 0.044715 * x * x * x)))
                Y[by * block_M + i, bx * block_N + j] = y

    return main


def main(M=500, N=1000):
    x = np.random.default_rng(0).standard_normal((M, N), dtype=np.float32)

    np.testing.assert_array_equal(to_host(relu(M, N)(to_device(x))), np.maximum(x, 0))
    print(f"elementwise: ReLU of ({M}, {N}) agrees with NumPy")

    expected = 0.5 * x * (1 + np.tanh(0.797885 * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(to_host(gelu(M, N)(to_device(x))), expected, rtol=1e-4, atol=1e-5)
    print(f"elementwise: GELU of ({M}, {N}) agrees with NumPy")


if __name__ == "__main__":
    main()
