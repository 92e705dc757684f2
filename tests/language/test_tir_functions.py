import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.language import tir_functions


def test_constants_and_conditions_have_their_values() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                inside = tir_functions.all(i > 1, i < 6, tir_functions.const(True))
                edge = tir_functions.any(i == 0, i == 7)
                A[i] = T.if_then_else(inside, tir_functions.const(300, "uint8"), T.if_then_else(edge, 5, 0))

    result = np.zeros(8, np.int32)
    tilelang.compile(main, target="cpu", execution_backend="reference")(result)
    assert [5, 0, 44, 44, 44, 44, 0, 5] == result.tolist()


def test_a_value_is_bound_in_an_expression() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                v = T.Var("v", "int32")
                A[i] = tir_functions.Let(v, A[i] + i, v * v)

    result = np.ones(8, np.int32)
    tilelang.compile(main, target="cpu", execution_backend="reference")(result)
    assert [(1 + i) ** 2 for i in range(8)] == result.tolist()


def test_what_is_no_number_is_told() -> None:
    with pytest.raises(StagingError):
        tir_functions.const("three")
