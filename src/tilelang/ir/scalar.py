"""The semantics of the operators of the IR, on Python numbers and NumPy values.

Used by constant folding, the tests of the simplifier and the reference interpreter. *Exact* arithmetic is on Python
integers, for index arithmetic, and never wraps. *Data* arithmetic is on NumPy scalars or arrays of the operator's
dtype; it wraps at the dtype's width and rounds after every operation.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.dtypes import FLOAT32, DType


class BinaryOp(enum.Enum):
    """The binary operators; the value is the operator's text in printed IR."""

    __hash__ = object.__hash__  # members are the only ones of their kind; the default hashes their names

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"  # true division; integers are converted to float32 first
    FLOORDIV = "//"
    FLOORMOD = "%"
    TRUNCDIV = "truncdiv"
    TRUNCMOD = "truncmod"
    MIN = "min"
    MAX = "max"
    FMIN = "fmin"  # of floats: a NaN operand is dropped
    FMAX = "fmax"
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    AND = "and"
    OR = "or"
    BITAND = "&"
    BITOR = "|"
    BITXOR = "^"
    SHL = "<<"
    SHR = ">>"


class UnaryOp(enum.Enum):
    """The unary operators."""

    __hash__ = object.__hash__  # as above

    NEG = "-"
    NOT = "not"
    INVERT = "~"


COMPARISONS = frozenset({BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})
LOGICAL = frozenset({BinaryOp.AND, BinaryOp.OR})
CONJUNCTIONS = (BinaryOp.AND, BinaryOp.BITAND)  # of bools, both are one
DISJUNCTIONS = (BinaryOp.OR, BinaryOp.BITOR)
BITWISE = frozenset({BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR, BinaryOp.SHL, BinaryOp.SHR})
DROPS_NAN = {BinaryOp.MIN: BinaryOp.FMIN, BinaryOp.MAX: BinaryOp.FMAX}
KEEPS_NAN = {drops: keeps for keeps, drops in DROPS_NAN.items()}
_TRUTHS = COMPARISONS | LOGICAL
INTEGER_ONLY = BITWISE | {BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD}

_INDEX_BITS = 64  # where index arithmetic needs a width at all: shifts
Value = Any  # a Python number, a NumPy scalar or a NumPy array


def _floordiv(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    with np.errstate(all="ignore"):
        return np.floor_divide(a, b)  # integers: x // 0 == 0


def _floormod(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    with np.errstate(all="ignore"):
        return np.mod(a, b)  # integers: x % 0 == 0


def _truncdiv(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    with np.errstate(all="ignore"):
        quotient = np.floor_divide(a, b)
        inexact = np.multiply(quotient, b) != a
        negative = (a < 0) != (b < 0)
        return quotient + np.where((b != 0) & inexact & negative, 1, 0).astype(quotient.dtype)


def _truncmod(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a - b * _truncdiv(a, b) if b else 0
    with np.errstate(all="ignore"):
        return np.fmod(a, b)


def _div(a: Value, b: Value) -> Value:
    with np.errstate(all="ignore"):
        return np.true_divide(a, b)


def _min(a: Value, b: Value) -> Value:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def _max(a: Value, b: Value) -> Value:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _shl(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a << b if 0 <= b < _INDEX_BITS else 0
    return operator.lshift(a, b)


def _shr(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a >> b if 0 <= b < _INDEX_BITS else -int(a < 0)
    return operator.rshift(a, b)


_BINARY: dict[BinaryOp, Callable[[Value, Value], Value]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.DIV: _div,
    BinaryOp.FLOORDIV: _floordiv,
    BinaryOp.FLOORMOD: _floormod,
    BinaryOp.TRUNCDIV: _truncdiv,
    BinaryOp.TRUNCMOD: _truncmod,
    BinaryOp.MIN: _min,  # NaN in either operand gives NaN, as in NumPy and torch
    BinaryOp.MAX: _max,
    BinaryOp.FMIN: np.fmin,  # NaN only if both operands are, as in C
    BinaryOp.FMAX: np.fmax,
    BinaryOp.EQ: operator.eq,
    BinaryOp.NE: operator.ne,
    BinaryOp.LT: operator.lt,
    BinaryOp.LE: operator.le,
    BinaryOp.GT: operator.gt,
    BinaryOp.GE: operator.ge,
    BinaryOp.AND: np.logical_and,
    BinaryOp.OR: np.logical_or,
    BinaryOp.BITAND: operator.and_,
    BinaryOp.BITOR: operator.or_,
    BinaryOp.BITXOR: operator.xor,
    BinaryOp.SHL: _shl,  # by less than 0 or by the width and more: nothing but zeros, or copies of the sign
    BinaryOp.SHR: _shr,
}


def exact_binary(op: BinaryOp, a: int, b: int) -> int | bool:
    """`a op b` on Python integers, without wrapping. Division by zero gives 0, as it does for data."""
    if op in LOGICAL:
        return bool(a and b) if op is BinaryOp.AND else bool(a or b)
    return _BINARY[op](a, b)  # type: ignore[no-any-return]


def data_binary(op: BinaryOp, a: Value, b: Value, dtype: DType) -> Value:
    """`a op b` on NumPy values that both have the operand dtype; the result has `dtype`.

    Floats narrower than 32 bits are computed in float32 and rounded once.
    """
    with np.errstate(all="ignore"):
        if dtype.is_float and dtype.bits < 32:
            wide = _BINARY[op](np.asarray(a).astype(np.float32), np.asarray(b).astype(np.float32))
            return np.asarray(wide).astype(dtype.numpy)[()]
        if dtype.bits < 8 or op in _TRUTHS:
            a, b = _widen(a), _widen(b)
        return np.asarray(_BINARY[op](a, b)).astype(dtype.numpy)[()]


_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATS = frozenset({"float16", "float32", "float64"})
_PLAIN_OF_HALVES = COMPARISONS | {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL}  # NumPy's minimum of 0 and -0 differs
_PLAIN_OF_FLOATS = _PLAIN_OF_HALVES | {BinaryOp.MIN, BinaryOp.MAX}
_PLAIN_OF_INTEGERS = _PLAIN_OF_FLOATS | BITWISE - {BinaryOp.SHL, BinaryOp.SHR} | {BinaryOp.FLOORDIV, BinaryOp.FLOORMOD}


def plain_binary(op: BinaryOp, operand: DType) -> Callable[[Value, Value], Value] | None:
    """The NumPy function that computes `data_binary` on scalars of a dtype, if one does without conversions.

    Floating-point warnings are left to the caller.
    """
    plain = {
        **dict.fromkeys(_INTEGERS, _PLAIN_OF_INTEGERS),
        **dict.fromkeys(_FLOATS, _PLAIN_OF_FLOATS),
        "float16": _PLAIN_OF_HALVES,
        "bool": LOGICAL,
    }
    return _BINARY[op] if op in plain.get(operand, ()) else None


def plain_conversion(source: DType, dtype: DType) -> Callable[[Value], Value] | None:
    """The NumPy conversion that is equal to `convert` on scalars of a dtype, if there is one.

    Floating-point warnings are left to the caller.
    """
    if source == dtype and not dtype.is_tf32:
        return _unchanged
    both = {source, dtype}
    if both <= _FLOATS or both <= _INTEGERS or source in _FLOATS and dtype in _INTEGERS:
        return operator.methodcaller("astype", dtype.numpy)
    return None


def _unchanged(value: Value) -> Value:
    return value


def data_unary(op: UnaryOp, a: Value, dtype: DType) -> Value:
    """`op a` on a NumPy value; the result has `dtype`."""
    with np.errstate(all="ignore"):
        match op:
            case UnaryOp.NEG:
                return np.asarray(np.negative(_widen(a))).astype(dtype.numpy)[()]
            case UnaryOp.NOT:
                return np.logical_not(a)
            case UnaryOp.INVERT:
                return np.asarray(np.invert(_widen(a))).astype(dtype.numpy)[()]


def _widen(a: Value) -> Value:
    """The same value in a dtype of NumPy: ml_dtypes integers lack some operations."""
    array = np.asarray(a)
    if array.dtype.kind == "V" or array.dtype.name in ("int4", "uint4"):
        return array.astype(np.float32 if "float" in array.dtype.name else np.int16)
    return a


def convert(value: Value, dtype: DType) -> Value:
    """`value` as a NumPy value of `dtype`.

    Integers wrap, floats round to nearest even, a float becomes an integer by truncation towards zero.
    A float outside the integer's range (or NaN) has no defined integer value.
    """
    if isinstance(value, int) and not isinstance(value, bool) and dtype.is_int:
        wrapped = value & ((1 << dtype.bits) - 1)
        if dtype.kind.value == "int" and wrapped >> (dtype.bits - 1):
            wrapped -= 1 << dtype.bits
        return dtype.numpy.type(wrapped)
    if isinstance(value, np.generic) and value.dtype == dtype.numpy and not dtype.is_tf32:
        return value
    with np.errstate(all="ignore"):
        array = np.asarray(value)
        if array.dtype == object:  # a Python integer beyond 64 bits
            array = array.astype(np.float64)
        if dtype.is_bool:
            return (array != 0)[()]
        if dtype.bits < 8 and dtype.is_int:
            return _wrap_small(array, dtype)[()]
        if dtype.is_tf32:
            return round_tf32(array.astype(np.float32))[()]
        if array.dtype.kind not in "fiub" and dtype.is_int:  # ml_dtypes float to integer
            array = array.astype(np.float32)
        if dtype.is_float and dtype.bits < 32 and array.dtype.kind in "iub":
            array = array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
        if dtype.is_float and dtype.bits <= 8 and array.dtype not in (np.float32, dtype.numpy):
            array = array.astype(np.float32)  # some pairs of ml_dtypes have no direct conversion
        return array.astype(dtype.numpy)[()]


def _wrap_small(array: Value, dtype: DType) -> Value:
    low = array.astype(np.float32).astype(np.int64) if array.dtype.kind == "V" else array.astype(np.int64)
    low = low & 15
    if dtype.kind.value == "int":
        low = np.where(low >= 8, low - 16, low)
    return low.astype(np.int8).astype(dtype.numpy)


def round_tf32(array: np.ndarray) -> np.ndarray:
    """float32 values rounded to the 10 mantissa bits of tf32, to nearest, ties to even."""
    bits = array.view(np.uint32)
    rounded = (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(array), rounded, bits).astype(np.uint32).view(FLOAT32.numpy)
