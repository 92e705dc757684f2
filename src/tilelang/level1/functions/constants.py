"""Constants of `tilelang.numpy`, its dtypes, their limits and promotion."""

from __future__ import annotations

import math

import ml_dtypes

from tilelang.dtypes import SCALARS, DType, Kind, as_dtype, unknown_name
from tilelang.errors import ProgramTypeError
from tilelang.level1.api import api
from tilelang.level1.elements import as_operand
from tilelang.level1.promotion import OperandDType, holds_all_values, promote
from tilelang.records import record

__all__ = ["can_cast", "e", "finfo", "iinfo", "inf", "isdtype", "nan", "newaxis", "pi", "result_type"]

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


@api
def result_type(*arrays_and_dtypes: object) -> DType:
    """The dtype of what arrays, numbers of Python and dtypes are combined to.

    Raises:
        ProgramTypeError: It would not hold all values of one of them.
    """
    return promote("tnp.result_type", [_operand_dtype(each) for each in arrays_and_dtypes]).dtype


def _operand_dtype(value: object) -> OperandDType:
    if isinstance(value, str | DType):
        return OperandDType(as_dtype(value))
    return as_operand(value, "tnp.result_type").operand_dtype


@api
def can_cast(from_: object, to: object) -> bool:
    """Whether a dtype, or that of an array, is converted to `to` where both are combined, since that has all values."""
    return holds_all_values(as_dtype(to), as_dtype(getattr(from_, "dtype", from_)))


_KINDS: dict[str, frozenset[Kind]] = {
    "bool": frozenset({Kind.BOOL}),
    "signed integer": frozenset({Kind.INT}),
    "unsigned integer": frozenset({Kind.UINT}),
    "integral": frozenset({Kind.INT, Kind.UINT}),
    "real floating": frozenset({Kind.FLOAT}),
    "complex floating": frozenset(),
    "numeric": frozenset({Kind.INT, Kind.UINT, Kind.FLOAT}),
}


@api
def isdtype(dtype: object, kind: object) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dtype: The dtype.
        kind: A dtype, a kind such as "integral" or "real floating", or a tuple of which one is enough.

    Raises:
        OptionError: There is no such kind.
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, each) for each in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in SCALARS:
        raise unknown_name("isdtype", kind, list(_KINDS))
    return found == as_dtype(kind)
