"""Loops that cannot run ahead stay serial, and the plan says why."""

import dataclasses
import re

import numpy as np
import pytest
from harness import run_reference_on_copies
from lazy_copies import expanded, planned, run_lazily

import tilelang.language as T
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.expr import Const, const
from tilelang.ir.stmt import Break, CallStmt, For, ForKind, If, Launch, Seq
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_WAIT
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.nvidia.passes.plan_pipeline import plan_loop

N, TRIPS = 8, 5
TRUE = Const(True, BOOL)
SM_80 = MACHINES["sm_80"]


def kernel(case, stages=3):
    """Sums tiles of A; `case` puts something in the way."""

    @T.prim_func
    def main(A: T.Tensor((N, N * 8), "int32"), index: T.Tensor((TRIPS,), "int32"), C: T.Tensor((N, N), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((N, N), "int32")
            wide = T.alloc_shared((2, N, N), "int32")
            total = T.alloc_fragment((N, N), "int32")
            T.clear(total)
            if case == "view":
                flat = T.view(A_s, (N * N,), "int32")
            if case == "copy to a view":
                named, other = T.reshape(A_s, (N, N)), T.alloc_shared((N, N), "int32")
            for k in T.Pipelined(TRIPS, num_stages=stages):
                if case == "partial":
                    T.copy(A[0:4, k * N : k * N + N], A_s[0:4, :])
                    T.copy(A[4:8, k * N : k * N + N], A_s[4:8, :])
                elif case == "copy to a view":
                    T.copy(A[0, k * N], named)
                    T.copy(A[0, k * N + N], other)
                    total[0, 0] += other[1, 1]
                elif case == "own versions":
                    T.copy(A[0, k * N], wide[k % 2, :, :])
                elif case == "condition":
                    if k < 4:
                        T.copy(A[0, k * N], A_s)
                elif case == "read first":
                    if k > 0:
                        total[0, 0] += A_s[0, 0]
                    T.copy(A[0, k * N], A_s)
                elif case == "twice":
                    T.copy(A[0, k * N], A_s)
                    total[0, 0] += A_s[0, 1]
                    T.copy(A[0, k * N + N], A_s)
                else:
                    T.copy(A[0, k * N], A_s)
                for i, j in T.Parallel(N, N):
                    if case == "own versions":
                        total[i, j] += wide[k % 2, i, j]
                    elif case == "view":
                        total[i, j] += flat[i * N + j]
                    else:
                        total[i, j] += A_s[i, j]
                if case == "source":
                    for i, j in T.Parallel(N, N):
                        A[i, k * N + N + j] = total[i, j]
                if case == "table":
                    index[k] = total[0, 0]
            if case == "after":
                for i, j in T.Parallel(N, N):
                    total[i, j] += A_s[i, j]
            T.copy(total, C)

    return main


def arguments():
    a = np.arange(N * N * 8, dtype=np.int32).reshape(N, N * 8) % 11
    return a, np.zeros(TRIPS, np.int32), np.zeros((N, N), np.int32)


def notes(func):
    (launch,) = (s for s in walk(func.body) if isinstance(s, Launch))
    texts = [note.text.removeprefix("T.Pipelined: the loop stays serial: ") for note in launch.plan.notes]
    return [re.sub(r"line \d+", "line N", text) for text in texts]


def kinds(func):
    return [s.kind for s in walk(func.body) if isinstance(s, For)]


@pytest.mark.parametrize(
    "case,reason",
    [
        ("partial", "no copy into a shared buffer that it fills as a whole is asynchronous"),
        ("own versions", "no copy into a shared buffer that it fills as a whole is asynchronous"),
        ("condition", "no copy into a shared buffer that it fills as a whole is asynchronous"),
        ("read first", "no copy into a shared buffer that it fills as a whole is asynchronous"),
        ("source", "the statement in line N writes 'A', which the statement in line N still uses in another iteration"),
        ("after", "'A_s' is also read outside of the loop"),
        ("view", "'A_s' has views"),
    ],
)
def test_what_stands_in_the_way_is_said_and_the_loop_stays_right(case, reason):
    func = kernel(case)
    plan = planned(func)
    assert [reason] == notes(plan)
    assert ForKind.PIPELINED not in kinds(plan)
    expected = run_reference_on_copies(func, arguments())
    for want, got in zip(expected, run_lazily(expanded(func), arguments())[0], strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize(
    "inner,reason",
    [
        (If(TRUE, Break()), "it has a break or continue in the middle of an iteration"),
        (CallStmt(CP_ASYNC_WAIT, (const(0, INT32),)), "it waits for asynchronous work by hand (cp_async_wait)"),
    ],
)
def test_loops_that_the_user_has_taken_in_hand_stay_serial(inner, reason):
    loop = next(s for s in walk(kernel("").body) if isinstance(s, For) and s.pipeline is not None)
    assert (None, reason) == plan_loop(dataclasses.replace(loop, body=Seq((*loop.body.body, inner))), {}, SM_80)


@pytest.mark.parametrize("case", ["", "table", "twice", "copy to a view"])
def test_what_does_not_stand_in_the_way_is_no_reason(case):
    func = kernel(case)
    plan = planned(func)
    assert [] == notes(plan)
    assert ForKind.PIPELINED in kinds(plan)
    expected = run_reference_on_copies(func, arguments())
    for want, got in zip(expected, run_lazily(expanded(func), arguments())[0], strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("stages", [0, 1])
def test_one_version_of_each_buffer_is_a_serial_loop_without_a_remark(stages):
    plan = planned(kernel("", stages))
    assert ForKind.PIPELINED not in kinds(plan)
    assert [] == notes(plan)
