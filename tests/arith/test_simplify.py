import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    Place,
    data_variables,
    index_conditions,
    index_expressions,
    mixed_conditions,
    mixed_expressions,
    places,
)

from tilelang.arith.affine import to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of
from tilelang.arith.simplify import cost, cost_of_sum, simplify
from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Load, Select, Var, binary, cast, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import walk_expr


def index(name: str) -> Var:
    return Var(name, INT32, index=True)


i, j, k, n, x = (index(name) for name in "ijknx")
f = Var("f", FLOAT32)
LARGEST = const(2**63 - 1, INT64)
IN_TILE = Domain().with_range(j, 0, 7)


def check_same(expr: Expr, place: Place, seed: int) -> None:
    simple = simplify(expr, place.domain)
    assert expr.dtype == simple.dtype
    assert expr.is_index == simple.is_index or not expr.is_index
    for point in place.points(seed):
        for exact in (False, True):
            assert evaluate(expr, point, exact=exact) == evaluate(simple, point, exact=exact), point


@given(st.data(), st.integers(0, 999))
def test_index_arithmetic_keeps_its_value(data, seed):
    place = data.draw(places())
    check_same(data.draw(index_expressions(list(place.ranges), 4)), place, seed)


@given(st.data(), st.integers(0, 999))
def test_conditions_keep_their_value(data, seed):
    place = data.draw(places())
    check_same(data.draw(index_conditions(list(place.ranges), 3)), place, seed)


@given(st.data(), st.integers(0, 999))
def test_wrapping_integers_keep_their_value_beside_large_indices(data, seed):
    place = data.draw(places(wide=True))
    numbers = data_variables()
    place = Place({**place.ranges, **numbers}, place.domain, place.conditions)
    indices = [var for var in place.ranges if var.index]
    strategy = st.one_of(mixed_expressions(list(numbers), indices, 3), mixed_conditions(list(numbers), indices, 2))
    check_same(data.draw(strategy), place, seed)


@given(st.data())
def test_nothing_becomes_dearer(data):
    place = data.draw(places())
    expr = data.draw(index_expressions(list(place.ranges), 4))
    assert cost(simplify(expr, place.domain)) <= cost(expr)


@given(st.data(), st.integers(-3, 3))
def test_the_cost_of_a_sum_is_that_of_its_expression(data, factor):
    place = data.draw(places())
    linear = analysis_of(place.domain).sum(data.draw(index_expressions(list(place.ranges), 4))).times(factor)
    assert cost_of_sum(linear) == cost(to_expr(linear))


@pytest.mark.parametrize(
    ("expected", "expr"),
    [
        (i, (i * 8 + j) // 8),
        (j, (i * 8 + j) % 8),
        (x, x // 4 * 4 + x % 4),
        (x, 8 * (x // 8) + 4 * (x // 4 % 2) + x % 4),
        (n, i + n - i),
        (j, i * n + j - n * i),
        (x // 32, x // 4 // 8),
        (x % 8, x % 8 % 8),
        (Const(True, BOOL), i * 8 + j < i * 8 + 8),
        (Const(False, BOOL), i * 8 + j >= i * 8 + 8),
        (j < n, i * 8 + j < i * 8 + n),
        (j, binary(BinaryOp.MIN, j, 7)),
        (i, select(j < 8, i, n)),
        (i < 3, binary(BinaryOp.AND, i < 3, i < 5)),
        (Const(0, INT32), (j & 7) - j),
        (Const(5, INT32), i * 0 + 5),
        (i, i << 0),
        (j, binary(BinaryOp.TRUNCMOD, j, 8)),
        (select(n >= 3, j, i), select(unary(UnaryOp.NOT, n < 3), j, i)),
        (i >= n, unary(UnaryOp.NOT, i < n)),
        (i < n, binary(BinaryOp.BITOR, i < n, Const(False, BOOL))),
        (i < n, binary(BinaryOp.BITAND, Const(True, BOOL), i < n)),
        (i >= n, binary(BinaryOp.BITXOR, i < n, Const(True, BOOL))),
    ],
)
def test_known_identities_are_found(expected, expr):
    assert same_expr(expected, simplify(expr, IN_TILE))


def test_division_by_a_symbolic_extent_undoes_row_major_order():
    domain = Domain().with_range(n, 0).with_range(k, 0, n - 1)
    assert same_expr(i, simplify((i * n + k) // n, domain))
    assert same_expr(k, simplify((i * n + k) % n, domain))


@pytest.mark.parametrize(
    "expr", [i - 5 - LARGEST, i * LARGEST * 4, i - LARGEST < 7 + j, n * 0 + LARGEST + (i - i + LARGEST)]
)
def test_literals_fit_64_bits(expr):
    simple = simplify(expr, IN_TILE)
    assert all(-(2**63) <= e.value < 2**63 for e in walk_expr(simple) if isinstance(e, Const))
    for place in (dict.fromkeys((i, j, n), number) for number in (-3, 0, 7)):
        assert evaluate(expr, place, exact=True) == evaluate(simple, place, exact=True)


def test_a_side_of_a_choice_knows_the_condition():
    assert same_expr(select(i < 5, 1, i), simplify(select(i < 5, select(i < 6, 1, 2), i)))


def test_the_second_half_of_a_conjunction_knows_the_first():
    assert same_expr(i < 5, simplify(binary(BinaryOp.AND, i < 5, i < 6)))


def test_wrapping_data_is_not_divided_as_if_it_were_exact():
    d = Var("d", as_dtype("int8"))
    expr = (d * 4) // 4
    assert same_expr(expr, simplify(expr))


def test_sums_of_wrapping_data_cancel():
    d, e = Var("d", as_dtype("uint8")), Var("e", as_dtype("uint8"))
    assert same_expr(d, simplify(d + e - e))


def test_data_in_a_known_range_is_treated_as_exact():
    d = Var("d", INT32)
    assert simplify(d + 1 <= 10, Domain().with_range(d, 0, 9)).value is True


@pytest.mark.parametrize("expr", [f * 0.0, f + 0.0, f - f, (f + 1.0) - 1.0, f == f, binary(BinaryOp.LT, f, f)])
def test_float_arithmetic_is_left_alone(expr):
    assert expr is simplify(expr)


def test_the_negation_of_a_float_comparison_stays_a_negation():
    expr = unary(UnaryOp.NOT, f < 1.0)
    assert expr is simplify(expr)


def test_indices_inside_loads_are_simplified():
    buffer = Buffer("A", (const(64, INT32),), FLOAT32, Scope.GLOBAL)
    simple = simplify(Load(buffer, ((i * 8 + j) // 8,), FLOAT32) + f, IN_TILE)
    assert same_expr(Load(buffer, (i,), FLOAT32) + f, simple)


def test_a_load_from_memory_that_may_change_is_no_fact():
    buffer = Buffer("A", (const(64, INT32),), INT32, Scope.GLOBAL)
    condition = Load(buffer, (i,), INT32) < 5
    assert condition is simplify(condition, Domain().assume(condition))


def test_a_wider_expression_keeps_its_dtype():
    simple = simplify(cast(i, INT64) * 2 + cast(i, INT64))
    assert INT64 == simple.dtype
    assert simple.is_index


def test_a_variable_with_one_value_becomes_a_literal():
    assert 3 == simplify(i + 1, Domain().with_range(i, 2, 2)).value


def test_a_binding_is_not_replaced_by_its_value_but_its_value_is_known():
    domain = Domain().with_range(j, 0, 7).with_value(k, j * 8)
    assert same_expr(k + i, simplify(k + i, domain))
    assert simplify(k < 57, domain).value is True
    assert simplify(k == j * 8, domain).value is True


def test_shared_subexpressions_do_not_blow_up():
    expr: Expr = x
    for _ in range(24):
        expr = binary(BinaryOp.MAX, expr, expr - 1)
    assert INT32 == simplify(expr).dtype
    for _ in range(24):
        expr = Select(expr < 3, expr, expr + i, INT32)
    assert INT32 == simplify(expr).dtype
