"""Scalar arguments of a call: converts Python and NumPy numbers to the dtype of the parameter."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tilelang.errors import ArgumentError
from tilelang.ir.func import ScalarParam


def scalar_argument(kernel: str, param: ScalarParam, value: Any) -> int | float:
    """A scalar argument as the entry takes it.

    Raises:
        ArgumentError: It is no number of the parameter's family, or out of its range.
    """
    dtype = param.dtype
    if isinstance(value, np.generic) or (hasattr(value, "item") and getattr(value, "ndim", 1) == 0):
        value = value.item()  # a NumPy scalar, or an array of one element without dimensions
    if dtype.is_float:
        if isinstance(value, int | float):
            try:
                return float(value)
            except OverflowError:  # as a literal beyond the largest float would be
                return math.inf if value > 0 else -math.inf
    elif (number := as_integer(value)) is not None:
        low, high = dtype.limits
        if low <= number <= high:
            return number
        raise ArgumentError(f"{kernel}: '{param.name}' is {number}, which {dtype!s} cannot hold")
    family = "a number" if dtype.is_float else "a bool" if dtype.is_bool else "an integer"
    given = "None" if value is None else f"{type(value).__name__} {short_text(value)}"
    raise ArgumentError(f"{kernel}: '{param.name}' must be {family} ({dtype!s}), got {given}")


def as_integer(value: Any) -> int | None:
    """The integer value of an object, or None; arrays of several elements have `__index__`, too."""
    try:
        return operator.index(value)
    except TypeError:
        return None


def short_text(value: object) -> str:
    """A value for a message, truncated."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
