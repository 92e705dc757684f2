"""Powers with constant exponents, against Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT64, INT64
from tilelang.errors import ProgramError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Var
from tilelang.ir.power import power
from tilelang.ir.visit import walk_expr


@given(st.integers(-3, 3), st.integers(0, 30))
def test_an_integer_power_is_exact(base, exponent):
    x = Var("x", INT64, index=True)
    result = power(x, exponent)
    assert base**exponent == evaluate(result, {x: base})


def test_the_number_of_multiplications():
    products = {id(node) for node in walk_expr(power(Var("x", FLOAT64), 63)) if isinstance(node, Binary)}
    assert 10 == len(products)


@pytest.mark.parametrize("exponent", [-1, 65, 0.5])
def test_other_exponents_of_integers_are_errors(exponent):
    with pytest.raises(ProgramError, match=r"operator \*\*"):
        power(Var("x", INT64), exponent)
