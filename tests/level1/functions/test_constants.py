"""Tests for tilelang.level1.functions.constants."""

import ml_dtypes
import numpy as np
import pytest
from array_functions import traced

import tilelang.numpy as tnp
from tilelang.errors import ProgramTypeError


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
