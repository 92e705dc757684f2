"""Neighboring loops become one where their iterations have nothing to do with one another, and nowhere else."""

import numpy as np
import pytest
from harness import run_cpu_on_copies, run_reference_on_copies

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import For, Store
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND

FLAGS = "-O1"


def stored(func):
    """Per innermost loop, the buffers that it stores to; folded scalars by their names, too."""
    found = [s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, For)]
    inner = [s for s in found if not any(isinstance(t, For) for t in walk(s.body))]
    return ["+".join(dict.fromkeys(t.buffer.name for t in walk(s.body) if isinstance(t, Store))) for s in inner]


def assert_same_as_reference(func, *arguments):
    for want, got in zip(
        run_reference_on_copies(func, arguments), run_cpu_on_copies(func, arguments, FLAGS), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6, equal_nan=True)


def rows(rows, cols, dtype="float32", tail=0):
    """Softmax of rows, whose fragment may be longer than they are."""

    @T.prim_func
    def main(X: T.Tensor((rows, cols - tail), dtype), Y: T.Tensor((rows, cols - tail), dtype)):
        with T.Kernel(1):
            x = T.alloc_fragment((rows, cols), "float32")
            most = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[0:rows, 0:cols], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(rows, cols):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, cols):
                x[i, j] /= total[i]
            T.copy(x, Y[0:rows, 0:cols])

    return main


def test_a_copy_and_a_fold_of_its_rows_are_one_loop():
    assert ["x+folded_run+folded_nan", "x+folded", "x", "Y"] == stored(rows(4, 64))


@pytest.mark.parametrize("case", [{}, {"dtype": "float16"}, {"tail": 5}], ids=str)
def test_rows_agree_with_the_reference(case):
    func = rows(3, 80, **case)
    shape, dtype = func.params[0].buffer.static_shape, func.params[0].buffer.dtype.numpy
    x = (np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    x[1, 7] = np.nan
    x[2, :] = -np.inf
    with np.errstate(all="ignore"):
        assert_same_as_reference(func, x, np.zeros(shape, dtype))


def pair(second, size=64):
    """A loop that fills `t` and another one; `u` and `s` are there for it."""

    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((3, size), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((size,), "float32")
            u = T.alloc_fragment((size,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.fill(s, 1)
            T.copy(A, u)
            for i in T.Parallel(size):
                t[i] = u[i] * 2
            second(t, u, s)
            T.copy(t, B[0, 0])
            T.copy(u, B[1, 0])
            B[2, 0] = s[0]

    return main


@T.macro
def shifted(t, u, s):
    for i in T.Parallel(64):
        u[i] = t[(i + 1) % 64]


@T.macro
def same(t, u, s):
    for i in T.Parallel(64):
        u[i] = t[i] + u[i]


@T.macro
def shorter(t, u, s):
    for i in T.Parallel(32):
        u[i] = t[i] + u[i]


@T.macro
def folding(t, u, s):
    for i in T.Parallel(64):
        s[0] += t[i]


@T.macro
def reading(t, u, s):
    folding(t, u, s)
    for i in T.Parallel(64):
        u[i] = u[i] + s[0]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (same, ["u+t", "B", "B"]),
        (shifted, ["u+t", "u", "B", "B"]),
        (shorter, ["u+t", "u", "B", "B"]),
    ],
)
def test_loops_whose_iterations_meet_or_differ_stay_apart(second, expected):
    func = pair(second)
    found = [name for name in stored(func) if name != "s"]
    assert expected == found
    assert_same_as_reference(func, np.arange(64, dtype=np.float32), np.zeros((3, 64), np.float32))


@T.macro
def overwriting(t, u, s):
    for i in T.Parallel(32):
        t[i] = t[i + 32]
    for i in T.Parallel(64):
        u[i] = u[i] + t[i]


def test_loops_that_are_not_adjacent_are_fused_if_what_is_between_may_run_before_them():
    @T.prim_func
    def func(A: T.Tensor((64,), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((64,), "float32")
            u = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                t[i] = A[i] * 2
            for i in T.Parallel(32):
                u[i] = 1
                u[i + 32] = 2
            for i in T.Parallel(64):
                u[i] = u[i] + t[i]
            T.copy(t, B[0, 0])
            T.copy(u, B[1, 0])

    assert ["u", "t+u", "B", "B"] == stored(func)
    assert_same_as_reference(func, np.arange(64, dtype=np.float32), np.zeros((2, 64), np.float32))


def test_loops_stay_apart_if_what_is_between_must_not_move():
    func = pair(overwriting)
    assert ["u+t", "t", "u", "B", "B"] == [name for name in stored(func) if name != "s"]
    assert_same_as_reference(func, np.arange(64, dtype=np.float32), np.zeros((3, 64), np.float32))


def columns(rows, cols, shift=0):
    """Sums of columns, of products that a tile holds."""

    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((cols,), "float32")):
        with T.Kernel(1):
            x = T.alloc_fragment((rows, cols), "float32")
            total = T.alloc_fragment((cols,), "float32")
            for i, j in T.Parallel(rows, cols):
                x[(i + shift) % rows if shift else i, j] = X[i, j] * X[i, j]
            T.reduce_sum(x, total, dim=0)
            T.copy(total, Y)

    return main


def test_a_tile_of_products_is_added_up_column_by_column_in_one_loop():
    func = columns(8, 64)
    assert ["folded", "folded", "total", "Y"] == stored(func)
    assert_same_as_reference(func, np.random.default_rng(0).random((8, 64), np.float32), np.zeros(64, np.float32))


def test_rows_that_another_iteration_writes_are_added_up_in_a_loop_of_its_own():
    func = columns(8, 64, shift=3)
    assert ["x", "folded", "folded", "total", "Y"] == stored(func)
    assert_same_as_reference(func, np.random.default_rng(0).random((8, 64), np.float32), np.zeros(64, np.float32))


def test_what_a_loop_folds_is_complete_before_another_reads_it():
    func = pair(reading)
    assert ["u+t+s_run", "u", "B", "B"] == [name for name in stored(func) if name != "s"]
    assert_same_as_reference(func, np.arange(64, dtype=np.float32), np.zeros((3, 64), np.float32))


def test_loops_that_write_tensors_stay_alone():
    body = run_passes(pair(same), BACKEND.passes).body
    for loop in (s for s in walk(body) if isinstance(s, For)):
        buffers = {s.buffer for s in walk(loop.body) if isinstance(s, Store)}
        assert len(buffers) == 1 or all(buffer.scope is not Scope.GLOBAL for buffer in buffers)
