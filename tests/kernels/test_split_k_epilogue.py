"""Epilogues after split-K within a cluster: partitioned by columns among blocks, or done by one block."""

import numpy as np
import pytest
from split_k_gemm import check, draw

import tilelang.language as T
from tilelang.dtypes import as_dtype


def epilogues(kind, out="float32", operand="float16"):
    """Tiles of 64 x 64 with a bias and an activation, done in a way of its own."""
    m, n, k = 64, 48, 128

    @T.prim_func
    def main(
        A: T.Tensor((m, k), operand),
        B: T.Tensor((n, k), operand),
        bias: T.Tensor((n,), "float32"),
        R: T.Tensor((m, n), "float32"),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:  # a tile reaches beyond the results
            A_s, B_s = T.alloc_shared((64, 64), operand), T.alloc_shared((64, 64), operand)
            C_l = T.alloc_fragment((64, 64), "float32")
            if kind == "bias in registers":
                bias_l = T.alloc_fragment((64,), "float32")
                T.copy(bias[bx * 64], bias_l)
            if kind == "bias in shared memory":
                bias_s = T.alloc_shared((64,), "float32")
                T.copy(bias[bx * 64], bias_s)
            T.clear(C_l)
            for i in T.Pipelined(k // 64, num_stages=2):
                T.copy(A[0, i * 64], A_s)
                T.copy(B[bx * 64, i * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            if kind == "bias in registers":
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.max(C_l[i, j] + bias_l[j], 0)
                T.copy(C_l, C[0, bx * 64])
            elif kind == "bias in shared memory":
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = T.max(C_l[i, j] + bias_s[j], 0)
                T.copy(C_l, C[0, bx * 64])
            elif kind == "residual":
                R_l = T.alloc_fragment((64, 64), "float32")
                T.copy(R[0, bx * 64], R_l)
                for i, j in T.Parallel(64, 64):
                    R_l[i, j] = R_l[i, j] - C_l[i, j]
                T.copy(R_l, C[0, bx * 64])
            elif kind == "through shared memory":
                C_s = T.alloc_shared((64, 64), out)
                T.copy(C_l, C_s)
                T.copy(C_s, C[0, bx * 64])
            elif kind == "element by element":
                for j, i in T.Parallel(64, 64):
                    C[i, bx * 64 + j] = C_l[i, j] * 2 + j
            elif kind == "sums of rows":
                rows = T.alloc_fragment((64,), "float32")
                T.reduce_sum(C_l, rows, dim=1)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] = C_l[i, j] - rows[i]
                T.copy(C_l, C[0, bx * 64])

    return main, [
        draw((m, k), operand),
        draw((n, k), operand, 1),
        draw((n,), "float32", 2),
        draw((m, n), "float32", 3),
        np.zeros((m, n), as_dtype(out).numpy),
    ]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize(
    ("kind", "owners"),
    [
        ("bias in registers", 2),
        ("bias in shared memory", 2),
        ("residual", 2),
        ("through shared memory", 2),
        ("element by element", 2),
        ("sums of rows", 1),
    ],
)
def test_what_is_done_with_the_results(kind, owners):
    func, arguments = epilogues(kind)
    check(func, 2, arguments, owners=owners)


def test_operands_in_bfloat16():
    func, arguments = epilogues("bias in registers", out="bfloat16", operand="bfloat16")
    check(func, 2, arguments)


def test_sums_in_half_precision():
    m, n, k = 64, 64, 256

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float16")
            T.clear(C_l)
            for i in T.Pipelined(k // 64, num_stages=2):
                T.copy(A[0, i * 64], A_s)
                T.copy(B[i * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    check(main, 2, [draw((m, k)), draw((k, n), seed=1), np.zeros((m, n), np.float16)])
