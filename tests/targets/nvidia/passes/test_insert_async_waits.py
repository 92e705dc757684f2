"""Asynchronous copies outside of pipelines are closed and awaited right before what needs them."""

import numpy as np
import pytest
from harness import run_reference_on_copies
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_copies import CONTEXT, expanded, run_lazily

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Load, Var, as_expr, const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Break, Continue, For, ForKind, If, Launch, Seq, Store
from tilelang.lowering.chunks import ChunkPlan
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.passes import expand_pipeline

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
        "T.copy(A[0, :, :], X)  # copy.cp_async: 1 element at a time",
        "T.copy(A[1, :, :], Y)  # copy.cp_async: 1 element at a time",
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


@pytest.mark.parametrize("how", ["store", "atomic", "loop", "branch"])
def test_what_a_copy_reads_is_written_after_a_wait(how):
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        A[1, 0, 0] = 1  # which the copy does not read
        C[0, 0] = 1
        if how == "store":
            A[0, 0, 0] = 2
        elif how == "atomic":
            T.atomic_or(A[0, 0, 0], 2)
        elif how == "loop":
            for i in T.serial(2):
                A[i, 0, i] = 2
        else:
            if C[0, 1] == 0:
                A[0, 0, 0] = 2
        C[0, 1] = X[0, 0]
        C[0, 2] = X[1, 1]

    lines = [line for line in check(kernel(body)) if line.startswith(("C[", "cp_async_wait"))]
    assert ["C[0, 0] = 1", "cp_async_wait(0)", "C[0, 1] = X[0, 0]", "C[0, 2] = X[1, 1]"] == lines


def test_a_copy_whose_place_depends_on_another_one_waits_for_it():
    @T.macro
    def body(A, C, X, Y):
        T.copy(A[0, 0, 0], X)
        T.copy(A[X[0, 2], 0, 0], Y)
        C[0, 1] = Y[0, 0]

    check(kernel(body))


def test_tiles_in_turn_by_hand_are_filled_during_the_use_of_the_other_one():
    @T.prim_func
    def main(A: T.Tensor((4, N, N), "int32"), C: T.Tensor((N, N), "int32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_shared((2, N, N), "int32")
            total = T.alloc_fragment((N, N), "int32")
            T.clear(total)
            T.copy(A[0, 0, 0], X[0, :, :])
            for k in T.serial(4):
                if k + 1 < 4:
                    T.copy(A[k + 1, 0, 0], X[(k + 1) % 2, :, :])
                for i, j in T.Parallel(N, N):
                    total[i, j] += X[k % 2, j, i]
            T.copy(total, C)

    lines = check(main)
    waits = [n for n, line in enumerate(lines) if line.startswith("cp_async_wait")]
    uses = [n for n, line in enumerate(lines) if "T.Parallel" in line]
    assert waits[0] < uses[0] < waits[1]


def test_a_copy_for_which_iterations_wait_is_waited_for_after_a_loop_without_any():
    @T.prim_func
    def main(A: T.Tensor((4, N, N), "int32"), C: T.Tensor((N, N), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            X = T.alloc_shared((N, N), "int32")
            Y = T.alloc_shared((N, N), "int32")
            T.copy(A[0, 0, 0], X)
            for k in T.Pipelined(n, num_stages=2):
                T.copy(A[k, 0, 0], Y)
                for i, j in T.Parallel(N, N):
                    C[i, j] += X[i, j] * Y[j, i]
            Z = T.alloc_shared((N, N), "int32")
            T.clear(Z)
            T.copy(Z, C)

    lines = [line.strip() for line in to_text(expanded(main)).splitlines()]
    loop = next(n for n, line in enumerate(lines) if line.startswith("for k"))
    inside, after = (n for n, line in enumerate(lines) if line.startswith("cp_async_wait"))
    assert loop < inside < after < next(n for n, line in enumerate(lines) if line.startswith("Z ="))


# -- random programs --------------------------------------------------------------------------------------------

SHARED = [Buffer(name, tuple(const(e, INT32) for e in (3, 4)), INT32, Scope.SHARED) for name in "XY"]
K = Var("k", INT32, index=True)


@st.composite
def programs(draw, depth=2, in_loop=False):
    """Statements that copy rows of A into rows of X and Y, add what is there to C, and write to A."""
    made = []
    versions = [0, 1, 2, *([K % 3, (K + 1) % 3, (K + 2) % 3] if in_loop else [])]
    for kind in draw(st.lists(st.sampled_from("cccuuwi" + "l" * (depth > 0 and not in_loop) + "b" * in_loop), max_size=6)):
        buffer, version = draw(st.sampled_from(SHARED)), as_expr(draw(st.sampled_from(versions)))
        match kind:
            case "c":
                row = as_expr(draw(st.integers(0, 5))) + (K if in_loop else 0)
                made.append(Copy(_row(A, row), _row(buffer, version), plan=ChunkPlan(1)))
            case "u":
                at = (draw(st.integers(0, 3)),)
                value = Load(C, tuple(map(as_expr, at)), INT32) * 3 + Load(buffer, (version, as_expr(at[0])), INT32)
                made.append(Store(C, tuple(map(as_expr, at)), value))
            case "w":
                row, value = as_expr(draw(st.integers(0, 2))), const(draw(st.integers(40, 99)), INT32)
                made += [Store(A, (row, const(column, INT32)), value) for column in range(4)]
            case "i" if depth:
                condition = K < draw(st.integers(0, 4)) if in_loop else as_expr(draw(st.booleans()))
                other = Seq(tuple(draw(programs(depth - 1, in_loop)))) if draw(st.booleans()) else None
                made.append(If(condition, Seq(tuple(draw(programs(depth - 1, in_loop)))), other))
            case "l":
                trips = const(draw(st.integers(0, 4)), INT32)
                made.append(For(K, const(0, INT32), trips, 1, ForKind.SERIAL, Seq(tuple(draw(programs(depth, True))))))
            case "b":
                made.append(If(K > draw(st.integers(0, 3)), draw(st.sampled_from([Break(), Continue()]))))
    return made


def _row(buffer, row):
    return Region(buffer, (row, const(0, INT32)), (const(1, INT32), const(4, INT32)))


A = Buffer("A", (const(10, INT32), const(4, INT32)), INT32, Scope.GLOBAL)
C = Buffer("C", (const(4, INT32),), INT32, Scope.GLOBAL)


@settings(max_examples=4 * settings().max_examples)
@given(programs())
def test_programs_of_copies_and_uses_see_what_was_copied(body):
    fill = [Copy(_row(A, as_expr(n)), _row(b, as_expr(n)), plan=ChunkPlan(1)) for b in SHARED for n in range(3)]
    block = Seq((*map(Alloc, SHARED), *fill, *body))
    launch = Launch((Var("bx", INT32, index=True),), (const(1, INT32),), (32, 1, 1), block)
    func = PrimFunc("main", (TensorParam(A), TensorParam(C)), launch)
    a, c = np.arange(40, dtype=np.int32).reshape(10, 4), np.arange(4, dtype=np.int32)
    expected = run_reference_on_copies(func, (a, c))
    actual, _ = run_lazily(expand_pipeline.PASS.run(func, CONTEXT), (a, c))
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)


def test_what_a_barrier_waits_for_is_not_awaited_where_it_was_copied():
    @T.prim_func
    def main(A: T.Tensor((4, N, N), "int32"), C: T.Tensor((N, N), "int32")):
        with T.Kernel(1, threads=32):
            full = T.alloc_barrier(32)
            X = T.alloc_shared((N, N), "int32")
            Y = T.alloc_shared((N, N), "int32")
            Z = T.alloc_shared((N, N), "int32")
            T.copy(A[2, 0, 0], Z)
            C[0, 0] = 1
            T.copy(A[0, 0, 0], X)
            T.copy(A[1, 0, 0], Y)
            T.cp_async_barrier_noinc(full[0])
            T.barrier_wait(full[0], 0)
            C[0, 1] = X[0, 0]

    lines = [line.strip() for line in to_text(expanded(main)).splitlines()]
    begin = next(n for n, line in enumerate(lines) if line.startswith("T.copy(A[0"))
    assert [
        "T.copy(A[0, :, :], X)  # copy.cp_async: 1 element at a time",
        "T.copy(A[1, :, :], Y)  # copy.cp_async: 1 element at a time",
        "cp_async_wait(0)",  # of the copy before
        "mbarrier_cp_async_arrive_noinc(full)",
    ] == lines[begin : begin + 4]
    assert "cp_async_wait(0)" not in lines[begin + 4 :]
