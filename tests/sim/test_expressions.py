"""The two readings of an expression: exact as an index, wrapping and rounding as data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.callee import Callee
from tilelang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Load,
    Reinterpret,
    Unary,
    Var,
    as_expr,
    binary,
    cast,
    const,
    select,
    unary,
)
from tilelang.ir.scalar import BinaryOp, UnaryOp, convert, data_binary, exact_binary
from tilelang.sim.expressions import Evaluator

I = Var("i", INT32, index=True)
J = Var("j", INT64, index=True)


def evaluator(**values):
    made = Evaluator(lambda buffer, where: convert(hash((buffer.name, where)) % 7, buffer.dtype))
    for var in (I, J):
        made.env[var] = values.get(var.name, 0)
    return made


@pytest.mark.parametrize("op", [op for op in BinaryOp if op is not BinaryOp.DIV])
@given(a=st.integers(-9, 9), b=st.integers(-9, 9))
def test_index_arithmetic_is_exact(op, a, b):
    expr = binary(op, I, J)
    expected = exact_binary(op, a, b)
    made = evaluator(i=a, j=b)
    assert expected == made.data(expr)
    if expr.dtype.is_int:
        assert expected == made.index(expr)


def test_index_products_do_not_wrap_as_indices_and_wrap_as_data():
    made = evaluator(i=2**20, j=2**20)
    assert 2**40 == made.index(I * I)
    data = made.data(I * I)
    assert (0, np.int32) == (data, type(data))
    assert 2**40 == made.data(I * J)
    assert made.data(I * I > 2**31)


def test_data_in_index_position_is_exact_too():
    byte = Var("b", as_dtype("uint8"))
    made = evaluator()
    made.env[byte] = np.uint8(200)
    assert 400 == made.index(byte + byte)
    with np.errstate(over="ignore"):
        assert 144 == made.data(byte + byte)
    assert -200 == made.index(Unary(UnaryOp.NEG, byte, byte.dtype))
    assert ~200 == made.index(unary(UnaryOp.INVERT, byte))


def test_a_cast_that_narrows_wraps_in_either_reading():
    made = evaluator(i=300)
    narrow = cast(I, as_dtype("int8"))
    assert (44, 44) == (made.index(narrow), made.data(narrow))
    wide = cast(I * I * I * I, INT64)
    assert 300**4 == made.index(wide) == made.data(wide)


def test_floats_become_indices_by_truncation():
    x = Var("x", FLOAT32)
    made = evaluator()
    made.env[x] = np.float32(-2.7)
    assert -2 == made.index(cast(x, INT32))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "bfloat16", "float32", "float64", "int4"])
@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "MIN", "MAX", "LT", "EQ", "FLOORDIV", "FLOORMOD"])
@np.errstate(all="ignore")
def test_data_arithmetic_is_that_of_the_dtype(dtype, op):
    row = as_dtype(dtype)
    x, y = Var("x", row), Var("y", row)
    expr = binary(BinaryOp[op], x, y)
    made = evaluator()
    for a, b in ((7, 3), (-8, 5), (6, 0)):
        made.env[x], made.env[y] = convert(a, row), convert(b, row)
        expected = data_binary(BinaryOp[op], made.env[x], made.env[y], expr.dtype)
        actual = made.data(expr)
        assert expr.dtype.numpy == np.asarray(actual).dtype
        np.testing.assert_array_equal(np.asarray(expected, "d"), np.asarray(actual, "d"))


def test_only_the_chosen_side_of_a_select_is_evaluated():
    missing = Var("missing", INT32)
    flag = Var("flag", BOOL)
    made = evaluator(i=3)
    for chosen, other in ((True, False), (False, True)):
        made.env[flag] = np.bool_(chosen)
        expr = select(flag, I, missing) if chosen else select(flag, missing, I)
        assert 3 == made.data(expr) == made.index(expr), other


def test_and_and_or_stop_early():
    missing, flag = Var("missing", BOOL), Var("flag", BOOL)
    made = evaluator()
    made.env[flag] = np.bool_(False)
    assert not made.data(Binary(BinaryOp.AND, flag, missing, BOOL))
    made.env[flag] = np.bool_(True)
    assert made.data(Binary(BinaryOp.OR, flag, missing, BOOL))
    assert made.data(Binary(BinaryOp.AND, flag, flag, BOOL))


def test_loads_take_exact_indices():
    seen = []
    made = Evaluator(lambda buffer, where: seen.append((buffer.name, where)) or np.int32(5))
    made.env[I] = 2**20
    inner = Buffer("inner", (as_expr(4),), INT32, Scope.GLOBAL)
    outer = Buffer("outer", (as_expr(4), as_expr(4)), INT32, Scope.GLOBAL)
    assert 5 == made.data(Load(outer, (I * I, Load(inner, (as_expr(0),), INT32)), INT32))
    assert [("inner", (0,)), ("outer", (2**40, 5))] == seen


def test_calls_compute_in_the_dtype_that_the_callee_names():
    seen = []

    def meaning(a):
        seen.append(a.dtype)
        return a * np.float32(1.5)

    callee = Callee("f", 1, lambda d: d[0], meaning, lambda _: FLOAT32)
    half = as_dtype("bfloat16")
    x = Var("x", half)
    made = evaluator()
    made.env[x] = convert(3, half)
    result = made.data(Call(callee, (x,), half))
    assert (4.5, half.numpy, [np.dtype("f")]) == (float(result), result.dtype, seen)


def test_operators_and_calls_on_tf32_compute_in_float32_and_casts_round():
    tf32, made = as_dtype("tfloat32"), evaluator()
    x = Var("x", tf32)
    made.env[x] = np.float32(252)
    precise = x + Const(2.0**-4, tf32)
    double = Callee("f", 1, lambda d: d[0], lambda a: a * np.float32(1 + 2.0**-12), lambda _: FLOAT32)
    assert 252.0625 == made.data(precise)
    assert 252 + 252 / 4096 == made.data(Call(double, (x,), tf32))
    assert 252 == made.data(Cast(Cast(precise, FLOAT32), tf32))


def test_bits_are_reinterpreted():
    made = evaluator()
    assert 0x3F800000 == made.data(Reinterpret(const(1.0, FLOAT32), as_dtype("uint32")))
    assert 0x3F800000 == made.index(Reinterpret(const(1.0, FLOAT32), INT32))


def test_literals_have_their_dtype():
    made = evaluator()
    for value, dtype in ((7, "int8"), (1.5, "bfloat16"), (True, "bool")):
        row = as_dtype(dtype)
        assert row.numpy == np.asarray(made.data(Const(value, row))).dtype
    assert 1 == made.index(Cast(Const(True, BOOL), INT32))


def test_integer_variables_are_assigned_by_their_kind():
    made = evaluator()
    byte = Var("b", as_dtype("int8"))
    made.assign(byte, 300)
    made.assign(I, 2**40)
    assert (44, 2**40) == (made.data(byte), made.index(I))


def test_negation_and_not():
    flag, x = Var("flag", BOOL), Var("x", FLOAT32)
    made = evaluator()
    made.env[flag], made.env[x] = np.bool_(True), np.float32(2)
    assert not made.data(unary(UnaryOp.NOT, flag))
    assert -2 == made.data(-x)


def test_several_indices_at_once():
    assert (1, 2, 3) == evaluator(i=1, j=2).indices((I, J, I + J))
