"""Tests for tilelang.level1.functions.constants."""

import ml_dtypes
import numpy as np
import pytest
from array_functions import traced

import tilelang.numpy as tnp
from tilelang.errors import OptionError, ProgramTypeError


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_limits_of_floats(dtype: str) -> None:
    expected, found = ml_dtypes.finfo(dtype), tnp.finfo(dtype)
    assert (dtype, expected.bits) == (found.dtype, found.bits)
    for name in ("eps", "max", "min", "smallest_normal"):
        assert float(getattr(expected, name)) == getattr(found, name)


def test_limits_of_integers() -> None:
    expected, found = np.iinfo("int16"), tnp.iinfo(tnp.int16)
    assert ("int16", 16, expected.max, expected.min) == (found.dtype, found.bits, found.max, found.min)


def test_limits_of_the_dtype_of_an_array() -> None:
    assert 65504.0 == tnp.finfo(traced(3, dtype="float16")).max


def test_constants() -> None:
    assert (np.inf, np.pi, np.e, None) == (tnp.inf, tnp.pi, tnp.e, tnp.newaxis)
    assert tnp.nan != tnp.nan


def test_limits_of_another_kind() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.finfo("int32")
    assert str(error.value) == "tnp.finfo: int32 is no dtype of floats\nhint: write tnp.iinfo"
    with pytest.raises(ProgramTypeError) as error:
        tnp.iinfo("float32")
    assert str(error.value) == "tnp.iinfo: float32 is no dtype of integers\nhint: write tnp.finfo"


def test_dtypes_that_are_combined() -> None:
    x = traced(3, dtype="float16")
    assert "float16" == tnp.result_type(x, 2, 1.5)
    assert "float32" == tnp.result_type(x, "bfloat16")
    assert "int16" == tnp.result_type("int8", tnp.uint8)
    with pytest.raises(ProgramTypeError):
        tnp.result_type("int64", "float32")
    assert [True, True, False] == [tnp.can_cast(x, "float32"), tnp.can_cast("int8", "int32"), tnp.can_cast("int32", "int8")]


def test_kinds_of_dtypes() -> None:
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")
    of = {dtype: [kind for kind in kinds if tnp.isdtype(dtype, kind)] for dtype in ("bool", "int8", "uint8", "float16")}
    assert of == {
        "bool": ["bool"], "int8": ["signed integer", "integral", "numeric"],
        "uint8": ["unsigned integer", "integral", "numeric"], "float16": ["real floating", "numeric"],
    }  # fmt: skip
    assert tnp.isdtype("int8", tnp.int8)
    assert tnp.isdtype("int8", ("bool", "integral"))
    assert not tnp.isdtype("int8", ("bool", "float32"))
    with pytest.raises(OptionError) as error:
        tnp.isdtype("int8", "integer")
    assert "isdtype: unknown name 'integer'" == error.value.message
