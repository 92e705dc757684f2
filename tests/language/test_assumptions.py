import re
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import FalseAssumption
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.jit.program import generate_source
from tilelang.options import CompileOptions
from tilelang.targets.target import parse_target

WAYS = {"reference": "cpu", "cc": "cpu", "simulator": {"kind": "cuda", "arch": "sm_90a"}}


def rows(assumed: bool = True) -> PrimFunc:
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), m: T.int32):
        if assumed:
            T.assume(N % 128 == 0)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            if assumed:
                T.assume(m + 1 > N)
            T.assume(bx < 3)  # nothing that a call could check
            if m > 3:
                T.assume(m > 5)  # nor does this hold of all calls
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i]

    return main


def test_conditions_of_dims_and_scalars_belong_to_the_function() -> None:
    func = rows()
    assert ["N % 128 == 0", "m + 1 > N"] == [to_text(condition) for condition in func.assumptions]
    assert "    T.assume(N % 128 == 0)\n    T.assume(m + 1 > N)\n" in to_text(func)
    assert digest(func) != digest(rows(assumed=False))


@pytest.mark.parametrize("backend", WAYS)
def test_every_call_is_checked(backend: str) -> None:
    kernel: Any = tilelang.compile(rows(), target=WAYS[backend], execution_backend=backend)  # type: ignore[arg-type]
    for n, m, message in ((256, 256, ""), (200, 256, "Assume: N % 128 == 0"), (256, 255, r"Assume: m \+ 1 > N")) * 2:
        a, b = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        if message:
            with pytest.raises(RuntimeError, match=message):
                kernel(a, b, m)
        else:
            kernel(a, b, m)
            assert np.array_equal(a, b)


def test_the_compiler_uses_what_is_assumed() -> None:
    guarded, free = (tilelang.compile(rows(assumed), target="cpu").get_kernel_source() for assumed in (False, True))
    assert "tl_min" in guarded or "if (" in guarded
    body = free[free.index("main_block") :]
    assert "tl_min" not in body.split('extern "C"')[0]


def test_what_is_known_is_decided_at_once() -> None:
    def assuming(n: int) -> PrimFunc:
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            T.assume(n % 4 == 0)
            with T.Kernel(1):
                A[0] = 1

        return main

    assert () == assuming(8).assumptions
    with pytest.raises(RuntimeError, match="Assume: "):
        assuming(6)


def gathers(assumed: bool = True, written: bool = False) -> PrimFunc:
    """Rows by an index that is a name, a variable, an element of a table in global and in shared memory."""
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N, 32), "float32"), I: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64, 32), "float32")):
        with T.Kernel(1, threads=64):
            table = T.alloc_shared((64,), "int32")
            T.copy(I[3, 0], table)
            x = T.alloc_var("int32")
            for i in T.serial(64):
                x = I[0, i]
                if assumed:
                    T.assume((x >= 0) & (x < N))
                if written:
                    x += 1
                for j in T.Parallel(32):
                    B[0, i, j] = A[x, j]
                if assumed:
                    T.assume(table[i] >= 0 and N > table[i])
                if written:
                    table[i] = table[i] + 1
                for j in T.Parallel(32):
                    B[3, i, j] = A[table[i], j]
            for i, j in T.Parallel(64, 32):
                row = I[1, i]
                if assumed:
                    T.assume(0 <= row < N)
                if not written:
                    B[1, i, j] = A[row, j]
            for i, j in T.Parallel(64, 32):
                if assumed:
                    T.assume(I[2, i] >= 0)
                    T.assume(not I[2, i] >= N)
                if not written:
                    B[2, i, j] = A[I[2, i], j]

    return main


def compared_with_extent(func: PrimFunc, target: Any) -> int:
    """How many lines of the kernel ask whether an index is below the extent."""
    source = generate_source(func, parse_target(target), CompileOptions()).text
    body = source[source.index("main_") :].partition("{")[2].partition("\n}\n")[0]
    return sum(re.search(r"\bN(_\w+)?\b", line.partition("//")[0]) is not None for line in body.splitlines())


@pytest.mark.parametrize("target", ["cpu", WAYS["simulator"], {"kind": "cuda", "arch": "sm_80"}])
def test_subscripts_that_are_promised_in_range_are_not_tested(target: Any) -> None:
    assert 4 == compared_with_extent(gathers(assumed=False), target)
    assert 0 == compared_with_extent(gathers(), target)
    assert 2 == compared_with_extent(gathers(written=True), target)


@pytest.mark.parametrize("backend", WAYS)
def test_interpreters_report_what_does_not_hold(backend: str) -> None:
    kernel: Any = tilelang.compile(gathers(), target=WAYS[backend], execution_backend=backend)  # type: ignore[arg-type]
    a = np.arange(10 * 32, dtype=np.float32).reshape(10, 32)
    rows = np.arange(4 * 64, dtype=np.int32).reshape(4, 64) % 10
    b = np.zeros((4, 64, 32), np.float32)
    kernel(a, rows, b)
    assert np.array_equal(a[rows], b)
    if backend == "cc":
        return  # which relies on it
    for place, name in (((0, 5), "x"), ((1, 63), "row")):
        for wrong in (-1, 10):
            bad = rows.copy()
            bad[place] = wrong
            with pytest.raises(FalseAssumption, match=rf"T.assume: '.*{name} .*' does not hold\n +--> .*test_assump"):
                kernel(a, bad, b)


def test_the_reference_reports_whole_messages() -> None:
    kernel: Any = tilelang.compile(gathers(), target="cpu", execution_backend="reference")
    rows = np.zeros((4, 64), np.int32)
    rows[3, 7] = 10
    with pytest.raises(FalseAssumption) as caught:
        kernel(np.zeros((10, 32), np.float32), rows, np.zeros((4, 64, 32), np.float32))
    first, place, line, caret, hint = str(caught.value).splitlines()
    assert "T.assume: 'table[i] >= 0 and N > table[i]' does not hold" == first
    assert "test_assumptions.py" in place and "T.assume(table[i] >= 0 and N > table[i])" in line and "^" in caret
    assert "hint: the compiler relies on it: correct it, or test the condition with an if" == hint


def test_promises_move_with_the_copies_that_run_ahead() -> None:
    def pipelined(assumed: bool, gathered: bool) -> PrimFunc:
        N = T.dynamic("N")

        @T.prim_func
        def main(
            A: T.Tensor((N, 64), "float16"), I: T.Tensor((8, 64), "int32"), C: T.Tensor((64, 64), "float32")
        ):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for k in T.Pipelined(8, num_stages=3):
                    first = I[k, 0]
                    if assumed:
                        T.assume(first >= 0)
                        T.assume(first + 64 <= N)
                    for i, j in T.Parallel(64, 64):
                        if gathered:
                            row = I[k, i]
                            if assumed:
                                T.assume(row >= 0 and row < N)
                            a[i, j] = A[row, j]
                        else:
                            a[i, j] = A[first + i, j]
                    T.gemm(a, a, c)
                T.copy(c, C)

        return main

    for arch in ("sm_80", "sm_90a"):
        target = {"kind": "cuda", "arch": arch}
        for gathered in (False, True):
            assert compared_with_extent(pipelined(assumed=False, gathered=gathered), target) > 0
            assert 0 == compared_with_extent(pipelined(assumed=True, gathered=gathered), target)


def test_promises_that_say_nothing_new_change_no_code() -> None:
    def product(assumed: bool) -> PrimFunc:
        @T.prim_func
        def main(A: T.Tensor((64, 128), "float16"), C: T.Tensor((64, 64), "float32"), n: T.int32):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 32), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for k in T.Pipelined(4, num_stages=3):
                    if assumed:
                        T.assume(k < n)
                    T.copy(A[0, k * 32], a)
                    T.gemm(a, a, c, transpose_B=True)
                T.copy(c, C)

        return main

    plain, promised = (
        tilelang.compile(product(assumed), target={"kind": "cuda", "arch": "sm_80"}).get_kernel_source()
        for assumed in (False, True)
    )
    lines = [[line for line in text.splitlines() if "// " not in line] for text in (plain, promised)]
    assert lines[0] == lines[1]
