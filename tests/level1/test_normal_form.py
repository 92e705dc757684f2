"""The normal form sees algebraic identities, and claims none that does not hold."""

import pytest

from tilelang.dtypes import FLOAT32
from tilelang.ir.expr import Expr, Var, select
from tilelang.language import abs, exp, exp2, infinity, sqrt
from tilelang.level1.normal_form import is_proven_equal

a, b, c = (Var(name, FLOAT32) for name in "abc")
HIDDEN = -infinity("float32")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((a + b) * c, c * b + a * c),
        (a / b / c, a / (c * b)),
        (exp(a - b) * exp(b - c), exp(a - c)),
        (exp2((a - b) * 2.0), exp2(a * 2.0) / exp2(b + b)),
        (abs(exp(a) * b), exp(a) * abs(b)),
        (select(a < b, exp(a) * c, 0.0), exp(a - b) * select(a < b, c, 0.0) * exp(b)),
        (exp(select(a < b, c, HIDDEN) - a), exp(b - a) * exp(select(a < b, c, HIDDEN) - b)),
        (sqrt(a + b) * c, c * sqrt(b + a)),
    ],
)
def test_equal(left: Expr, right: Expr) -> None:
    assert is_proven_equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(a + b, a * b), (exp(a * b), exp(a) * exp(b)), (select(a < b, a, b), a), (exp(a), exp2(a)), (sqrt(a * b), a)],
)
def test_different(left: Expr, right: Expr) -> None:
    assert not is_proven_equal(left, right)
