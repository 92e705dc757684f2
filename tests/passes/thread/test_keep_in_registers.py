"""What one iteration of a loop computes and uses stays in a register; other tiles keep their memory."""

import numpy as np
import pytest
from harness import run_cpu_on_copies, run_reference_on_copies

import tilelang.language as T
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND


def program(later, dtype="float32"):
    """Squares of elements in a tile `t`, their sum, and what a macro makes of `t`."""

    @T.prim_func
    def main(X: T.Tensor((6, 64), "float32"), Y: T.Tensor((2, 6), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((6, 64), dtype)
            total = T.alloc_fragment((6,), "float32")
            T.clear(total)
            for i, j in T.Parallel(6, 64):
                t[i, j] = X[i, j] * X[i, j]
            for i, j in T.Parallel(6, 64):
                total[i] += T.float32(t[i, j]) + T.float32(t[i, j]) * 2.0
            T.copy(total, Y[0, 0])
            later(t, Y)

    return main


@T.macro
def nothing(t, Y):
    pass


@T.macro
def reading(t, Y):
    Y[1, 0] = t[2, 5]


@T.macro
def writing(t, Y):
    t[0, 0] = 3
    Y[1, 0] = t[0, 0]


def tiles(func):
    """Which of the tiles have memory in the lowered program."""
    return [s.buffer.name for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, Alloc) and s.buffer.name in ("t", "total")]


@pytest.mark.parametrize(
    ("later", "expected"),
    [(nothing, ["total"]), (reading, ["t", "total"]), (writing, ["t", "total"])],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_tile_that_nothing_else_uses_needs_no_memory(later, expected, dtype):
    func = program(later, dtype)
    assert expected == tiles(func)
    arguments = [np.random.default_rng(0).random((6, 64), np.float32), np.zeros((2, 6), np.float32)]
    want = run_reference_on_copies(func, arguments)
    for mine, theirs in zip(run_cpu_on_copies(func, arguments, "-O1"), want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_a_tile_of_which_another_element_is_read_keeps_its_memory():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((64,), "float32")
            for i in T.serial(64):
                t[i] = X[i] * 2.0
                if i > 0:
                    Y[i] = t[i - 1]

    assert ["t"] == tiles(main)
    arguments = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]
    for mine, theirs in zip(
        run_cpu_on_copies(main, arguments, "-O1"), run_reference_on_copies(main, arguments), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_a_tile_whose_index_changes_between_store_and_load_keeps_its_memory():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((3,), "float32")
            place = T.alloc_var("int32", init=0)
            for i in T.serial(64):
                t[place] = X[i] * 2.0
                place = (place + 2) % 3
                if i >= 3:
                    Y[i] = t[place]

    assert ["t"] == tiles(main)
    arguments = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]
    for mine, theirs in zip(
        run_cpu_on_copies(main, arguments, "-O1"), run_reference_on_copies(main, arguments), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
