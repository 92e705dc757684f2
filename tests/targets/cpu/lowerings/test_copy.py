"""Copies, transposes and fills between all scopes, with and without conversion, at the edges of tensors."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang
import tilelang.language as T

FLAGS = "-O1"


@pytest.mark.parametrize(("source", "target"), [("float32", "float32"), ("float32", "bfloat16"), ("int8", "float16")])
def test_tiles_at_the_edges_of_tensors(source, target):
    @T.prim_func
    def main(A: T.Tensor((13, 21), source), B: T.Tensor((13, 21), target)):
        with T.Kernel(3, 2) as (bx, by):
            s = T.alloc_shared((8, 8), source)
            f = T.alloc_fragment((8, 8), target)
            T.copy(A[by * 8, bx * 8], s)
            T.copy(s, f)
            T.copy(f, B[by * 8, bx * 8])

    a = np.random.randint(-50, 50, (13, 21)).astype(T.dtype(source).numpy)
    run_everywhere(main, a, np.zeros((13, 21), T.dtype(target).numpy), compile_flags=FLAGS)


def test_regions_of_many_dimensions():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 5, 7), "int32"), B: T.Tensor((5, 7), "int32"), C: T.Tensor((4, 7), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((3, 4, 7), "int32")
            T.clear(s)
            T.copy(A[1, 0:3, 1:5, :], s)
            T.copy(s[2, :, :], C)
            T.copy(A[0, 2, :, :], B)

    a = np.arange(210, dtype=np.int32).reshape(2, 3, 5, 7)
    run_everywhere(main, a, np.zeros((5, 7), np.int32), np.zeros((4, 7), np.int32), compile_flags=FLAGS)


def test_strided_tensors():
    @T.prim_func
    def main(A: T.Tensor((5, 7), "int32"), B: T.StridedTensor((5, 7), (T.dyn["s"], 2), "int32")):
        with T.Kernel(1):
            T.copy(A, B)

    a = np.arange(35, dtype=np.int32).reshape(5, 7)
    whole = np.zeros((5, 16), np.int32)
    tilelang.compile(main, target="cpu", compile_flags=FLAGS)(a, whole[:, 0:14:2])
    np.testing.assert_array_equal(a, whole[:, 0:14:2])
    assert not whole[:, 1::2].any()
    assert not whole[:, 14:].any()


def test_transpose_between_tiles_and_in_place():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "int32"), B: T.Tensor((6, 4), "int32"), C: T.Tensor((5, 5), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4, 6), "int32")
            t = T.alloc_shared((6, 4), "int32")
            q = T.alloc_shared((5, 5), "int32")
            T.copy(A, s)
            T.transpose(s, t)
            T.copy(t, B)
            T.copy(C, q)
            T.transpose(q, q)
            T.copy(q, C)

    a, c = np.arange(24, dtype=np.int32).reshape(4, 6), np.arange(25, dtype=np.int32).reshape(5, 5)
    results = run_everywhere(main, a, np.zeros((6, 4), np.int32), c, compile_flags=FLAGS)
    np.testing.assert_array_equal(a.T, results[1])
    np.testing.assert_array_equal(c.T, results[2])


def test_a_fill_computes_its_value_once_and_stays_in_its_region():
    @T.prim_func
    def main(A: T.Tensor((6, 6), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((6, 6), "int32")
            T.fill(s, 1)
            T.fill(s[1:4, 2:5], s[1, 2] + 4)
            T.clear(s[5, :])
            T.copy(s, A)

    expected = np.ones((6, 6), np.int32)
    expected[1:4, 2:5] = 5
    expected[5] = 0
    np.testing.assert_array_equal(expected, run_everywhere(main, np.zeros((6, 6), np.int32), compile_flags=FLAGS)[0])


def test_an_overlapping_source_is_read_before_anything_is_written():
    @T.prim_func
    def main(A: T.Tensor((9,), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((9,), "int32")
            T.copy(A, s)
            T.copy(s[0:8], s[1:9])
            T.copy(s[0:4], s[5:9])
            T.copy(s, A)

    run_everywhere(main, np.arange(9, dtype=np.int32), compile_flags=FLAGS)
