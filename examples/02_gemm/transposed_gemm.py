"""GEMM on matrices in either order, NN, NT, TN and TT: what lies transposed in memory is multiplied as it lies there.

`T.gemm` takes the tiles as they were copied and is told which of them to read the other way round. Nothing is
transposed in memory.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.testing import to_device, to_host


@tilelang.jit(out_idx=[-1])
def matmul(
    M, N, K, transpose_A=False, transpose_B=False, block_M=128, block_N=128, block_K=32, dtype="float16",
    accum_dtype="float32",
):  # fmt: skip
    """C = op(A) @ op(B); a transposed A is stored as (K, M), a transposed B as (N, K)."""

    def in_order(rows, columns, transposed):
        return (columns, rows) if transposed else (rows, columns)

    @T.prim_func
    def main(
        A: T.Tensor(in_order(M, K, transpose_A), dtype),
        B: T.Tensor(in_order(K, N, transpose_B), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared(in_order(block_M, block_K, transpose_A), dtype)
            B_shared = T.alloc_shared(in_order(block_K, block_N, transpose_B), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[in_order(by * block_M, k * block_K, transpose_A)], A_shared)
                T.copy(B[in_order(k * block_K, bx * block_N, transpose_B)], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def main(M=512, N=384, K=320, **tiles):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)

    for name in ("NN", "NT", "TN", "TT"):
        transpose_A, transpose_B = (letter == "T" for letter in name)
        stored_a = np.ascontiguousarray(a.T) if transpose_A else a
        stored_b = np.ascontiguousarray(b.T) if transpose_B else b
        kernel = matmul(M, N, K, transpose_A=transpose_A, transpose_B=transpose_B, **tiles)
        c = to_host(kernel(*to_device(stored_a, stored_b)))
        np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
        print(f"transposed_gemm: {name} ({M}, {N}, {K}) agrees with NumPy")


if __name__ == "__main__":
    main()
