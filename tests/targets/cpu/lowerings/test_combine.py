"""Scans and reductions by combine functions along every dimension."""

import itertools

import numpy as np
import pytest
from harness import run_cpu_on_copies, run_everywhere

import tilelang.language as T

FLAGS = "-O1"
SHAPE = (3, 5, 7)


@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_scans_along_every_axis_in_both_directions(dtype):
    ways = tuple(itertools.product((T.cumsum, T.cummax), (0, 1, 2), (False, True)))

    @T.prim_func
    def main(A: T.Tensor(SHAPE, dtype), B: T.Tensor((12, *SHAPE), dtype)):
        with T.Kernel(1):
            s = T.alloc_fragment(SHAPE, dtype)
            d = T.alloc_fragment(SHAPE, dtype)
            for n, (scan, dim, reverse) in enumerate(ways):
                T.copy(A, s)
                T.copy(A, d)
                scan(s, d, dim=dim, reverse=reverse)
                T.copy(d, B[n, :, :, :])

    storage = T.dtype(dtype).numpy
    a = np.random.randint(-9, 9, SHAPE).astype(storage)
    run_everywhere(main, a, np.zeros((12, *SHAPE), storage), compile_flags=FLAGS)


def test_a_scan_may_be_in_place():
    @T.prim_func
    def main(A: T.Tensor((4, 9), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4, 9), "int32")
            T.copy(A, s)
            T.cumsum(s, s, dim=1, reverse=True)
            T.cumsum(s, s, dim=0)
            T.copy(s, A)

    run_everywhere(main, np.arange(36, dtype=np.int32).reshape(4, 9), compile_flags=FLAGS)


def test_sources_that_overlap_other_destinations_are_read_first():
    @T.prim_func
    def main(A: T.Tensor((4, 9), "int32"), B: T.Tensor((4, 9), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1) as _:
            T.associative_scan((A, B), (B, A), lambda a0, b0, a1, b1: (a0 + a1, b0 + b1), dim=1)
            T.reduce(B[:, 2:2], C, lambda a, b: a + b)

    a = np.arange(36, dtype=np.int32).reshape(4, 9)
    sums, swapped, untouched = run_cpu_on_copies(main, [a, a * 2, np.full(4, 7, np.int32)], FLAGS)
    np.testing.assert_array_equal(np.cumsum(a * 2, 1), sums)
    np.testing.assert_array_equal(np.cumsum(a, 1), swapped)
    assert [7] * 4 == untouched.tolist()
