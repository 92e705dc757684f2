"""Eager style: types stated in the body, sizes from the arguments, outputs allocated and returned."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, StagingError
from tilelang.language.eager import is_eager, stage
from tilelang.sim.tile_interp import run_reference

F32 = DType("float32")


def scale(A, factor: T.float32, block: int = 4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    S = T.empty(M, T.float32)
    with T.Kernel(T.ceildiv(N, block), M) as (bx, by):
        for j in T.Parallel(block):
            B[by, bx * block + j] = A[by, bx * block + j] * factor
            if bx == 0 and j == 0:
                S[by] = factor
    return B, S


def lazy(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1) as bx:
            A[0] = 1

    return main


def test_eager_functions_are_told_from_functions_that_return_a_prim_func():
    assert is_eager(scale)
    assert not is_eager(lazy)


def test_sizes_come_from_the_arguments_and_outputs_are_added():
    program = stage(scale, {"A": ((2, 6), F32)}, {"block": 4})
    assert ["A", "factor", "B", "S"] == [p.name for p in program.func.params]
    assert not program.single
    names = [program.func.params[i].name for i in program.outputs]
    assert ["B", "S"] == names
    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    b, s = np.zeros((2, 6), np.float32), np.zeros(2, np.float32)
    values = {"A": a, "factor": 2.5, "B": b, "S": s}
    run_reference(program.func, [values[p.name] for p in program.func.params])
    np.testing.assert_array_equal(a * 2.5, b)
    assert [2.5, 2.5] == s.tolist()


def test_sizes_may_be_given_instead_of_tensors():
    program = stage(scale, {"A": None}, {"block": 4}, {"M": 3, "N": 5})
    shapes = {p.name: getattr(p, "shape", None) for p in program.func.params}
    assert (3, 5) == tuple(e.value for e in shapes["A"])


def test_an_unknown_size_is_an_error():
    with pytest.raises(StagingError, match="T.const: nothing fixes 'N'"):
        stage(scale, {"A": None}, {"block": 4}, {"M": 3})


def test_arguments_that_do_not_fit_are_errors():
    with pytest.raises(ArgumentError, match="argument 'A': expected 2 dimensions, got shape \\(3,\\)"):
        stage(scale, {"A": ((3,), F32)}, {"block": 4})
    with pytest.raises(ArgumentError, match="argument 'A': expected dtype float32, got float64"):
        stage(scale, {"A": ((3, 4), DType("float64"))}, {"block": 4})


def product(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1) as bx:
        for i, j in T.Parallel(M, N):
            acc = T.float32(0)
            for k in T.serial(K):
                acc += A[i, k] * B[k, j]
            C[i, j] = acc
    return C


def test_arguments_that_disagree_on_a_size_name_both():
    with pytest.raises(ArgumentError, match="argument 'B': dimension 0 is 4, but 'K' is 3 elsewhere"):
        stage(product, {"A": ((2, 3), F32), "B": ((4, 2), F32)}, {})


def test_a_single_result():
    program = stage(product, {"A": ((2, 3), F32), "B": ((3, 4), F32)}, {})
    assert program.single
    a, b, c = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.zeros((2, 4), np.float32)
    run_reference(program.func, [a, b, c])
    np.testing.assert_array_equal(a @ b, c)


def test_const_and_empty_outside_eager_style():
    with pytest.raises(StagingError, match="T.const: only has a meaning in a function marked @tilelang.jit"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            M = T.const("M")

    with pytest.raises(StagingError, match="T.empty: only has a meaning in a function marked @tilelang.jit"):

        @T.prim_func
        def other(A: T.Tensor((4,), "int32")):
            M = T.empty((3,))
