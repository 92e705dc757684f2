"""Assertions, tiles and loop pragmas in C++."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import DeviceAssertError

FLAGS = "-O1"


def source(func):
    return tilelang.compile(func, target="cpu", compile_flags=FLAGS).get_kernel_source()


def test_the_first_failing_assertion_stops_the_launch_and_names_its_line():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(8) as bx:
            T.device_assert(A[bx] >= 0, "no negative numbers")
            T.device_assert(A[bx] < 100, "no large numbers")
            A[bx] = A[bx] + 1

    kernel = tilelang.compile(main, target="cpu", compile_flags=FLAGS)
    good = np.arange(8, dtype=np.int32)
    kernel(good)
    assert list(range(1, 9)) == good.tolist()
    with pytest.raises(DeviceAssertError, match="no large numbers") as caught:
        kernel(np.full(8, 100, np.int32))
    assert caught.value.loc.file == __file__


def test_vector_dtypes_move_as_a_whole():
    @T.prim_func
    def main(A: T.Tensor((4,), "float16x2"), B: T.Tensor((4,), "float16x2")):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float16x2")
            T.copy(A, s)
            T.copy(s, B)

    assert "tl_vector<tl::float16, 2> s[4];" in source(main)


def test_loops_have_the_pragmas_of_their_kind():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            total = T.alloc_var("float32", init=0.0)
            for i in T.Parallel(64):
                total += A[i]
            for k in T.unroll(3):
                B[0] = total + k

    text = source(main)
    assert "#pragma omp simd reduction(+: total" in text
    assert "#pragma GCC unroll 3" in text
