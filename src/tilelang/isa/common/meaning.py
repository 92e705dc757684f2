"""The semantics of intrinsics on NumPy values: the specification against which the text of every target is tested.

Transcendental functions of float32 are evaluated in float64 and rounded once; special values follow IEEE 754 and NumPy,
and no floating-point warning is issued.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Value = Any  # a NumPy scalar or array


def quiet(function: Callable[..., Value]) -> Callable[..., Value]:
    """The same function without floating-point warnings."""

    def apply(*operands: Value) -> Value:
        with np.errstate(all="ignore"):
            return function(*operands)

    return apply


def wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """The function evaluated in float64, rounded to the dtype of the first operand."""

    def apply(*operands: Value) -> Value:
        with np.errstate(all="ignore"):
            dtype = np.asarray(operands[0]).dtype
            values = [np.asarray(operand, dtype=np.float64) for operand in operands]
            return np.asarray(function(*values)).astype(dtype)[()]

    return apply


def on_integers_identity(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """The function on floats; integers are returned as they are, being rounded already."""

    def apply(x: Value) -> Value:
        return x if np.asarray(x).dtype.kind != "f" else function(x)

    return apply


def exp10(x: Value) -> Value:
    """10 to the power x."""
    return np.power(10.0, x)


def rsqrt(x: Value) -> Value:
    """The reciprocal of the square root; infinite at zero, with the sign of the zero."""
    return 1.0 / np.sqrt(x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def erf(x: Value) -> Value:
    """The error function."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def absolute(x: Value) -> Value:
    """The magnitude: floats lose their sign bit, the least integer of a signed dtype is its own magnitude."""
    return np.abs(x)


def fma(a: Value, b: Value, c: Value) -> Value:
    """The product of a and b, plus c, rounded once; integers wrap."""
    dtype = np.asarray(a).dtype
    if dtype.kind != "f":
        return np.asarray(a * b + c).astype(dtype)[()]
    if dtype == np.float32:
        return _fma_float32(np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64))
    return np.vectorize(_fma_float64, otypes=[np.float64])(a, b, c)[()]


def _fma_float32(a: Value, b: Value, c: Value) -> Value:
    # The product of two float32 is exact in float64. The sum is rounded to odd (a last bit of 1 records that
    # something was lost), after which rounding to float32 cannot be wrong a second time.
    product = a * b
    total = product + c
    part = total - product
    lost = (product - (total - part)) + (c - part)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(lost > 0, np.inf, -np.inf)
    odd = np.where(np.isfinite(total) & (lost != 0) & even, np.nextafter(total, toward), total)
    return odd.astype(np.float32)[()]


def _fma_float64(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    from fractions import Fraction  # noqa: PLC0415  needed where kernels are interpreted

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 else 0.0  # signs of zero as the two operations have them
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def popcount(x: Value) -> Value:
    """The number of set bits, in an unsigned dtype."""
    octets = np.asarray(x).astype(np.uint64)[..., None].view(np.uint8)  # bitwise_count would need NumPy 2
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int32)[()]


def leading_zeros(x: Value) -> Value:
    """The number of bits above the highest set one, in an unsigned dtype; its whole width at zero."""
    array = np.asarray(x)
    width = 4 if array.dtype.name == "uint4" else array.dtype.itemsize * 8
    value = array.astype(np.uint64)
    length = np.zeros(value.shape, np.int32)
    for step in (32, 16, 8, 4, 2, 1):
        high = value >> np.uint64(step)
        length = np.where(high != 0, length + step, length)
        value = np.where(high != 0, high, value)
    return (width - length - (value != 0)).astype(np.int32)[()]


def nth_set_bit(mask: Value, base: Value, offset: Value) -> Value:
    """The position of a set bit of 32: the offset-th one from `base` upwards, `base` included.

    A negative offset counts downwards, 0 asks for the bit at `base` itself. All ones where there is none, and where
    `base` is no position. Source: PTX ISA, "fns".
    """
    bits, first, count = np.broadcast_arrays(np.asarray(mask), np.asarray(base), np.asarray(offset))
    places = np.arange(32)
    start, which = (x[..., None].astype(np.uint32).view(np.int32).astype(np.int64) for x in (first, count))
    are_set = (bits[..., None].astype(np.int64) >> places & 1) != 0
    upwards = np.cumsum(are_set & (places >= start), axis=-1)
    downwards = np.cumsum((are_set & (places <= start))[..., ::-1], axis=-1)[..., ::-1]
    reached = (which > 0) & (places >= start) & (upwards == which)
    reached |= (which < 0) & (places <= start) & (downwards == -which)
    found = are_set & (0 <= start) & (start < 32) & (reached | (which == 0) & (places == start))
    return np.where(found.any(axis=-1), found.argmax(axis=-1), 2**32 - 1).astype(np.uint32)[()]


def dot4(a: Value, b: Value, c: Value) -> Value:
    """The sum of c and the products of the four bytes packed in a and b; the bytes are signed as a and b are."""
    dtype = np.asarray(a).dtype
    lane = np.dtype(np.int8 if dtype.kind == "i" else np.uint8)
    x, y, total = np.broadcast_arrays(np.asarray(a), np.asarray(b), np.asarray(c))
    x4 = np.array(x, order="C")[..., None].view(lane).astype(np.int64)
    y4 = np.array(y, order="C")[..., None].view(lane).astype(np.int64)
    return ((x4 * y4).sum(axis=-1) + total).astype(dtype)[()]


def ldexp(x: Any, exponent: Any) -> Any:
    """`x` times 2 to a whole power, rounded once; exponents beyond 4096 on either side count as that."""
    return np.ldexp(x, np.fmin(np.fmax(exponent, -4096), 4096).astype(np.int32))
