"""Asynchronous copies outside of pipelines are closed and awaited right before what needs them."""

import numpy as np
import pytest
from harness import run_reference_on_copies
from lazy_copies import expanded, run_lazily

import tilelang.language as T
from tilelang.ir.printer import to_text

N = 8


def check(func):
    a = np.arange(4 * N * N, dtype=np.int32).reshape(4, N, N)
    c = np.zeros((N, N), np.int32)
    expected = run_reference_on_copies(func, (a, c))
    after = expanded(func)
    actual, _ = run_lazily(after, (a, c))
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)
    lines = [line.strip() for line in to_text(after).splitlines()]
    return [line for line in lines if line.startswith(("cp_async", "T.", "for", "if", "C["))]


def kernel(body):
    @T.prim_func
    def main(A: T.Tensor((4, N, N), "int32"), C: T.Tensor((N, N), "int32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_shared((N, N), "int32")
            Y = T.alloc_shared((N, N), "int32")
            body(A, C, X, Y)

    return main


def test_copies_in_a_row_make_one_group_and_each_waits_for_its_first_use():
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        T.copy(A[1, 0, 0], Y)
        C[0, 0] = 1
        C[0, 1] = X[0, 0]
        C[0, 2] = Y[0, 1]

    lines = check(kernel(body))
    assert [
        "T.copy(A[0, :, :], X)  # copy.cp_async",
        "T.copy(A[1, :, :], Y)  # copy.cp_async",
        "cp_async_commit()",
        "C[0, 0] = 1",
        "cp_async_wait(0)",
        "C[0, 1] = X[0, 0]",
        "C[0, 2] = Y[0, 1]",
    ] == lines


def test_a_wait_leaves_newer_groups_under_way():
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        C[0, 0] = 1
        T.copy(A[1, 0, 0], Y)
        C[0, 1] = X[0, 0]
        C[0, 2] = Y[0, 1]

    assert ["cp_async_wait(1)", "C[0, 1] = X[0, 0]", "cp_async_wait(0)", "C[0, 2] = Y[0, 1]"] == check(kernel(body))[-4:]


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_loops_and_branches_leave_nothing_under_way(trips):
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], Y)
        for k in T.serial(trips):
            T.copy(A[k, 0, 0], X)
            C[k, 0] = X[0, 0]
            if k == 1:
                T.copy(A[3, 0, 0], X)
        C[0, 1] = Y[0, 1]

    check(kernel(body))


def test_a_copy_over_another_one_comes_after_it_and_parts_of_a_tile_go_together():
    @T.macro
    def over(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        T.copy(A[1, 0, 0], X)
        C[0, 1] = X[0, 0]

    assert 2 == sum(line.startswith("cp_async_wait") for line in check(kernel(over)))

    @T.macro
    def beside(A, C, X, Y):
        T.copy(A[0, 0:4, :], X[0:4, :])
        T.copy(A[1, 4:8, :], X[4:8, :])
        C[0, 1] = X[0, 0] + X[5, 5]

    assert 1 == sum(line.startswith("cp_async_wait") for line in check(kernel(beside)))


def test_a_copy_whose_place_depends_on_another_one_waits_for_it():
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        T.copy(A[X[0, 2], 0, 0], Y)
        C[0, 1] = Y[0, 0]

    check(kernel(body))
