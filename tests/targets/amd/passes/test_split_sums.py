"""Sums of a thread in two parts: of the same values, where loops add an even number of them."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func

import tilelang.language as T
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk

ARCHS = ["gfx942", "gfx1100"]


def row_sums(columns, dtype="float32", reduce=T.reduce_sum):
    """Sums of rows, of which each thread has a part, and some arrays to try it with."""

    @T.prim_func
    def main(A: T.Tensor((2, columns), dtype), B: T.Tensor((2,), dtype)):
        with T.Kernel(1, threads=128):
            tile, result = T.alloc_fragment((2, columns), dtype), T.alloc_fragment((2,), dtype)
            T.copy(A, tile)
            reduce(tile, result, dim=1)
            T.copy(result, B)

    values = np.random.default_rng(0).integers(-8, 8, (2, columns)).astype(dtype)
    return main, [values, np.zeros(2, dtype)]


def second_sums(func, arch):
    lowered = lower_func(func, arch)
    return [s.buffer.name for s in walk(lowered.body) if isinstance(s, Alloc) and s.buffer.name.endswith("_odd")]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("columns", [256, 512])
def test_a_thread_adds_up_its_values_in_two_sums(arch, columns) -> None:
    func, arrays = row_sums(columns)
    assert 1 == len(second_sums(func, arch))
    _, result = assert_simulates(func, *arrays, arch=arch)
    np.testing.assert_array_equal(arrays[0].sum(axis=1), result)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (256, {"dtype": "int32"}),  # no instruction adds two
        (256, {"dtype": "float64"}),
        (256, {"reduce": T.reduce_max}),
        (64 * 3, {}),  # three values of each thread
    ],
)
def test_others_stay(columns, options) -> None:
    func, arrays = row_sums(columns, **options)
    assert [] == second_sums(func, "gfx942")
    assert_simulates(func, *arrays, arch="gfx942")
