"""Casts of a made-up language: which text serves which dtypes."""

import pytest

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.gpu.isa.conversions import Conversions, PairCast

ROUND, PAIR = Helper("tl_round_tf32", ""), Helper("tl_pair", "")


def c_type(dtype):
    value = "float" if dtype.is_float and dtype.bits < 32 else f"{dtype!s}_t"
    return CType(f"{dtype!s}_t", value, Helper(f"{dtype!s}_t", ""))


def to_half(source):
    return Template("half({0})") if source == "float64" else None


def pair(source, destination):
    return PairCast((PAIR,), "to.pair[i] = tl_pair(i);", ("", "uint")) if destination == "bfloat16" else None


CASTS = Conversions(c_type, ROUND, to_half, pair)


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("float32", "float32", "{0}"),
        ("float16", "tfloat32", "(float)({0})"),
        ("float32", "tfloat32", "tl_round_tf32((float)({0}))"),
        ("int32", "bool", "((int32_t)({0}) != 0)"),
        ("float64", "float16", "half({0})"),
        ("float32", "float16", "float16_t((float)({0}))"),
        ("int64", "bfloat16", "bfloat16_t((float)(double)({0}))"),
        ("int32", "int4", "int4_t((int32_t)({0}))"),
        ("float32", "int32", "(int32_t)({0})"),
    ],
)
def test_scalars(source, destination, text):
    assert text == CASTS.cast(SCALARS[source], SCALARS[destination]).text


def test_short_vectors_are_cast_by_a_function():
    by_lane = CASTS.cast(as_dtype("float32x4"), as_dtype("int32x4"))
    assert "tl_float32x4_to_int32x4({0})" == by_lane.text
    assert "for (int i = 0; i < 4; ++i) to.lane[i] = (int32_t)(from.lane[i]);" in by_lane.helper.text
    by_pair = CASTS.cast(as_dtype("float32x4"), as_dtype("bfloat16x4")).helper
    assert "for (int i = 0; i < 2; ++i) to.pair[i] = tl_pair(i);" in by_pair.text
    assert PAIR in by_pair.needs


def test_lanes_are_as_many():
    with pytest.raises(NoLowering):
        CASTS.cast(as_dtype("float32x4"), as_dtype("float16x2"))
