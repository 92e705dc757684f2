import math
import operator
import traceback

import numpy as np
import pytest

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, as_dtype
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.compare import same_expr
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Var,
    as_bool,
    as_expr,
    binary,
    cast,
    conjunction,
    conjuncts,
    const,
    int_const,
    select,
    unary,
)
from tilelang.ir.scalar import BinaryOp, UnaryOp

i, j = Var("i", INT32, index=True), Var("j", INT64, index=True)
d8, u8, d32, d64 = (Var(f"d{n}", as_dtype(n)) for n in ("int8", "uint8", "int32", "int64"))
f, h, b16, f64 = (Var(n, as_dtype(n)) for n in ("float32", "float16", "bfloat16", "float64"))
p = Var("p", BOOL)


@pytest.mark.parametrize(
    ("expected", "expr"),
    [
        ("int8", d8 + 1),
        ("int32", d8 + 300),
        ("int8", -d8),
        ("uint8", u8 * 2),
        ("int32", u8 - 1 + d32),
        ("int64", d32 + d64),
        ("float16", h * 2),
        ("float16", h * 0.5),
        ("float32", h + b16),
        ("float32", d32 * 0.5),
        ("float32", d32 / 2),
        ("float32", i * 0.5),
        ("float16", i * h),
        ("float64", f64 + f),
        ("int64", i + j),
        ("int32", i + 1),
        ("bool", i < 1),
        ("bool", p & (i < 1)),
        ("int32", p + p),
        ("int32", binary(BinaryOp.SHL, p, p)),
        ("int32", -p),
        ("bool", ~p),
        ("float16", select(p, h, 0.0)),
        ("int32", abs(p)),
    ],
)
def test_operands_are_promoted_to_one_dtype(expected, expr):
    assert expected == expr.dtype


def test_index_arithmetic_has_only_indices_and_literals():
    assert all(e.is_index for e in (i, i + 1, i * j // 3, -i, ~i, select(p, i, 3), cast(i, INT64), as_expr(5)))
    assert not any(e.is_index for e in (d32, i + d32, d8 * 1, i < 1, cast(i, FLOAT32), f, cast(i, as_dtype("int8"))))


def test_literals_of_a_narrow_dtype_are_data_that_wraps():
    total = const(200, as_dtype("uint8")) + const(100, as_dtype("uint8"))
    assert (44, "uint8") == (total.value, total.dtype)
    total = const(3 * 10**9, as_dtype("uint32")) + const(2 * 10**9, as_dtype("uint32"))
    assert (705032704, "uint32") == (total.value, total.dtype)
    assert (i + const(3, as_dtype("uint8"))).is_index


def test_literals_of_index_width_are_exact():
    total = const(2**31 - 1, INT32) + const(1, INT32)
    assert (2**31, INT64) == (total.value, total.dtype)
    negated = -const(-(2**31), INT32)
    assert (2**31, INT64) == (negated.value, negated.dtype)


def test_exact_literals_have_64_bits():
    largest, smallest = const(2**63 - 1, INT64), const(-(2**63), INT64)
    beyond = [(2**63, largest + 1), (2**63, -smallest), (-(2**63) - 1, smallest - 1), (2**65 - 4, largest * 4)]
    for value, expr in beyond:
        assert not isinstance(expr, Const)
        assert value == evaluate(expr, {}, exact=True)
    assert largest.value == (largest - 1 + 1).value


def test_bare_numbers_are_exact_until_combined_with_a_dtype():
    third = as_expr(1.0) / 3
    assert 1.0 / 3 == third.value
    assert float(np.float32(1.0 / 3)) == (third + const(0.0, FLOAT32)).value
    assert float(np.float16(1.0 / 3)) == (h * third).b.value


@pytest.mark.parametrize(
    "op",
    [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_]
    + [operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le, operator.eq, operator.ne],
)
def test_operators_work_from_both_sides_and_fold(op):
    assert op(13, 3) == op(as_expr(13), 3).value
    assert op(13, 3) == op(13, as_expr(3)).value
    assert op(13, 3) == evaluate(op(i, 3), {i: 13})
    assert op(13, 3) == evaluate(op(13, i), {i: 3})


@pytest.mark.parametrize("make", [bool, int, float, iter, lambda e: [0, 1][e]])
def test_values_of_the_running_kernel_are_no_python_values(make):
    with pytest.raises(StagingError) as caught:
        make(i)
    assert caught.value.message


@pytest.mark.parametrize(
    "make", [lambda: i + None, lambda: None * i, lambda: i == "x", lambda: i**None, lambda: ~f, lambda: int(i)]
)
def test_errors_of_operators_have_no_frames_of_the_package(make):
    with pytest.raises((ProgramError, StagingError)) as caught:
        make()
    assert {__file__} == {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}


@pytest.mark.parametrize("value", ["x", None, [1], object()])
def test_other_objects_are_no_expressions(value):
    with pytest.raises(StagingError, match="expected a number or an expression"):
        as_expr(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: f & 1, "operator &: needs integers, got float32"),
        (lambda: binary(BinaryOp.TRUNCDIV, f, 2), "operator truncdiv: needs integers, got float32"),
        (lambda: ~f, "operator ~: needs an integer, got float32"),
    ],
)
def test_operators_without_a_meaning_are_errors(make, message):
    with pytest.raises(ProgramError, match="operator"):
        make()
    try:
        make()
    except ProgramError as error:
        assert message in error.message


def test_numbers_become_literals():
    assert (True, BOOL) == (as_expr(True).value, as_expr(True).dtype)
    assert (5, INT64) == (as_expr(5, INT64).value, as_expr(5, INT64).dtype)
    assert (2**40, INT64) == (as_expr(2**40).value, as_expr(2**40).dtype)
    assert 3 == as_expr(np.int8(3)).value
    assert 0.5 == as_expr(np.float32(0.5)).value
    assert (1.0, "float16") == (as_expr(True, as_dtype("float16")).value, as_expr(True, as_dtype("float16")).dtype)
    assert 0.0999755859375 == const(0.1, as_dtype("float16")).value
    assert -128 == const(128, as_dtype("int8")).value


def test_casts_fold_and_vanish():
    assert d32 is cast(d32, INT32)
    assert 44 == cast(300, as_dtype("uint8")).value
    assert isinstance(cast(d32, FLOAT32), Cast)
    assert cast(math.nan, BOOL).value is True


def test_conversion_to_truth_values():
    assert p is as_bool(p)
    assert as_bool(3).value is True
    assert same_expr(d32 != 0, as_bool(d32))


def test_connectives_with_constant_operands_fold():
    yes, no = Const(True, BOOL), Const(False, BOOL)
    assert p is binary(BinaryOp.AND, yes, p)
    assert p is binary(BinaryOp.AND, p, yes)
    assert p is binary(BinaryOp.OR, no, p)
    assert no is binary(BinaryOp.AND, no, p)
    assert conjunction([]).value is True
    assert same_expr(binary(BinaryOp.AND, p, i < 3), conjunction([p, i < 3]))


def test_a_conjunction_consists_of_its_conjuncts():
    parts = [p, i < 3, j < 4]
    assert all(a is b for a, b in zip(parts, conjuncts(conjunction(parts)), strict=True))
    either = binary(BinaryOp.OR, p, i < 3)
    assert [either] == list(conjuncts(either))


def test_select_with_a_constant_condition_folds():
    assert i is select(True, i, 3)
    assert d32 is select(False, d32 + 1, d32)


def test_integer_literals_are_recognized():
    assert 3 == int_const(3)
    assert 3 == int_const(const(3, INT32))
    assert int_const(True) is None
    assert int_const(i) is None
    assert int_const(const(3.0, FLOAT32)) is None


def test_expressions_are_compared_by_identity_in_containers():
    table = {i: 1, j: 2}
    assert 2 == table[j]
    assert isinstance(i == i, Binary)
    assert (i, i + 1)[0] in table


def test_signs_are_operators_too():
    assert +i is i
    assert isinstance(unary(UnaryOp.NOT, i), Expr)


def test_shifts_by_the_width_or_more_give_zero():
    for amount in (32, 40, -1):
        assert 0 == int_const(i << amount)
        assert 0 == int_const(const(5, INT32) << amount)
        assert "int32" == (i << amount).dtype
    assert isinstance(i << 31, Binary)
    assert isinstance(j << 40, Binary)
    assert 0 == int_const(j << 64)
    assert 2**40 == int_const(as_expr(1) << 40)  # bare numbers are Python's
