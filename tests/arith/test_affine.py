import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import index_expressions, places

from tilelang.arith.affine import MAX_TERMS, Linearizer, Sum, linear_form, product, to_expr, without
from tilelang.arith.interval import analysis_of
from tilelang.dtypes import FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key, same_expr
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, cast, const

i, j, n = (Var(name, INT32, index=True) for name in "ijn")
d = Var("d", as_dtype("int8"))


def total(linear: Sum, point: dict[Var, int]) -> int:
    result = linear.constant
    for term, coefficient in linear.terms.items():
        for key in term:
            coefficient *= evaluate(key.expr, point)
        result += coefficient
    return result


@given(st.data(), st.integers(0, 999))
def test_a_sum_has_the_value_of_its_expression(data, seed):
    place = data.draw(places())
    expr = data.draw(index_expressions(list(place.ranges), 4))
    for linear in (Linearizer().sum(expr), analysis_of(place.domain).sum(expr)):
        back = to_expr(linear)
        for point in place.points(seed):
            assert evaluate(expr, point) == total(linear, point) == evaluate(back, point)


@given(st.data(), st.integers(0, 999))
def test_a_linear_form_has_the_value_of_its_expression(data, seed):
    place = data.draw(places())
    expr = data.draw(index_expressions(list(place.ranges), 3))
    form = linear_form(expr)
    if form is not None:
        for point in place.points(seed):
            assert evaluate(expr, point) == form.constant + sum(c * point[v] for v, c in form.terms.items())


@pytest.mark.parametrize(
    ("expected", "expr"),
    [
        (({i: 8, j: 1}, -3), i * 8 + j - 3),
        (({i: 1}, 0), i * 8 // 8),
        (({i: 1}, 0), i // 4 * 4 + i % 4),
        (({}, 0), i - i),
        (({i: -2}, -1), ~i - i),
        (({i: 16}, 0), i << 4),
        (({i: 3}, 0), cast(i, INT64) * 3),
        (({d: 2}, 1), d * 2 + 1),
        (({d: 1}, 0), cast(d, INT32)),
        (({i: 1}, 0), (i * n + i) - n * i),
    ],
)
def test_linear_expressions_are_recognized(expected, expr):
    form = linear_form(expr)
    assert expected == (dict(form.terms), form.constant)
    assert expected[0].get(i, 0) == form.coefficient(i)


@pytest.mark.parametrize(
    "expr", [i * n, i // 2, i % 8, i // n, cast(i, as_dtype("int8")), cast(i, FLOAT32), cast(d + d, INT32)]
)
def test_what_is_not_linear_has_no_form(expr):
    assert linear_form(expr) is None


def test_a_load_has_no_form():
    buffer = Buffer("A", (const(8, INT32),), INT32, Scope.GLOBAL)
    assert linear_form(Load(buffer, (i,), INT32) + 1) is None


def test_long_products_are_not_multiplied_out():
    many = [Var(f"v{k}", INT32, index=True) for k in range(6)]
    wide: Expr = many[0]
    for var in many[1:]:
        wide = wide + var
    linear = Linearizer().sum(wide)
    assert product(linear, linear) is None
    expr: Expr = wide
    for _ in range(8):
        expr = expr * wide
    assert len(Linearizer().sum(expr).terms) <= MAX_TERMS


def test_terms_are_divided_by_their_factors():
    a, b = expr_key(i), expr_key(n)
    assert (a,) == without((a, b), (b,))
    assert () == without((a, b), (a, b))
    assert without((a,), (b,)) is None


def test_divisors_are_not_joined_beyond_64_bits():
    n = Var("n", INT64, index=True)
    quotient = n // 2**32 // 2**32
    assert [0, -1] == [evaluate(to_expr(Linearizer().sum(quotient)), {n: value}) for value in (2**40, -(2**40))]
    joined = to_expr(Linearizer().sum(n // 2**31 // 2**31))
    assert same_expr(n // 2**62, joined)


def test_expressions_of_sums_start_with_what_is_added():
    assert -7 == evaluate(to_expr(Linearizer().sum(3 - i)), {i: 10})
    assert same_expr(j + 3 - i * 2, to_expr(Linearizer().sum(3 - i * 2 + j)))
    assert 0 == to_expr(Sum({}, 0)).value
