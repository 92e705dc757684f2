"""Callees and routines."""

import numpy as np

from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.ir.callee import Callee, Routine
from tilelang.ir.expr import Call, const


def test_a_callee_has_result_dtype_and_meaning() -> None:
    double = Callee("double", 1, lambda given: given[0], lambda x: x + x, lambda given: FLOAT32)
    half = as_dtype("float16")
    call = Call(double, (const(1.5, half),), double.result((half,)))
    assert "float16" == call.dtype
    assert 3.0 == double.meaning(np.float32(1.5))
    assert "float32" == double.compute((half,))


def test_a_routine_has_a_text_per_language() -> None:
    routine = Routine("gemm", {"cpp": "tl::gemm<float>({0})"}, {"cpp": "helper"})
    assert "tl::gemm<float>(a)" == routine.texts["cpp"].format("a")
