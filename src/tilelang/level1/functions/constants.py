"""Constants of `tilelang.numpy`, its dtypes, and their limits."""

from __future__ import annotations

import math

import ml_dtypes

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import ProgramTypeError
from tilelang.level1.api import api
from tilelang.records import record

__all__ = ["e", "finfo", "iinfo", "inf", "nan", "newaxis", "pi"]

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None

DTYPES: dict[str, DType] = {name: dtype for name, dtype in SCALARS.items() if dtype.bits >= 8}
"""The dtypes of arrays, by name."""


@record
class FloatLimits:
    """What `tnp.finfo` gives.

    Attributes:
        dtype: The dtype.
        bits: Its width.
        eps: The distance from 1.0 to the next greater number.
        max: The greatest finite number.
        min: The least finite number.
        smallest_normal: The smallest positive number of full precision.
    """

    dtype: DType
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float


@record
class IntegerLimits:
    """What `tnp.iinfo` gives.

    Attributes:
        dtype: The dtype.
        bits: Its width.
        max: The greatest number.
        min: The least number.
    """

    dtype: DType
    bits: int
    max: int
    min: int


@api
def finfo(type: object) -> FloatLimits:
    """The limits of a dtype of floats, or of that of an array.

    Raises:
        ProgramTypeError: It is no dtype of floats.
    """
    dtype = as_dtype(getattr(type, "dtype", type))
    if not dtype.is_float:
        raise ProgramTypeError(f"tnp.finfo: {dtype!s} is no dtype of floats", hint="write tnp.iinfo")
    info = ml_dtypes.finfo(dtype.numpy)
    low, high = dtype.limits
    return FloatLimits(dtype, dtype.bits, float(info.eps), float(high), float(low), float(info.smallest_normal))


@api
def iinfo(type: object) -> IntegerLimits:
    """The limits of a dtype of integers, or of that of an array.

    Raises:
        ProgramTypeError: It is no dtype of integers.
    """
    dtype = as_dtype(getattr(type, "dtype", type))
    if not dtype.is_int:
        raise ProgramTypeError(f"tnp.iinfo: {dtype!s} is no dtype of integers", hint="write tnp.finfo")
    low, high = dtype.limits
    return IntegerLimits(dtype, dtype.bits, int(high), int(low))
