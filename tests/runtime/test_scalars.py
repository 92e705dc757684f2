from typing import Any

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.expr import Var
from tilelang.ir.func import ScalarParam
from tilelang.runtime.scalars import as_integer, scalar_argument, short_text


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", 7, 7),
        ("int32", np.int64(7), 7),
        ("int32", True, 1),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("float32", 3, 3.0),
        ("float16", np.float16(1.5), 1.5),
        ("float32", np.array(2.5), 2.5),
        ("float64", -(10**400), float("-inf")),
        ("bool", False, 0),
        ("bool", np.True_, 1),
    ],
)
def test_scalars_of_every_family_are_taken(dtype: str, value: Any, expected: float) -> None:
    assert expected == scalar_argument("kernel", ScalarParam(Var("x", as_dtype(dtype))), value)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int8", 300, "kernel: 'x' is 300, which int8 cannot hold"),
        ("float32", None, "kernel: 'x' must be a number (float32), got None"),
        ("bool", 0.5, "kernel: 'x' must be a bool (bool), got float 0.5"),
        ("int32", np.zeros(3), "kernel: 'x' must be an integer (int32), got ndarray array([0., 0., 0.])"),
    ],
)
def test_values_out_of_range_are_refused(dtype: str, value: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        scalar_argument("kernel", ScalarParam(Var("x", as_dtype(dtype))), value)
    assert message == str(caught.value)


def test_long_values_are_truncated() -> None:
    assert "'ab'" == short_text("ab")
    assert 40 == len(short_text("a" * 100))
    assert (3, None) == (as_integer(np.int8(3)), as_integer(np.zeros(2)))
