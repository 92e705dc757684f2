"""Gemms by the micro-kernel and by loops against NumPy."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND


def product(M, N, K, dtype, accum, trans_a=False, trans_b=False, clear=False, other=None):
    shape_a, shape_b = ((K, M) if trans_a else (M, K)), ((N, K) if trans_b else (K, N))

    @T.prim_func
    def main(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, other or dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(1):
            a = T.alloc_shared(shape_a, dtype)
            b = T.alloc_shared(shape_b, other or dtype)
            c = T.alloc_fragment((M, N), accum)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b, clear_accum=clear)
            T.copy(c, C)

    return main


def arguments(M, N, K, dtype, accum, trans_a=False, trans_b=False, other=None):
    def make(shape, name):
        return np.random.randint(-3, 4, shape).astype(T.dtype(name).numpy)

    shape_a, shape_b = ((K, M) if trans_a else (M, K)), ((N, K) if trans_b else (K, N))
    return make(shape_a, dtype), make(shape_b, other or dtype), make((M, N), accum)


def calls_routine(func):
    return any(isinstance(s, CallStmt) for s in walk(run_passes(func, BACKEND.passes).body))


@pytest.mark.parametrize(
    ("dtype", "accum"),
    [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16"), ("int8", "int32"), ("float64", "float64")],
)
def test_the_micro_kernel_computes_common_dtypes(dtype, accum):
    func = product(9, 20, 11, dtype, accum)
    assert calls_routine(func)
    run_everywhere(func, *arguments(9, 20, 11, dtype, accum))


@pytest.mark.parametrize("dtypes", [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2fnuz", "float8_e4m3fnuz")])
def test_8_bit_floats_of_two_dtypes(dtypes):
    func = product(9, 20, 11, dtypes[0], "float32", other=dtypes[1])
    run_everywhere(func, *arguments(9, 20, 11, dtypes[0], "float32", other=dtypes[1]))


@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, True), (True, False), (True, True)])
def test_transposed_operands_and_a_cleared_result(trans_a, trans_b):
    func = product(5, 7, 6, "float32", "float32", trans_a, trans_b, clear=True)
    run_everywhere(func, *arguments(5, 7, 6, "float32", "float32", trans_a, trans_b))


def test_a_wide_operand_beside_a_narrow_one_is_rounded():
    func = product(4, 8, 5, "float32", "float32", other="bfloat16")
    a, b, c = arguments(4, 8, 5, "float32", "float32", other="bfloat16")
    run_everywhere(func, a + np.float32(0.001), b, c)


def test_a_computed_clear_condition():
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((4, 4), "float32")
            c = T.alloc_fragment((4, 4), "float32")
            T.copy(A, a)
            for k in T.serial(3):
                T.gemm(a, a, c, clear_accum=k == 0)
            T.copy(c, C)

    run_everywhere(main, np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32))


@pytest.mark.parametrize("trans_b", [False, True])
def test_symbolic_sizes_are_lowered_to_loops(trans_b):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), C: T.Tensor((8, 8), "float32"), n: T.int32):
        with T.Kernel(1):
            a = T.alloc_shared((8, 8), "float32")
            c = T.alloc_fragment((8, 8), "float32")
            T.copy(A, a)
            T.clear(c)
            T.gemm(a[0:8, 0:n], a[0:n, 0:8] if not trans_b else a[0:8, 0:n], c, transpose_B=trans_b)
            T.copy(c, C)

    assert not calls_routine(main)
    run_everywhere(main, np.random.rand(8, 8).astype(np.float32), np.zeros((8, 8), np.float32), 5)
