"""Statements that all languages of the C family share, seen through C++."""

import numpy as np
from harness import run_everywhere

import tilelang
import tilelang.language as T

FLAGS = "-O1"


def source(func):
    return tilelang.compile(func, target="cpu", compile_flags=FLAGS).get_kernel_source()


def test_control_flow_and_mutable_scalars():
    @T.prim_func
    def main(A: T.Tensor((10,), "int32"), n: T.int32):
        with T.Kernel(1):
            x = T.alloc_var("int32", init=1)
            for k in T.serial(8, -2, -3):
                if k == 5:
                    continue
                A[k] = x
                x += k
            while x < 40:
                x = x * 2
                if x > n:
                    break
            A[9] = x
            for k in T.unroll(3):
                A[k + 5] = k
            a, b = A[0], A[1]
            A[0], A[1] = b, a + 0

    run_everywhere(main, np.zeros(10, np.int32), 25, compile_flags=FLAGS)


def test_a_trip_count_is_fixed_when_the_loop_begins():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            n = T.alloc_var("int32", init=3)
            for k in T.serial(n):
                n = 100
                A[0] = A[0] + 1

    assert [3, 0, 0, 0] == run_everywhere(main, np.zeros(4, np.int32), compile_flags=FLAGS)[0].tolist()


def test_views_share_bytes():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float32")
            T.copy(A, s)
            bits = T.view(s, (2, 2), "int32")
            for i, j in T.Parallel(2, 2):
                B[i * 2 + j] = bits[i, j]

    a = np.array([1, -2, 0.5, 3], np.float32)
    assert a.view(np.int32).tolist() == run_everywhere(main, a, np.zeros(4, np.int32), compile_flags=FLAGS)[1].tolist()


def test_the_users_line_stands_above_its_code_and_is_mapped():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = A[i] * 2.0

    text = source(main).splitlines()
    line = next(n for n, t in enumerate(text) if "A[i] = A[i] * 2.0f;" in t)
    assert text[line - 1].strip().startswith("// test_c_stmt.py:")
    assert text[line - 1].strip().endswith(": A[i] = A[i] * 2.0")


def test_a_line_that_ends_in_backslashes_does_not_swallow_the_code_below():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[0] = 1  # one \ \
            A[1] = 2  # */ /* \\
            A[2] = 3  # ??/
            A[3] = 4

    assert [1, 2, 3, 4] == run_everywhere(main, np.zeros(4, np.int32), compile_flags=FLAGS)[0].tolist()


def test_loops_side_by_side_keep_their_computed_ends_apart():
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N, 3), "int32"), B: T.Tensor((N, 3), "int32")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((9, 3), "int32")
            T.fill(s, 5)
            T.copy(s, A[0, 0])
            T.copy(s, B[0, 0])
            for i in T.serial(T.min(N, 7)):
                A[i, 0] = 1
            for i in T.serial(T.min(N, 6)):
                A[i, 1] = 2

    a, _ = run_everywhere(main, np.zeros((8, 3), np.int32), np.zeros((8, 3), np.int32), compile_flags="-O1")
    assert [1, 1, 1, 1, 1, 1, 1, 5] == a[:, 0].tolist()
    assert [2, 2, 2, 2, 2, 2, 5, 5] == a[:, 1].tolist()
