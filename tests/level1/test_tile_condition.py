"""Conditions on whole tiles agree with the conditions on all their elements."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import BOOL, FLOAT32, INT32, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Load, Var, binary, cast, const, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.level1.tile_condition import Range, tile_condition, value_range

INT16 = DType("int16")
i, j = (Var(name, INT32, index=True) for name in "ij")
ROWS = Buffer("rows", (const(100, INT32),), INT32, Scope.GLOBAL)
COLUMNS = Buffer("columns", (const(100, INT32),), INT16, Scope.GLOBAL)
A, B = Load(ROWS, (i,), INT32), Load(COLUMNS, (j,), INT16)
LEAVES = {"i": i, "j": j, "a": A, "b": B}
ENDS = {name: (Var(f"{name}_low", e.dtype), Var(f"{name}_high", e.dtype)) for name, e in LEAVES.items()}
RANGES = {expr_key(LEAVES[name]): Range(*ends) for name, ends in ENDS.items()}


def range_of(expr: Expr) -> Range | None:
    return RANGES.get(expr_key(expr))


NUMBERS = st.sampled_from(
    [
        i, j, i - j, 3 * j - i, i * -2, i // 3, A, cast(B, INT32), A // 4, cast(B // 2, INT32), const(2, INT32),
        binary(BinaryOp.MAX, A, cast(B, INT32)), binary(BinaryOp.MIN, i, j + 2),
    ]
)  # fmt: skip
OPS = st.sampled_from([BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE, BinaryOp.EQ, BinaryOp.NE])


@st.composite
def conditions(draw, depth=2):
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return binary(draw(OPS), draw(NUMBERS), draw(NUMBERS))
    a = draw(conditions(depth - 1))
    if draw(st.booleans()):
        return unary(UnaryOp.NOT, a)
    op = draw(st.sampled_from([BinaryOp.AND, BinaryOp.OR, BinaryOp.BITAND, BinaryOp.BITOR]))
    return binary(op, a, draw(conditions(depth - 1)))


VALUES = st.lists(st.integers(-6, 6), min_size=1, max_size=3)


@given(conditions(), VALUES, VALUES, VALUES, VALUES)
def test_no_element_contradicts_it(condition, i_values, j_values, a_values, b_values):
    values = {"i": i_values, "j": j_values, "a": a_values, "b": b_values}
    truth = tile_condition(condition, range_of)
    env = {end: pick(values[name]) for name, ends in ENDS.items() for end, pick in zip(ends, (min, max), strict=True)}
    found = [
        bool(evaluate(condition, {i: x, j: y}, load=lambda load, _, a=a, b=b: a if load.buffer is ROWS else b))
        for x, y, a, b in itertools.product(i_values, j_values, a_values, b_values)
    ]
    assert bool(evaluate(truth.may_hold, env)) or not any(found)
    assert not bool(evaluate(truth.must_hold, env)) or all(found)


@pytest.mark.parametrize("op", [BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE, BinaryOp.EQ, BinaryOp.NE])
@given(st.lists(st.integers(0, 5), min_size=2, max_size=2), st.lists(st.integers(0, 5), min_size=2, max_size=2))
def test_a_comparison_of_two_ranges_is_exact_for_all_their_values(op, rows, columns):
    truth = tile_condition(binary(op, i, j), range_of)
    env = dict(zip((*ENDS["i"], *ENDS["j"]), (min(rows), max(rows), min(columns), max(columns)), strict=True))
    inside = itertools.product(range(min(rows), max(rows) + 1), range(min(columns), max(columns) + 1))
    found = [bool(evaluate(binary(op, i, j), {i: x, j: y})) for x, y in inside]
    assert any(found) is bool(evaluate(truth.may_hold, env))
    assert all(found) is bool(evaluate(truth.must_hold, env))


def test_a_truth_in_memory():
    valid = Load(Buffer("valid", (const(9, INT32),), BOOL, Scope.GLOBAL), (j,), BOOL)
    low, high = Var("low", INT32), Var("high", INT32)
    truth = tile_condition(valid, lambda _: Range(low, high))
    assert ("high != 0", "low != 0") == (repr(truth.may_hold), repr(truth.must_hold))


FLOAT = Load(Buffer("x", (const(9, INT32),), FLOAT32, Scope.GLOBAL), (j,), FLOAT32)


@pytest.mark.parametrize(
    "condition",
    [
        FLOAT > 0.5,
        A + 1 > 3,  # may wrap
        A % 2 == 0,
        cast(A, INT16) == B,  # loses values
        binary(BinaryOp.BITXOR, A > 1, i > 1),
    ],
    ids=repr,
)
def test_what_is_not_known_says_yes_and_no(condition):
    truth = tile_condition(condition, range_of)
    assert (True, False) == tuple(each.value for each in (truth.may_hold, truth.must_hold) if isinstance(each, Const))


def test_one_side_that_is_not_known_leaves_the_other():
    truth = tile_condition(binary(BinaryOp.AND, FLOAT > 0.5, i >= j), range_of)
    assert ("j_low <= i_high", "False") == (repr(truth.may_hold), repr(truth.must_hold))


def test_elements_of_unknown_range_have_none():
    assert value_range(FLOAT, range_of) is None
