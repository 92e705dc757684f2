"""Macros: inlined, hygienic, with the chain of calls in errors."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.sim.tile_interp import run_reference


@T.macro
def add_into(S, i, amount):
    local = S[i] + amount
    S[i] = local


@T.macro
def larger(a, b):
    result = a
    if b > a:
        result = b
    return result


@T.macro
def bump(x):
    x = x + 1
    return x


@T.macro
def apply(function, x):
    return function(x)


@T.macro
def endless(x):
    return endless(x + 1)


@T.macro
def out_of_range(S):
    S[9] = 0


def test_macros_take_buffers_scalars_functions_and_return_values():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            add_into(A, 0, 5)
            add_into(A, i=1, amount=A[0])
            A[2] = larger(A[0], A[1])
            A[3] = apply(lambda x: x * 3, A[2])

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [5, 5, 5, 15] == a.tolist()


def test_a_macro_does_not_change_the_caller_s_scalar():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1) as bx:
            x = T.alloc_var("int32", 1)
            A[0] = bump(x)
            A[1] = x

    a = np.zeros(2, np.int32)
    run_reference(main, [a])
    assert [2, 1] == a.tolist()


@T.macro
def powers(A, value, i: int):
    if i < 4:
        A[i] = value
        powers(A, value * value, i + 1)


def test_recursion_that_ends_is_inlined():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            powers(A, A[0], 0)

    a = np.array([2, 0, 0, 0], np.int32)
    run_reference(main, [a])
    assert [2, 4, 16, 256] == a.tolist()


def test_recursion_without_end_is_an_error():
    with pytest.raises(StagingError, match="macro 'endless' calls itself(.|\n)*called from, 199 times"):

        @T.prim_func
        def main(A: T.Tensor((2,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = endless(A[1])


def test_an_error_in_a_macro_shows_the_chain_of_calls():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def main(A: T.Tensor((2,), "int32")):
            with T.Kernel(1) as bx:
                S = T.alloc_shared((4,), "int32")
                out_of_range(S)

    message = str(caught.value)
    assert "S[9] = 0" in message
    assert "called from" in message
    assert "out_of_range(S)" in message


def test_wrong_arguments_name_the_macro():
    with pytest.raises(StagingError, match="macro 'bump': missing a required argument: 'x'"):

        @T.prim_func
        def main(A: T.Tensor((2,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = bump()


def test_a_macro_outside_of_a_kernel():
    with pytest.raises(StagingError, match="may only be used inside a kernel"):
        bump(1)
