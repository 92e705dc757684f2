"""Comparison of arrays of any framework within tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.errors import ArgumentError
from tilelang.runtime.arrays import borrow


def as_float64(value: Any) -> np.ndarray:
    """The values of an array as float64; device arrays are copied to the host."""
    view = borrow(value)
    if view is not None and view.device.startswith("cuda"):
        fetch = getattr(value, "cpu", None) or getattr(value, "get", None)  # as torch and CuPy call it
        value = np.asarray(value) if fetch is None else fetch()
        view = borrow(value)
    if view is None:
        return np.asarray(value, dtype=np.float64)
    if view.device != "cpu" or view.dtype is None or view.strides is None:
        raise ArgumentError(f"cannot compare an array of dtype {view.dtype_text} on device {view.device}")
    return view.as_numpy().astype(np.float64)


@public
def assert_close(
    actual: Any,
    expected: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.0,
    *,
    actual_name: str = "actual",
    expected_name: str = "expected",
) -> None:
    """Checks `|actual - expected| <= atol + rtol * |expected|` for all but a share of the elements; NaN equals NaN.

    Raises:
        AssertionError: Shapes differ, or too many elements do; says how many, and where the worst one is.
    """
    left, right = as_float64(actual), as_float64(expected)
    if left.shape != right.shape:
        raise AssertionError(f"{actual_name} has shape {left.shape}, {expected_name} has shape {right.shape}")
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    wrong = int(close.size - np.count_nonzero(close))
    if wrong <= max_mismatched_ratio * close.size:
        return
    with np.errstate(invalid="ignore"):
        distance = np.where(close, -1.0, np.nan_to_num(np.abs(left - right), nan=np.inf, posinf=np.inf))
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))
    raise AssertionError(
        f"{wrong} of {close.size} elements differ ({wrong / close.size:.2%}) with rtol={rtol}, atol={atol}; "
        f"the worst is at {where}: {actual_name} {left[where]}, {expected_name} {right[where]}"
    )
