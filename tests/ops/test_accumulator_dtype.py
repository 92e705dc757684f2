"""The accumulator dtype."""

import pytest

from tilelang.dtypes import as_dtype
from tilelang.ops.accumulator_dtype import accumulator_dtype


@pytest.mark.parametrize(
    ("src", "dst", "expected"),
    [
        ("float16", "float16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("tfloat32", "tfloat32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "int32", "int32"),
        ("int8", "int8", "int8"),
        ("int4", "int4", "int32"),
        ("int32", "float16", "float32"),
        ("bool", "bool", "bool"),
    ],
)
def test_values_accumulate_in_the_wider_dtype(src, dst, expected):
    assert expected == accumulator_dtype(as_dtype(src), as_dtype(dst))
