"""LayerNorm, with a scalar accumulator between nested parallel loops, and RMSNorm, with tile reductions."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def layer_norm(M, N, block_M=4, dtype="float32"):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        weight: T.Tensor((N,), dtype),
        bias: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_fragment((block_M, N), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            variance = T.alloc_fragment((block_M,), "float32")

            T.copy(X[bx * block_M, 0], rows)

            for i in T.Parallel(block_M):
                sum_val = T.float32(0.0)
                for j in T.Parallel(N):
                    sum_val += rows[i, j]
                mean[i] = sum_val / N

            for i in T.Parallel(block_M):
                var_val = T.float32(0.0)
                for j in T.Parallel(N):
                    diff = rows[i, j] - mean[i]
                    var_val += diff * diff
                variance[i] = var_val / N

            for i, j in T.Parallel(block_M, N):
                normal = (rows[i, j] - mean[i]) / T.sqrt(variance[i] + 1e-5)
                Y[bx * block_M + i, j] = normal * weight[j] + bias[j]

    return main


@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, block_M=4, eps=1e-6, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), weight: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_fragment((block_M, N), "float32")
            squares = T.alloc_fragment((block_M, N), "float32")
            scale = T.alloc_fragment((block_M,), "float32")

            T.copy(X[bx * block_M, 0], rows)
            for i, j in T.Parallel(block_M, N):
                squares[i, j] = rows[i, j] * rows[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.rsqrt(scale[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = rows[i, j] * scale[i] * weight[j]

    return main


def main(M=255, N=1000):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N), dtype=np.float32) * 3 + 1
    weight, bias = rng.standard_normal((2, N), dtype=np.float32)

    mean = x.mean(axis=1, keepdims=True)
    variance = x.var(axis=1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * weight + bias
    y = to_host(layer_norm(M, N)(*to_device(x, weight, bias)))
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)
    print(f"normalization: LayerNorm of ({M}, {N}) agrees with NumPy")

    expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight
    y = to_host(rms_norm(M, N)(*to_device(x, weight)))
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)
    print(f"normalization: RMSNorm of ({M}, {N}) agrees with NumPy")


if __name__ == "__main__":
    main()
