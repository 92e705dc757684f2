"""Reductions over every axis, of every operator."""


import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T

FLAGS = "-O1"
SHAPE = (3, 5, 7)
REDUCTIONS = ["sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"]


def left(dim):
    return tuple(e for axis, e in enumerate(SHAPE) if axis != dim)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("dtype", ["int32", "int8", "float32", "bfloat16"])
def test_reductions_over_every_axis(dtype):
    names = [n for n in REDUCTIONS if not n.startswith("bit") or "int" in dtype]

    @T.prim_func
    def main(
        A: T.Tensor(SHAPE, dtype),
        B0: T.Tensor((len(names), *left(0)), dtype),
        B1: T.Tensor((len(names), *left(1)), dtype),
        B2: T.Tensor((len(names), *left(2)), dtype),
    ):
        with T.Kernel(1):
            s = T.alloc_fragment(SHAPE, dtype)
            T.copy(A, s)
            for dim, out in enumerate((B0, B1, B2)):
                for n, name in enumerate(names):
                    d = T.alloc_fragment(left(dim), dtype)
                    T.fill(d, 2)
                    getattr(T, f"reduce_{name}")(s, d, dim=dim, clear=n % 2 == 0)
                    T.copy(d, out[n, :, :])

    storage = T.dtype(dtype).numpy
    a = np.random.randint(-20, 20, SHAPE).astype(storage)
    outs = [np.zeros((len(names), *left(dim)), storage) for dim in range(3)]
    run_everywhere(main, a, *outs, compile_flags=FLAGS)


def test_nan_propagates_along_each_axis():
    @T.prim_func
    def main(A: T.Tensor((6, 20), "float32"), R: T.Tensor((6,), "float32"), C: T.Tensor((20,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((6, 20), "float32")
            r = T.alloc_fragment((6,), "float32")
            c = T.alloc_fragment((20,), "float32")
            T.copy(A, s)
            T.reduce_max(s, r, dim=1)
            T.reduce_min(s, c, dim=0)
            T.copy(r, R)
            T.copy(c, C)

    a = np.random.rand(6, 20).astype(np.float32)
    a[2, 13] = np.nan
    r, c = run_everywhere(main, a, np.zeros(6, np.float32), np.zeros(20, np.float32), compile_flags=FLAGS)[1:]
    np.testing.assert_array_equal(a.max(axis=1), r)
    np.testing.assert_array_equal(a.min(axis=0), c)


@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_a_long_row_is_reduced_element_by_element():
    @T.prim_func
    def main(A: T.Tensor((2, 20000), "float32"), B: T.Tensor((20000,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((2, 20000), "float32")
            d = T.alloc_fragment((20000,), "float32")
            T.copy(A, s)
            T.reduce_sum(s, d, dim=0)
            T.copy(d, B)

    a = np.random.rand(2, 20000).astype(np.float32)
    run_everywhere(main, a, np.zeros(20000, np.float32), compile_flags=FLAGS)


def test_a_source_that_overlaps_the_destination_is_read_first():
    @T.prim_func
    def main(A: T.Tensor((4, 4), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4, 4), "int32")
            T.copy(A, s)
            T.reduce_sum(s, s[1, :], dim=1)
            T.reduce_max(s, s[2, :], dim=0)
            T.cumsum(s[0, 0:3], s[0, 1:4], dim=0)
            T.copy(s, A)

    run_everywhere(main, np.arange(16, dtype=np.int32).reshape(4, 4), compile_flags=FLAGS)
