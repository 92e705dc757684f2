"""Kernels and functions that make them are not subscripted by a grid."""

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def lazy(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    return main


@tilelang.jit(target="cpu")
def eager(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    with T.Kernel(1):
        T.clear(A)


@pytest.mark.parametrize("made", [lazy, eager, lazy(8)], ids=["factory", "eager", "kernel"])
def test_a_grid_in_brackets_says_where_it_belongs(made):
    error = refusal(lambda: made[(4,)](np.ones(8, np.float32)), (TypeError,))
    assert "a kernel has its grid inside, in T.Kernel, and is called without one" == error.message
    assert "write `kernel(A, B)` in place of `kernel[grid](A, B)`" == error.hint
