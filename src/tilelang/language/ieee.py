"""Correctly rounded arithmetic under a rounding mode: `T.ieee_add` and its kin.

Takes floats and a mode, gives expressions. Invariant: the result is rounded once, whatever the compiler may assume of
other arithmetic.
"""

from __future__ import annotations

from functools import reduce

from tilelang.dtypes import promote
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import ExprLike, as_expr
from tilelang.isa.common.ieee import MODES, ieee
from tilelang.language.api import api
from tilelang.language.math import Scalar, apply, is_number

__all__ = [
    "ieee_add",
    "ieee_fdiv",
    "ieee_fmaf",
    "ieee_frcp",
    "ieee_frsqrt",
    "ieee_fsqrt",
    "ieee_mul",
    "ieee_sub",
]


@api
def ieee_add(x: ExprLike, y: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`x + y`, rounded once and never contracted.

    Args:
        x: A float32 or float64; float16 only with "rn".
        y: Another one.
        rounding_mode: "rn" to nearest even, "rz" towards zero, "ru" up, "rd" down.

    Raises:
        ProgramTypeError: An operand is no float of 16 bits or more.
        ProgramValueError: There is no such mode, or not for this dtype.
    """
    return _apply("add", rounding_mode, x, y)


@api
def ieee_sub(x: ExprLike, y: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`x - y`. As `T.ieee_add` otherwise."""
    return _apply("sub", rounding_mode, x, y)


@api
def ieee_mul(x: ExprLike, y: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`x * y`. As `T.ieee_add` otherwise."""
    return _apply("mul", rounding_mode, x, y)


@api
def ieee_fmaf(x: ExprLike, y: ExprLike, z: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`x * y + z`. As `T.ieee_add` otherwise."""
    return _apply("fmaf", rounding_mode, x, y, z)


@api
def ieee_frcp(x: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`1 / x`. As `T.ieee_add` otherwise."""
    return _apply("frcp", rounding_mode, x)


@api
def ieee_fsqrt(x: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """The square root. As `T.ieee_add` otherwise."""
    return _apply("fsqrt", rounding_mode, x)


@api
def ieee_frsqrt(x: ExprLike) -> Scalar:
    """1 over the square root, to nearest even; not of float64. As `T.ieee_add` otherwise."""
    if not is_number(x) and as_expr(x).dtype == "float64":
        raise ProgramValueError("T.ieee_frsqrt: frsqrt is not supported for float64", hint="write 1 / T.ieee_fsqrt(x)")
    return _apply("frsqrt", "rn", x)


@api
def ieee_fdiv(x: ExprLike, y: ExprLike, rounding_mode: str = "rn") -> Scalar:
    """`x / y`. As `T.ieee_add` otherwise."""
    return _apply("fdiv", rounding_mode, x, y)


def _apply(operation: str, mode: str, *operands: ExprLike) -> Scalar:
    what = f"T.ieee_{operation}"
    if mode not in MODES:
        raise ProgramValueError(f"{what}: Invalid rounding mode {mode!r:.40}", hint=f"write one of {', '.join(MODES)}")
    kinds = [as_expr(x).dtype for x in operands if not is_number(x)]
    dtype = reduce(promote, kinds) if kinds else None
    if dtype is not None and not (dtype.is_float and dtype.bits >= 16):
        raise ProgramTypeError(f"{what}: needs floats, got {dtype!s}", hint="convert them with T.float32(x)")
    if dtype is not None and dtype.bits == 16 and mode != "rn":
        raise ProgramValueError(
            f"{what}: Only rounding mode 'rn' is available for half precision", hint="convert them with T.float32(x)"
        )
    return apply(ieee(operation, mode), *operands)
