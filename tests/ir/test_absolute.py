"""Absolute values, against Python."""

import math

import numpy as np
import pytest

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr

i, d8, u8 = Var("i", INT32, index=True), Var("d8", SCALARS["int8"]), Var("u8", SCALARS["uint8"])


@pytest.mark.parametrize("name", [n for n in SCALARS if SCALARS[n].is_float and n != "float8_e8m0fnu"])
def test_the_absolute_value_of_a_float_keeps_nan_and_drops_the_sign(name):
    x = Var("x", SCALARS[name])
    assert SCALARS[name] == abs(x).dtype
    for value in (1.5, -1.5, -0.0, 2.0):
        assert abs(value) == float(evaluate(abs(x), {x: value}))
    if np.isnan(np.float32(np.nan).astype(SCALARS[name].numpy)):
        assert math.isnan(float(evaluate(abs(x), {x: math.nan})))
    assert not np.signbit(float(evaluate(abs(x), {x: -0.0})))


def test_the_absolute_value_of_integers():
    assert 5 == evaluate(abs(i), {i: -5})
    assert -128 == evaluate(abs(d8), {d8: -128})
    assert 200 == evaluate(abs(u8), {u8: 200})
    assert 5 == abs(as_expr(-5)).value
    assert 2.5 == abs(as_expr(-2.5)).value
