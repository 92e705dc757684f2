"""Threads load what a launch reads once past the L1 cache, and nothing else; the values are the same."""

import numpy as np
import pytest
from gpu import lower_func

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions

ROWS, COLS = 8, 512
HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def row_sums(rows=ROWS, dtype="float16", columns=1, again=0, step=1, repeat=1, result="float32", kept=False):
    """Sums of rows times a vector.

    Args:
        rows: Of the matrix.
        dtype: Its elements.
        columns: Blocks of a row, each of which reads all of it.
        again: How far the row lies behind that is read besides.
        step: From the row of one block to that of the next.
        repeat: How often each row is read.
        result: The dtype of the sums.
        kept: Whether the products are written, too.
    """

    @T.prim_func
    def main(
        A: T.Tensor((rows, COLS), dtype), X: T.Tensor((COLS,), dtype), Y: T.Tensor((ROWS,), result),
        P: T.Tensor((ROWS, COLS), dtype),
    ):
        with T.Kernel(ROWS, columns, threads=32) as (bx, by):
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for _ in T.serial(repeat):
                for j in T.Parallel(COLS):
                    total[0] += T.cast(A[bx // step, j], "float32") * T.cast(X[j], "float32")
            if again:
                for j in T.Parallel(COLS):
                    total[0] += T.cast(A[(bx + again) % rows, j], "float32")
            if kept:
                for j in T.Parallel(COLS):
                    P[bx, j] = X[j]
            if by == 0:
                Y[bx] = total[0]

    return main


def streamed(func, arch="sm_90a", **options):
    """The tensors that are loaded past the L1 cache."""
    calls = [s for s in walk(lower_func(func, arch, CompileOptions.from_user(options)).body) if isinstance(s, CallStmt)]
    return {call.args[0].buffer.name for call in calls if "no_allocate" in call.routine.name}


def test_what_is_read_once_is_loaded_past_the_cache():
    assert {"A"} == streamed(row_sums())
    assert {"A"} == streamed(row_sums(dtype="float32"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"step": 2}, "two blocks read a row"),
        ({"columns": 2}, "two blocks read a row"),
        ({"again": 1}, "others read it"),
        ({"repeat": 2}, "a loop reads it again"),
        ({"kept": True}, "as much is written"),
    ],
)
def test_what_is_read_again_is_not(options, why):
    assert set() == streamed(row_sums(**options)), why


def test_hints_can_be_switched_off_and_other_machines_have_none():
    assert set() == streamed(row_sums(), **{"tl.l2_hints": False})
    assert set() == streamed(row_sums(), "sm_80")


def large(rows):
    @T.prim_func
    def main(A: T.Tensor((rows, 8192), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(rows, threads=256) as bx:
            row = T.alloc_fragment((8192,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], row)
            T.reduce_sum(row, total)
            Y[bx] = total[0]

    return main


def test_what_is_several_times_as_large_as_the_cache_is_not():
    assert [{"A"}, set()] == [streamed(large(8192)), streamed(large(16384))]


def test_single_elements_are_loaded_as_before():
    @T.prim_func
    def turned(A: T.Tensor((64, 64), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=32) as bx:
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for j in T.Parallel(64):
                total[0] += A[j, bx]
            Y[bx] = total[0]

    assert set() == streamed(turned)


def test_sizes_that_only_the_host_knows():
    rows = T.dynamic("rows")

    @T.prim_func
    def main(A: T.Tensor((rows, COLS), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(rows, threads=32) as bx:
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for j in T.Parallel(COLS):
                total[0] += A[bx, j]
            Y[bx] = total[0]

    assert set() == streamed(main)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_values_are_the_same(dtype):
    rng = np.random.default_rng(0)
    a, x = rng.integers(-4, 4, (ROWS, COLS)).astype(dtype), rng.integers(-4, 4, COLS).astype(dtype)
    kernel = tilelang.compile(row_sums(dtype=dtype), target=HOPPER, execution_backend="simulator")
    y = np.zeros(ROWS, np.float32)
    kernel(a, x, y, np.zeros((ROWS, COLS), dtype))
    np.testing.assert_array_equal(a.astype(np.float32) @ x.astype(np.float32), y)


def test_it_says_what_it_does():
    shown = tilelang.compile(row_sums(), target=HOPPER, execution_backend="simulator").explain()
    assert "L1 cache: 'A' is read once (no_allocate)" in shown
    assert "a thread loads 'A' by 16 bytes at a time" in shown
