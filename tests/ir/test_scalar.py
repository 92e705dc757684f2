import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, SCALARS, as_dtype
from tilelang.ir.scalar import (
    COMPARISONS,
    DROPS_NAN,
    LOGICAL,
    BinaryOp,
    UnaryOp,
    convert,
    data_binary,
    data_unary,
    exact_binary,
    plain_binary,
    plain_conversion,
    round_tf32,
)

INTEGERS = [name for name in SCALARS if SCALARS[name].is_int]
FLOATS = [name for name in SCALARS if SCALARS[name].is_float]
OF_FLOATS = {BinaryOp.DIV, *DROPS_NAN.values()}
INT_OPS = [op for op in BinaryOp if op not in COMPARISONS | LOGICAL | OF_FLOATS]
NUMBERS = [-(2**31), -129, -8, -7, -1, 0, 1, 3, 7, 8, 100, 127, 255, 2**31 - 1]


def wrapped(value: int, name: str) -> int:
    bits = SCALARS[name].bits
    low = value % (1 << bits)
    return low - (1 << bits) if not name.startswith("u") and low >= 1 << (bits - 1) else low


@pytest.mark.parametrize("name", INTEGERS)
def test_data_is_exact_arithmetic_that_wraps(name):
    dtype = SCALARS[name]
    for op, x, y in itertools.product(INT_OPS, NUMBERS, NUMBERS):
        a, b = wrapped(x, name), wrapped(y, name)
        if op in (BinaryOp.SHL, BinaryOp.SHR) and not 0 <= b < dtype.bits:
            continue
        result = data_binary(op, convert(a, dtype), convert(b, dtype), dtype)
        assert wrapped(exact_binary(op, a, b), name) == int(result), (op, a, b)
        assert dtype.numpy == result.dtype


@pytest.mark.parametrize("name", ["int8", "int32", "uint8", "int64"])
def test_arrays_and_scalars_agree(name):
    dtype = SCALARS[name]
    pairs = [(wrapped(x, name), wrapped(y, name)) for x, y in itertools.product(NUMBERS, NUMBERS)]
    a, b = (np.array(side, dtype.numpy) for side in zip(*pairs, strict=True))
    for op in INT_OPS:
        expected = [int(data_binary(op, x, y, dtype)) for x, y in zip(a, b, strict=True)]
        assert expected == data_binary(op, a, b, dtype).tolist()


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        (BinaryOp.FLOORDIV, -7, 2, -4),
        (BinaryOp.FLOORMOD, -7, 2, 1),
        (BinaryOp.FLOORMOD, 7, -2, -1),
        (BinaryOp.TRUNCDIV, -7, 2, -3),
        (BinaryOp.TRUNCMOD, -7, 2, -1),
        (BinaryOp.TRUNCMOD, 7, -2, 1),
        (BinaryOp.FLOORDIV, 5, 0, 0),
        (BinaryOp.FLOORMOD, 5, 0, 0),
        (BinaryOp.TRUNCDIV, 5, 0, 0),
        (BinaryOp.TRUNCMOD, 5, 0, 0),
        (BinaryOp.SHL, 1, 62, 2**62),
        (BinaryOp.SHL, 1, 64, 0),
        (BinaryOp.SHL, 1, -1, 0),
        (BinaryOp.SHR, -5, 64, -1),
        (BinaryOp.SHR, -5, -1, -1),
        (BinaryOp.SHR, 5, 200, 0),
        (BinaryOp.AND, 2, 1, True),
        (BinaryOp.OR, 0, 0, False),
        (BinaryOp.MUL, 2**40, 2**40, 2**80),
    ],
)
def test_exact_arithmetic(op, a, b, expected):
    assert expected == exact_binary(op, a, b)


def test_a_shift_by_a_huge_amount_is_fast():
    assert 0 == exact_binary(BinaryOp.SHL, 1, 10**15)


def test_the_least_integer_divided_by_minus_one_wraps():
    least, minus_one = np.int32(-(2**31)), np.int32(-1)
    for op in (BinaryOp.FLOORDIV, BinaryOp.TRUNCDIV):
        assert -(2**31) == data_binary(op, least, minus_one, INT32)
    for op in (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD):
        assert 0 == data_binary(op, least, minus_one, INT32)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("op", [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV])
def test_narrow_floats_compute_in_float32_and_round_once(name, op):
    dtype = SCALARS[name]
    values = np.array([0.1, -1.7, 3.0, 200.0, 1e-3], np.float32).astype(dtype.numpy)
    for a, b in itertools.product(values, values):
        python = {BinaryOp.ADD: np.add, BinaryOp.SUB: np.subtract, BinaryOp.MUL: np.multiply, BinaryOp.DIV: np.divide}
        with np.errstate(all="ignore"):
            expected = python[op](np.float32(a), np.float32(b)).astype(dtype.numpy)
        result = data_binary(op, a, b, dtype)
        np.testing.assert_array_equal(np.float32(expected), np.float32(result))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_minimum_and_maximum_propagate_nan(name):
    dtype = SCALARS[name]
    nan, one = convert(float("nan"), dtype), convert(1.0, dtype)
    for op, (a, b) in itertools.product((BinaryOp.MIN, BinaryOp.MAX), ((nan, one), (one, nan))):
        assert np.isnan(np.float64(data_binary(op, a, b, dtype)))


@pytest.mark.parametrize("name", [name for name in FLOATS if name not in ("float8_e8m0fnu",)])
def test_comparisons_give_truth_values(name):
    dtype = SCALARS[name]
    one, two = convert(1.0, dtype), convert(2.0, dtype)
    assert data_binary(BinaryOp.LT, one, two, BOOL)
    assert not data_binary(BinaryOp.EQ, one, two, BOOL)
    assert np.bool_ is type(data_binary(BinaryOp.GE, one, two, BOOL))


def test_wide_unsigned_integers_compare_as_unsigned():
    assert not data_binary(BinaryOp.LT, np.uint64(2**63), np.uint64(3), BOOL)


@pytest.mark.parametrize("name", INTEGERS)
def test_conversion_to_integers_wraps(name):
    dtype = SCALARS[name]
    for value in (*NUMBERS, 2**40 + 5, -(2**70)):
        assert wrapped(value, name) == int(convert(value, dtype))
        if -(2**63) <= value < 2**63:
            assert wrapped(value, name) == int(convert(np.int64(value), dtype))


@pytest.mark.parametrize("name", ["int4", "int8", "int32", "int64", "uint4", "uint8"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_floats_become_integers_by_truncation(name, source):
    value = convert(3.75, SCALARS[source])
    assert 3 == int(convert(value, SCALARS[name]))
    if not name.startswith("u"):
        assert -3 == int(convert(convert(-3.75, SCALARS[source]), SCALARS[name]))


@pytest.mark.parametrize("name", FLOATS)
def test_every_dtype_becomes_every_float(name):
    for source in SCALARS.keys() - {"bool"}:
        result = convert(convert(np.array([1, 2, 4]), SCALARS[source]), SCALARS[name])
        assert (source, SCALARS[name].numpy) == (source, result.dtype)
        assert (source, [1.0, 2.0, 4.0]) == (source, result.astype(np.float32).tolist())


def test_python_integers_beyond_64_bits_become_floats():
    assert 2.0**70 == convert(2**70, FLOAT32)
    assert 2.0**70 == float(convert(2**70, SCALARS["bfloat16"]))


def test_conversion_rounds_to_nearest_even():
    assert 2.0**24 == convert(2**24 + 1, FLOAT32)
    assert 2048.0 == convert(np.float32(2049), SCALARS["float16"])
    assert np.isinf(convert(1e6, SCALARS["float16"]))


def test_everything_but_zero_is_true():
    assert [True, False, True] == convert(np.array([0.5, 0.0, np.nan]), BOOL).tolist()
    assert 1 == convert(True, INT32)
    assert 1.0 == convert(True, FLOAT32)


def test_unary_operators_keep_the_dtype():
    assert 253 == data_unary(UnaryOp.NEG, np.uint8(3), SCALARS["uint8"])
    assert -4 == int(data_unary(UnaryOp.INVERT, convert(3, SCALARS["int4"]), SCALARS["int4"]))
    assert np.signbit(data_unary(UnaryOp.NEG, np.float32(0), FLOAT32))
    assert not data_unary(UnaryOp.NOT, np.True_, BOOL)
    assert -(2**63) == data_unary(UnaryOp.NEG, np.int64(-(2**63)), INT64)
    half = data_unary(UnaryOp.NEG, ml_dtypes.bfloat16(1.5), SCALARS["bfloat16"])
    assert -1.5 == float(half)


def test_tf32_keeps_ten_bits_of_the_fraction():
    values = np.array([1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, np.inf, -1 - 2.0**-12], np.float32)
    assert [1 + 2.0**-10, 1.0, 1 + 2.0**-9, np.inf, -1.0] == round_tf32(values).tolist()
    assert np.isnan(round_tf32(np.array([np.nan], np.float32)))[0]
    assert round_tf32(values[:4]).tolist() == convert(values[:4], as_dtype("tfloat32x4")).tolist()


@pytest.mark.parametrize("name", SCALARS)
def test_plain_numpy_operators_agree_with_the_language(name):
    dtype = SCALARS[name]
    low, high = (0, 1) if dtype.is_bool else dtype.limits
    values = [convert(v, dtype) for v in (0, 1, 3, low, high, *((math.nan, -0.0, 1e30) if dtype.is_float else (-7,)))]
    with np.errstate(all="ignore"):
        for op in BinaryOp:
            if (plain := plain_binary(op, dtype)) is not None:
                made = BOOL if op in COMPARISONS | LOGICAL else dtype
                for a, b in itertools.product(values, values):
                    expected, actual = data_binary(op, a, b, made), plain(a, b)
                    assert (expected.dtype, expected.tobytes()) == (actual.dtype, actual.tobytes())
        for other in SCALARS.values():
            if (plain := plain_conversion(dtype, other)) is not None:
                in_range = [v for v in values if not other.is_int or abs(float(v)) < 128]
                assert [convert(v, other).tobytes() for v in in_range] == [plain(v).tobytes() for v in in_range]
                assert other.numpy == plain(values[0]).dtype
