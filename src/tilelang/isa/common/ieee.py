"""Correctly rounded arithmetic in a given rounding mode, never contracted: `T.ieee_add` and similar.

`ieee(operation, mode)` is the intrinsic. Invariant: the meaning and the text of each target give the same bits;
compilers neither fuse the operations nor replace them by approximations.

Source: IEEE 754, 4.3 "Rounding-direction attributes"; CUDA C++ Programming Guide, "Mathematical Functions Appendix",
"Intrinsic Functions": `__fadd_rn` and similar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.isa.common.math import float_compute, float_result
from tilelang.isa.intrinsic import Intrinsic
from tilelang.records import record

if TYPE_CHECKING:
    from fractions import Fraction

MODES = ("rn", "rz", "ru", "rd")  # to nearest, towards zero, up, down


@record(slots=True)
class Operation:
    """One operation.

    Attributes:
        arity: How many operands it takes.
        plain: The operation on NumPy scalars, rounded to nearest.
        exact: The sign of the exact value minus a fraction, for finite operands; zero operands of a division and
            negative ones of a root are left to `plain`.
        terms: What it adds, if it is a sum: the mode chooses the sign of an exact zero of terms with unlike signs.
    """

    arity: int
    plain: Callable[..., Any]
    exact: Callable[..., int]
    terms: Callable[..., tuple[Any, Any]] | None = None


def _fraction(value: Any) -> Fraction:
    """A finite float as a `Fraction`."""
    from fractions import Fraction  # noqa: PLC0415  needed where kernels are interpreted

    return Fraction(float(value))


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def _fma_nearest(x: Any, y: Any, z: Any) -> Any:
    kind = type(x)
    if not all(map(np.isfinite, (x, y, z))):
        return x * y + z
    total = _fraction(x) * _fraction(y) + _fraction(z)
    return kind(_as_float(total)) if total else x * y + z


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": Operation(2, lambda x, y: x + y, lambda r, x, y: _sign(x + y - r), lambda x, y: (x, y)),
        "sub": Operation(2, lambda x, y: x - y, lambda r, x, y: _sign(x - y - r), lambda x, y: (x, -y)),
        "mul": Operation(2, lambda x, y: x * y, lambda r, x, y: _sign(x * y - r)),
        "fmaf": Operation(3, _fma_nearest, lambda r, x, y, z: _sign(x * y + z - r), lambda x, y, z: (x * y, z)),
        "frcp": Operation(1, lambda x: type(x)(1) / x, lambda r, x: _sign(1 / x - r)),
        "fsqrt": Operation(1, np.sqrt, lambda r, x: 1 if r < 0 else _sign(x - r * r)),
        "frsqrt": Operation(
            1, lambda x: type(x)(1 / np.sqrt(np.float64(x))), lambda r, x: 1 if r <= 0 else _sign(1 - r * r * x)
        ),
        "fdiv": Operation(2, lambda x, y: x / y, lambda r, x, y: _sign(x / y - r)),
    }
)


@cache
def ieee(operation: str, mode: str) -> Intrinsic:
    """The intrinsic of an operation of `OPERATIONS` under a mode of `MODES`."""
    row = OPERATIONS[operation]
    meaning = _meaning(row, mode)
    return Intrinsic(f"ieee_{operation}_{mode}", row.arity, float_result, meaning, float_compute, "IEEE 754, 4.3")


def _meaning(row: Operation, mode: str) -> Callable[..., Any]:
    def compute(*operands: Any) -> Any:
        near = row.plain(*operands)
        if not all(map(np.isfinite, operands)) or np.isnan(near):
            return near
        if np.isinf(near) and row.arity < 3 and operands[-1] == 0:
            return near  # a division by zero is exact
        exact = [_fraction(x) for x in operands]
        return _rounded(near, lambda value: row.exact(value, *exact), mode, _cancels(row, operands))

    def meaning(*operands: Any) -> Any:
        arrays = np.broadcast_arrays(*map(np.asarray, operands))
        result = np.empty(arrays[0].shape, arrays[0].dtype)
        with np.errstate(all="ignore"):
            for place in np.ndindex(result.shape):
                result[place] = compute(*[array[place] for array in arrays])
        return result[()]

    return meaning


def _cancels(row: Operation, operands: tuple[Any, ...]) -> bool:
    """Whether the terms of a sum have unlike signs, so that the mode chooses the sign of an exact zero."""
    return row.terms is not None and len({bool(np.signbit(term)) for term in row.terms(*operands)}) > 1


def _rounded(near: Any, above: Callable[[Fraction], int], mode: str, cancels: bool) -> Any:
    """The value rounded by a mode, from one that is at most one neighbor away.

    Args:
        near: The value to nearest, or almost.
        above: The sign of the exact value minus a fraction.
        mode: One of `MODES`.
        cancels: Whether a zero takes its sign from the mode.
    """
    kind = type(near)
    low, high = kind(-np.inf), kind(np.inf)

    def side(value: Any) -> int:
        if np.isinf(value):
            return -1 if value > 0 else 1
        return above(_fraction(value))

    if side(near) == 0:
        return kind(-0.0 if mode == "rd" else 0.0) if near == 0 and cancels else near
    while side(near) < 0 and np.isfinite(near) or near == high:
        near = np.nextafter(near, low)
    while side(np.nextafter(near, high)) >= 0:
        near = np.nextafter(near, high)
    down, up = near, np.nextafter(near, high)
    negative = down < 0 or down == 0 and up == 0
    if mode == "rn":
        chosen = _nearest(down, up, above)
    elif mode == "rd" or mode == "rz" and not negative:
        chosen = down
    else:
        chosen = up
    return kind(-0.0) if chosen == 0 and negative else kind(chosen)


def _nearest(down: Any, up: Any, above: Callable[[Fraction], int]) -> Any:
    if np.isinf(up) or np.isinf(down):  # half a unit beyond the largest value is infinite
        largest = down if np.isinf(up) else up
        unit = _fraction(largest) - _fraction(np.nextafter(largest, type(largest)(0)))
        beyond = above(_fraction(largest) + unit / 2) * (1 if unit > 0 else -1)
        infinite = up if np.isinf(up) else down
        return infinite if beyond >= 0 else largest
    middle = above((_fraction(down) + _fraction(up)) / 2)
    if middle:
        return up if middle > 0 else down
    odd = int(np.asarray(down).view(f"u{down.dtype.itemsize}")[()]) & 1
    return up if odd else down
