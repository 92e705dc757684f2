"""Tests for tilelang.level1.promotion."""

import numpy as np
import pytest

from tilelang.dtypes import SCALARS, DType
from tilelang.errors import ProgramTypeError
from tilelang.level1.promotion import (
    OperandDType,
    as_float,
    compute_dtype,
    holds_all_values,
    promote,
    sum_dtype,
    sum_dtypes,
)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "float32", "float32"), ("float16", "float32", "float32"), ("float16", "bfloat16", "float32"),
        ("float64", "float32", "float64"), ("int8", "int32", "int32"), ("uint8", "int8", "int16"),
        ("uint8", "int16", "int16"), ("uint16", "int16", "int32"), ("uint32", "int32", "int64"),
        ("int8", "float16", "float16"), ("uint8", "bfloat16", "bfloat16"), ("int16", "float32", "float32"),
        ("int32", "float64", "float64"), ("bool", "int8", "int8"), ("bool", "float16", "float16"),
        ("float8_e4m3fn", "float8_e5m2", "float32"), ("float8_e4m3fn", "float16", "float16"),
        ("float8_e5m2", "bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_two_dtypes(a: str, b: str, expected: str) -> None:
    for x, y in ((a, b), (b, a)):
        assert OperandDType(DType(expected)) == promote("tnp.add", (OperandDType(DType(x)), OperandDType(DType(y))))


@pytest.mark.parametrize(
    ("strong", "weak", "expected"),
    [
        ("float16", "int32", "float16"), ("float16", "float32", "float16"), ("int8", "int32", "int8"),
        ("int8", "float32", "float32"), ("bool", "int32", "int32"), ("bool", "float32", "float32"),
        ("int16", "bool", "int16"), ("float64", "float32", "float64"),
    ],
)  # fmt: skip
def test_weak_operands_follow_strong_ones(strong: str, weak: str, expected: str) -> None:
    assert OperandDType(DType(expected)) == promote("tnp.add", (OperandDType(DType(strong)), OperandDType(DType(weak), weak=True)))


def test_weak_operands_alone_stay_weak() -> None:
    weak = [OperandDType(DType(name), weak=True) for name in ("int32", "float32")]
    assert OperandDType(DType("float32"), weak=True) == promote("tnp.add", weak)


def test_an_integer_that_a_float_does_not_hold_is_an_error() -> None:
    with pytest.raises(ProgramTypeError) as error:
        promote("operator +", (OperandDType(DType("int32")), OperandDType(DType("float32"))))
    assert error.value.message == (
        "operator +: int32 with float32 would lose precision silently; float32 has integers exactly only up to 2**24, "
        "int32 has greater ones"
    )
    assert 'convert one of them: x.astype("float32")' == error.value.hint


def test_unsigned_and_signed_integers_of_64_bits_are_an_error() -> None:
    with pytest.raises(ProgramTypeError) as error:
        promote("tnp.add", (OperandDType(DType("int64")), OperandDType(DType("uint64"))))
    assert error.value.message == (
        "tnp.add: int64 with uint64 would lose precision silently; there is no integer dtype that has all values of both"
    )


def test_functions_of_floats_take_integers_that_float32_holds() -> None:
    assert "float32" == as_float("tnp.exp", DType("int16"))
    assert "float16" == as_float("tnp.exp", DType("float16"))
    with pytest.raises(ProgramTypeError, match="tnp.exp: int32 with float32"):
        as_float("tnp.exp", DType("int32"))


_COMPARABLE = [
    row for name, row in SCALARS.items() if row.is_float and row.bits in (8, 16) and name not in ("float4_e2m1_unpacked",)
]


@pytest.mark.parametrize("other", _COMPARABLE, ids=str)
@pytest.mark.parametrize("dtype", [d for d in _COMPARABLE if d.bits == 16], ids=str)
def test_a_float_holds_another_one_if_conversions_there_and_back_change_nothing(dtype: DType, other: DType) -> None:
    count = np.uint16 if other.bits == 16 else np.uint8
    values = np.arange(2**other.bits, dtype=np.uint32).astype(count).view(other.numpy)
    values = values[np.isfinite(values.astype(np.float32))]
    with np.errstate(all="ignore"):
        back = values.astype(np.float32).astype(dtype.numpy).astype(np.float32)
    assert bool((back == values.astype(np.float32)).all()) == holds_all_values(dtype, other)


def test_narrow_floats_are_computed_in_float32() -> None:
    names = {"float16": "float32", "float8_e4m3fn": "float32", "tfloat32": "float32", "float64": "float64", "int8": "int8"}
    assert names == {name: str(compute_dtype(DType(name))) for name in names}


def test_sums_of_small_integers_are_int32() -> None:
    names = {"bool": "int32", "int8": "int32", "uint16": "int32", "uint32": "uint32", "int64": "int64", "float16": "float16"}
    assert names == {name: str(sum_dtype(DType(name))) for name in names}


@pytest.mark.parametrize(
    ("given", "dtype", "accumulate", "combined", "result"),
    [
        ("float16", None, None, "float32", "float16"), ("float16", "float32", None, "float32", "float32"),
        ("float32", "float16", None, "float32", "float16"), ("float32", "float64", None, "float64", "float64"),
        ("float16", None, "float16", "float16", "float16"), ("int8", None, None, "int32", "int32"),
        ("int8", "int8", None, "int32", "int8"), ("int32", "int64", None, "int64", "int64"),
        ("int8", "float32", None, "int32", "float32"), ("bool", None, None, "int32", "int32"),
        ("float16", "int8", None, "float32", "int8"), ("int32", "float64", None, "float64", "float64"),
    ],
)  # fmt: skip
def test_dtypes_of_sums(given: str, dtype: str | None, accumulate: str | None, combined: str, result: str) -> None:
    found = sum_dtypes("tnp.sum", DType(given), dtype, accumulate)
    assert (combined, result) == (found.combined, found.result)


def test_sums_of_floats_are_no_integers() -> None:
    with pytest.raises(ProgramTypeError) as error:
        sum_dtypes("tnp.sum", DType("float16"), None, "int32")
    assert str(error.value) == (
        "tnp.sum: accumulate is int32, which has no fractions, and the values are float16\n"
        'hint: write accumulate="float32", and dtype="int32" for an integer as the result'
    )
