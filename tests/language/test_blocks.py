"""Loops, branches, jumps and bindings as calls and `with` blocks: the same results as Python's statements."""

import re

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, StagingError, TileLangError
from tilelang.sim.tile_interp import run_reference

BACKENDS = [
    {"execution_backend": "reference"},
    {"target": "cpu"},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}},
]


def fill(A, count):  # plain Python: its statements are not recorded, but these blocks are
    with T.While(A[7] < count):
        A[7] += 1


@T.prim_func
def blocks(A: T.Tensor((8,), "int32"), n: T.int32):
    with T.Kernel(1, threads=32):
        total = T.int32(0)
        with T.While(A[0] < n):
            A[0] += 1
            total += A[0]
            with T.If(A[0] == 6):
                with T.Then():
                    T.loop_break()
        A[1] = total
        for i in T.serial(10):
            with T.If(i % 2 == 0):
                with T.Then():
                    T.continue_loop()
                with T.Else():
                    with T.If(i > n):
                        with T.Then():
                            T.break_loop()
            A[2] += i
        kind = T.int32(3)
        with T.If(n > 4):
            with T.Then():
                kind = 10
            with T.Else():
                kind = kind + 1
        A[3] = kind
        v = T.int32()
        T.let(v, n * 2)
        A[4] = v + T.let(v, 5, v * v) + T.Let(v + n, {v: 100, n: 7})
        before = T.bind(A[4])
        A[4] = 0
        w = T.int32()
        T.bind(A[3], var=w)
        A[5] = before + w
        A[6] = T.if_then_else(T.likely(n > 2), T.undef() + 1, 2) + T.ignore_loop_partition(n)
        fill(A, n + 2)


@pytest.mark.parametrize("backend", BACKENDS, ids=["reference", "cpu", "simulator"])
def test_blocks_mean_what_statements_mean(backend):
    kernel = tilelang.compile(blocks, **backend)
    for n in (2, 9):
        a = np.zeros(8, np.int32)
        kernel(a, n)
        last = min(n, 6)
        odd = sum(i for i in range(1, 10, 2) if i <= n)
        kind = 10 if n > 4 else 4
        expected = [last, last * (last + 1) // 2, odd, kind, 0, 2 * n + 25 + 107 + kind, n + (1 if n > 2 else 2), n + 2]
        assert expected == a.tolist()


def test_names_that_only_a_block_assigns_have_no_value_after_it():
    with pytest.raises(ProgramError, match="'x' has no value here: it is assigned only inside the branch above"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                with T.If(A[0] > 0):
                    with T.Then():
                        x = A[1]
                A[2] = x


def test_a_while_over_plain_values_is_decided_at_once():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            with T.While(False):
                A[0] = 1
            with T.While(True):
                A[1] += 1
                if A[1] > 3:
                    T.loop_break()

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [0, 4, 0, 0] == a.tolist()


def stray_break(A):
    T.loop_break()


@T.macro
def parallel_break(A):
    for i in T.Parallel(4):
        T.break_loop()


@T.macro
def stray_then(A):
    with T.Then():
        A[0] = 1


@T.macro
def two_thens(A):
    with T.If(A[0] > 0):
        with T.Then():
            A[0] = 1
        with T.Then():
            A[0] = 2


@T.macro
def no_then(A):
    with T.If(A[0] > 0):
        with T.Else():
            A[0] = 1


@T.macro
def beside(A):
    with T.If(A[0] > 0):
        A[0] = 1
        with T.Then():
            A[0] = 1


@T.macro
def no_variable(A):
    T.let(A[0], 1)


@T.macro
def vector_condition(A):
    with T.While(T.Ramp(0, 1, 4) < 2):
        A[0] = 1


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        (stray_break, StagingError, "T.loop_break: there is no loop around"),
        (parallel_break, StagingError, "T.break_loop cannot leave a T.Parallel loop"),
        (stray_then, ProgramError, "T.Then: stands outside of T.If"),
        (two_thens, ProgramError, "T.Then: this T.If has one already"),
        (no_then, ProgramError, "T.If: there is no T.Then inside"),
        (beside, ProgramError, "T.If: something stands beside T.Then and T.Else"),
        (no_variable, TypeError, "T.let: A[0] is no variable"),
        (vector_condition, TypeError, "T.While: the condition is a boolx4, not a scalar"),
    ],
)
def test_mistakes(statement, kind, message):
    with pytest.raises(kind, match=re.escape(message)) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                statement(A)

    assert isinstance(caught.value, TileLangError)
