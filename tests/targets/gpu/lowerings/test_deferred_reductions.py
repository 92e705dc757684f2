"""Sums that are completed after a loop which also multiplies them."""

import numpy as np
import pytest
from simt import SM80, TO_THREADS, assert_threads_agree

import tilelang.language as T
from tilelang.ir.stmt import CallStmt, For
from tilelang.ir.visit import accessed_buffers, walk
from tilelang.passes.runner import run_passes


def loop_of(func):
    lowered = run_passes(func, TO_THREADS, SM80)
    return next(s for s in walk(lowered.body) if isinstance(s, For) and s.var.name == "k")


def shuffles_in_loop(func):
    return sum(isinstance(s, CallStmt) for s in walk(loop_of(func)))


def keeps_sum_in_loop(func):
    """Whether the loop still uses the sum beside its parts."""
    return any(buffer.name == "total" for s in walk(loop_of(func)) for buffer in accessed_buffers(s))


def running_sum(step, n=5, rows=4, columns=64):
    @T.prim_func
    def main(A: T.Tensor((n, rows, columns), "float32"), F: T.Tensor((n, rows), "float32"),
             B: T.Tensor((rows,), "float32")):
        with T.Kernel(1, threads=64) as _:
            total = T.alloc_fragment((rows,), "float32")
            factor = T.alloc_fragment((rows,), "float32")
            a = T.alloc_fragment((rows, columns), "float32")
            T.fill(total, 3)
            for k in T.serial(n):
                T.copy(A[k, 0:rows, 0:columns], a)
                T.copy(F[k, 0:rows], factor)
                step(total, factor, a, B)
            T.copy(total, B)

    return main


@T.macro
def multiplied(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for i, j in T.Parallel(4, 64):
        total[i] += a[i, j]


@T.macro
def multiplied_behind(total, factor, a, b):
    for i, j in T.Parallel(4, 64):
        total[i] += a[i, j]
    for i in T.Parallel(4):
        total[i] = 2.0 * factor[i] * total[i]


@T.macro
def multiplied_and_added_twice(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for i, j in T.Parallel(4, 64):
        total[i] += a[i, j]
    for i, j in T.Parallel(4, 64):
        total[i] += 2.0 * a[i, j]


@T.macro
def multiplied_and_added_to_once(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for i, j in T.Parallel(4, 64):
        total[i] += a[i, j]
    for i in T.Parallel(4):
        total[i] += factor[i]


@T.macro
def one_row_added(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for j in T.Parallel(64):
        total[1] += a[1, j]


@T.macro
def looked_at(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for i, j in T.Parallel(4, 64):
        total[i] += a[i, j]
    for i in T.Parallel(4):
        b[i] = total[i]


@T.macro
def largest(total, factor, a, b):
    for i in T.Parallel(4):
        total[i] *= factor[i]
    for i, j in T.Parallel(4, 64):
        total[i] = T.max(total[i], a[i, j])


def arguments():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (5, 4)).astype("f")
    return rng.integers(-3, 4, (5, 4, 64)).astype("f"), factors, np.zeros(4, "f")


@pytest.mark.parametrize(
    ("step", "waits"), [(multiplied, True), (multiplied_behind, True), (looked_at, False), (largest, False)]
)
def test_sums_wait_where_the_loop_only_adds_and_multiplies(step, waits):
    func = running_sum(step)
    assert_threads_agree(func, *arguments())
    assert waits == (shuffles_in_loop(func) == 0)


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        (multiplied, False), (multiplied_behind, False), (multiplied_and_added_twice, False),
        (multiplied_and_added_to_once, True), (one_row_added, True), (looked_at, True),
    ],
)  # fmt: skip
def test_parts_take_over_sums_that_are_multiplied_as_a_whole(step, kept):
    func = running_sum(step)
    assert_threads_agree(func, *arguments())
    assert keeps_sum_in_loop(func) == kept
