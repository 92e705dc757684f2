"""Correctly rounded arithmetic against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.isa.common.ieee import MODES, ieee

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
EXACT = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "fdiv": lambda x, y: x / y}


@pytest.mark.parametrize("operation", EXACT)
@given(FLOATS, FLOATS.filter(bool))
def test_modes_enclose_the_exact_value(operation, x, y):
    x, y = np.float32(x), np.float32(y)
    exact = EXACT[operation](Fraction(float(x)), Fraction(float(y)))
    got = {mode: ieee(operation, mode).meaning(x, y)[()] for mode in MODES}
    finite = {mode: Fraction(float(v)) for mode, v in got.items() if np.isfinite(v)}
    assert finite.get("rd", exact) <= exact <= finite.get("ru", exact)
    assert abs(finite["rz"]) <= abs(exact)
    assert got["rn"] in (got["rd"], got["ru"])
    if np.isfinite(got["rd"]) and np.isfinite(got["ru"]):
        assert np.nextafter(got["rd"], np.float32(np.inf)) >= got["ru"]
    with np.errstate(all="ignore"):
        plain = {"add": x + y, "sub": x - y, "mul": x * y, "fdiv": x / y}[operation]
    assert plain == got["rn"]


def test_special_values_and_signs_of_zero():
    one, zero, inf = np.float32(1), np.float32(0), np.float32(np.inf)
    assert np.signbit(ieee("sub", "rd").meaning(one, one))
    assert not np.signbit(ieee("sub", "ru").meaning(one, one))
    assert inf == ieee("frcp", "rz").meaning(zero)
    assert np.isnan(ieee("mul", "rn").meaning(zero, inf))
    largest = np.finfo(np.float32).max
    assert (largest, inf) == tuple(ieee("mul", mode).meaning(largest, largest) for mode in ("rz", "ru"))
    assert -largest == ieee("mul", "ru").meaning(largest, -largest)


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_chooses_the_sign_of_a_sum_of_unlike_zeros(mode):
    zero, five = np.float32(0), np.float32(5)
    for operation, unlike, negative in (
        ("add", (zero, -zero), (-zero, -zero)),
        ("sub", (zero, zero), (-zero, zero)),
        ("fmaf", (zero, five, -zero), (-zero, five, -zero)),
    ):
        assert (mode == "rd") == np.signbit(ieee(operation, mode).meaning(*unlike))
        assert np.signbit(ieee(operation, mode).meaning(*negative))


def test_roots_and_fused_products():
    two, third = np.float32(2), np.float32(1) / np.float32(3)
    assert ieee("fsqrt", "rd").meaning(two) < ieee("fsqrt", "ru").meaning(two)
    assert np.float32(0.5) == ieee("frsqrt", "rn").meaning(np.float32(4))
    exact = Fraction(float(third)) * Fraction(float(third)) - Fraction(float(third * third))
    assert float(exact) == ieee("fmaf", "rn").meaning(third, third, -(third * third))
