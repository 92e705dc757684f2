"""Vectors as expressions: packing, lanes, and operators lane by lane, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.errors import ProgramValueError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Select, Var, as_expr, cast, const, select
from tilelang.ir.vector import by_lane, extracted_lane, lane, lane_callee, lanes_of, pack, pack_callee, packed_lanes

numbers = st.lists(st.integers(-1000, 1000), min_size=2, max_size=8)


@given(numbers, st.integers(-1000, 1000))
def test_operators_work_lane_by_lane(values, scalar):
    vector, array = pack([const(value, INT32) for value in values]), np.array(values)
    mixed = (vector * 2 - scalar) // 3 + vector
    np.testing.assert_array_equal((array * 2 - scalar) // 3 + array, evaluate(mixed, {}))
    np.testing.assert_array_equal(np.where(array < scalar, -array, scalar), evaluate(select(vector < scalar, -vector, scalar), {}))
    np.testing.assert_array_equal(array.astype(np.float32), evaluate(cast(vector, as_dtype(f"float32x{len(values)}")), {}))


def test_a_lane_of_a_packed_vector_is_its_operand():
    x, y = Var("x", FLOAT32), Var("y", FLOAT32)
    vector = pack([x, y])
    assert "float32x2" == vector.dtype
    assert vector.callee is pack_callee(2)
    assert x is lane(vector, 0)
    assert (x, y) == packed_lanes(vector) == lanes_of(vector)
    assert x is pack([x])
    assert lanes_of(x) == (x,)


def test_a_lane_of_another_vector_is_extracted_at_run_time():
    vector = Var("v", as_dtype("int16x4"))
    second = lane(vector, 1)
    assert (1, "int16") == (extracted_lane(second), second.dtype)
    assert second.callee is lane_callee(1)
    assert 8 == evaluate(second, {vector: np.array([7, 8, 9, 10], np.int16)})
    assert packed_lanes(second) is None
    assert extracted_lane(pack([second, second])) is None
    assert 0 == lane(Const(0, as_dtype("int16x4")), 3).value


def test_lanes_are_promoted_to_one_dtype():
    half = Var("h", as_dtype("float16"))
    assert "float16x2" == pack([half, as_expr(1.5)]).dtype
    assert "float32x2" == pack([half, Var("x", FLOAT32)]).dtype


def test_a_select_of_vectors_stays_one():
    a, b = Var("a", as_dtype("float32x4")), Var("b", as_dtype("float32x4"))
    assert isinstance(select(Var("c", as_dtype("bool")), a, b), Select)


def test_vectors_of_unequal_lanes_are_an_error():
    with pytest.raises(ProgramValueError, match="vectors of int32x2 and int32x3 differ in lanes"):
        by_lane(lambda a, b: a + b, pack([as_expr(1)] * 2), pack([as_expr(1)] * 3))
