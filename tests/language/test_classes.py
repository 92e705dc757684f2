"""Classes for isinstance and for the annotations of macros."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.language import deprecation
from tilelang.sim.tile_interp import run_reference


def test_variables_are_their_own() -> None:
    assert T.Var("i") is not T.Var("i")
    assert ("i", "int64", True) == ((v := T.Var("i", "int64")).name, v.dtype, v.index)
    assert not T.Var("x", T.float32).index


def test_what_is_a_variable_and_what_an_expression() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(*values: object) -> None:
        seen.extend((isinstance(value, T.Var), isinstance(value, T.PrimExpr)) for value in values)

    n = T.dynamic("n")
    look(n, T.Var("i"), T.int32(), n + 1, T.float32(2), 3, "n", None, T.Tensor((4,)))
    assert [(True, True)] * 3 + [(False, True)] * 2 + [(False, False)] * 4 == seen
    seen.clear()

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), k: T.int32):
        with T.Kernel(n, n) as (bx, by):
            look(bx, by, k)
            for i in T.serial(4):
                look(i)
            x = T.alloc_var("float32")
            look(x, A[bx], A[bx] + 1, A)

    assert [(True, True)] * 4 + [(False, True)] * 3 + [(False, False)] == seen


@T.macro
def step(x: T.Ref, by, n: T.int32 = 1):
    for i in range(n):
        if i >= 0:
            x = x + by
            by = by * 2


@T.macro
def swap(x: T.Ref, y: T.Ref):
    x, y = y, x


@T.macro
def twice(x: T.Ref, fixed):
    step(x, 1)
    fixed = fixed + 100
    step(x, fixed)


def test_references_change_variables_and_elements_of_the_caller() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 4), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            x = T.alloc_var("int32", 5)
            kept = T.alloc_var("int32", 7)
            at = T.alloc_var("int32", 1)
            part = T.alloc_fragment((2,), "int32")
            step(x, kept, 3)  # 5 + 7 + 14 + 28
            B[0] = x
            B[1] = kept
            step(A[at, 2], 10)
            twice(A[0, 0], kept)  # + 1 + 107
            T.clear(part)
            step(part[1], 4)
            B[2] = part[1]
            swap(B[6], B[7])
            swap(x, A[3, 3])
            B[3] = x

    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    b = np.arange(8, dtype=np.int32)
    run_reference(main, [a, b])
    assert [54, 7, 4, 15, 4, 5, 7, 6] == b.tolist()
    assert [[108, 1, 2, 3], [4, 5, 16, 7], [8, 9, 10, 11], [12, 13, 14, 54]] == a.tolist()


def test_the_place_of_a_reference_is_fixed_at_the_call() -> None:
    @T.macro
    def moving(x: T.Ref, at: T.Ref):
        at = at + 1
        x = 100 + at

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            at = T.alloc_var("int32", 1)
            moving(A[at], at)

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [0, 102, 0, 0] == a.tolist()


def test_only_places_can_be_passed_by_reference() -> None:
    for wrong, shown in ((lambda A: 3, "3"), (lambda A: A, "the whole of 'A'"), (lambda A: A[0] + 1, r"A\[0\] \+ 1")):
        with pytest.raises(ValueError, match=f"macro 'step': 'x' is passed by reference, but is given {shown}"):

            @T.prim_func
            def main(A: T.Tensor((4,), "int32")):
                with T.Kernel(1):
                    step(wrong(A), 1)


def test_var_as_annotation_is_a_deprecated_reference() -> None:
    deprecation._TOLD.clear()

    @T.macro
    def old(x: T.Var):
        x = x + 1

    with pytest.warns(DeprecationWarning, match="T.Var as the annotation of a macro's parameter is deprecated"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                old(A[2])
                old(A[2])

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [0, 0, 2, 0] == a.tolist()


def test_buffers_of_macros_are_annotated_for_the_reader() -> None:
    @T.macro
    def fill(S: T.SharedBuffer((4,), "int32"), F: T.FragmentBuffer, L: T.LocalBuffer[(4,), T.int32], value):
        T.fill(S, value)
        T.copy(S, F)
        L[0] = value

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            S, F, L = T.alloc_shared(4, "int32"), T.alloc_fragment(4, "int32"), T.alloc_local(1, "int32")
            fill(S, F, L, 3)
            T.copy(F, A)

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [3] * 4 == a.tolist()
