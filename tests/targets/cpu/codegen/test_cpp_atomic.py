"""Atomic statements: atomic across blocks, with the semantics of the operator."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T

FLAGS = "-O1"


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "float16", "bfloat16"])
def test_blocks_add_to_one_element_without_losing_any(dtype):
    @T.prim_func
    def main(A: T.Tensor((2,), dtype)):
        with T.Kernel(64):
            for k in T.serial(3):
                T.atomic_add(A[k % 2], T.cast(1, dtype))

    storage = T.dtype(dtype).numpy
    values = run_everywhere(main, np.zeros(2, storage), compile_flags=FLAGS)[0]
    assert [128.0, 64.0] == values.astype(np.float64).tolist()


def test_maximum_and_minimum_propagate_nan():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), X: T.Tensor((6,), "float32")):
        with T.Kernel(6) as bx:
            T.atomic_max(A[0], X[bx])
            T.atomic_min(A[1], X[bx])
            if bx < 5:
                T.atomic_max(A[2], X[bx])
                T.atomic_min(A[3], X[bx])

    x = np.array([1, -3, 2, 7, 0, np.nan], np.float32)
    values = run_everywhere(main, np.zeros(4, np.float32), x, compile_flags=FLAGS)[0]
    np.testing.assert_array_equal([np.nan, np.nan, 7, -3], values)


def test_the_previous_value_is_returned_and_zero_out_of_range():
    @T.prim_func
    def main(A: T.Tensor((3,), "int32"), P: T.Tensor((5,), "int32")):
        with T.Kernel(1):
            for k in T.serial(5):
                P[k] = T.atomic_add(A[k], 10, return_prev=True) + 1

    a, p = run_everywhere(main, np.array([1, 2, 3], np.int32), np.zeros(5, np.int32), compile_flags=FLAGS)
    assert [11, 12, 13] == a.tolist()
    assert [2, 3, 4, 1, 1] == p.tolist()


def test_atomics_load_and_store():
    @T.prim_func
    def main(A: T.Tensor((2,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            B[0] = T.atomic_load(A[1])
            T.atomic_store(A[0], 5.0)

    a, b = run_everywhere(main, np.array([1, 2], np.float32), np.zeros(2, np.float32), compile_flags=FLAGS)
    assert [5.0, 2.0] == a.tolist()
    assert [2.0, 0.0] == b.tolist()


def test_the_memory_order_is_printed():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            T.atomic_add(A[0], 1)
            T.atomic_add(A[1], T.atomic_load(A[0], memory_order="acquire"), memory_order="release")
            T.atomic_max(B[0], 1.0, memory_order="seq_cst")

    text = tilelang.compile(main, target="cpu").get_kernel_source()
    for words in (
        "__atomic_fetch_add(&A[0], 1, __ATOMIC_RELAXED)",
        "tl_atomic_load<__ATOMIC_ACQUIRE>(&A[0])",
        "__ATOMIC_RELEASE)",
        "tl_atomic_update<__ATOMIC_SEQ_CST>(&B[0]",
    ):
        assert words in text
