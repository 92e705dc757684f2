"""Eager style: a function that takes tensors and returns tensors, specialised on their shapes and dtypes."""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit
def matmul(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])

    return C


def main(M=256, N=192, K=130):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)

    tensors = to_device(a, b)
    c = matmul(*tensors)  # compiles at the first call with these shapes
    again = matmul(*tensors, block_M=32)  # tunables are keyword arguments

    expected = a.astype(np.float32) @ b.astype(np.float32)
    for result in to_host(c, again):
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    print(f"eager_style: ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
