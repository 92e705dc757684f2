"""Conversions by modes: `tests/language/test_casts.py` runs them; here are their forms."""

import pytest

import tilelang.language as T
from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.conversion import as_cast
from tilelang.ir.expr import Cast, Const, Var

X = Var("x", FLOAT32)


def test_to_nearest_a_wide_float_is_one_cast():
    assert isinstance(as_cast(X, as_dtype("float16")), Cast)


def test_expressions_and_literals_have_astype_and_to():
    assert "float16" == X.astype("float16").dtype
    assert "float8_e4m3fn" == X.to("float8_e4m3fn", sat=False).dtype
    assert 448.0 == T.float32(1e6).astype(T.float8_e4m3fn).value


def test_literals_are_python_numbers_where_asked():
    assert (448.0, 7) == (float(T.max_value("float8_e4m3fn")), int(Const(7, as_dtype("int32"))))


def test_lanes_must_agree():
    with pytest.raises(ProgramError, match="cannot convert float32 to float16x2: they differ in lanes"):
        as_cast(X, as_dtype("float16x2"))
