"""Conversions that users write: `T.cast` and `T.reinterpret`.

Takes values and dtypes in either order, gives expressions.
"""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.errors import ProgramError
from tilelang.ir.conversion import as_cast
from tilelang.ir.expr import Expr, ExprLike, Reinterpret, as_expr
from tilelang.language.api import api
from tilelang.language.dtypes import convert_to
from tilelang.language.math import is_number
from tilelang.language.types import DTypeLike, plain_dtype

__all__ = ["Cast", "bitcast", "cast", "reinterpret"]

@api
def cast(
    value: ExprLike | DTypeLike,
    dtype: DTypeLike,
    round: str = "",
    sat: bool = True,
    rbits: ExprLike | None = None,
    span: object = None,
) -> Expr:
    """`value` converted to `dtype`; the two may stand in either order.

    Integers wrap, floats round to nearest even, a float becomes an integer by truncation towards zero (outside of
    the integer's range it is unspecified).

    Args:
        value: A scalar, or a vector of as many lanes.
        dtype: What it becomes.
        round: How floats are rounded to narrower floats: "rn" or "" to nearest even, "rz" towards zero, "rp" up, "rm"
            down, "rs" stochastically.
        sat: Whether floats of 8 bits and less become the largest finite value where the value is larger; otherwise they
            become infinity, or NaN where the dtype has none.
        rbits: Random bits for "rs", a uint32.
        span: Accepted for older programs.

    Raises:
        ProgramError: The value is no scalar, or its vector width differs.
        ProgramValueError: The mode is none of these, `sat` is no bool, or `rbits` is there without "rs" or missing.
        NoLowering: When a kernel with "rs" is compiled: no target has it yet.

    Example:
        `T.cast(acc[i], T.float8_e4m3fn, round="rz")`
    """
    del span
    given, row = _value_and_dtype("T.cast", value, dtype)
    operand = convert_to(given, row, "T.cast") if isinstance(given, str) else as_expr(given)  # "inf", "nan"
    return as_cast(operand, row, round, sat, rbits)


Cast = cast


@api
def reinterpret(value: ExprLike | DTypeLike, dtype: DTypeLike) -> Expr:
    """The bits of `value` read as `dtype`; the arguments may stand in either order.

    Raises:
        ProgramError: The dtypes differ in width.
    """
    if isinstance(dtype, str) and dtype == "handle":  # what older programs call a pointer
        dtype = "uint64"
    given, row = _value_and_dtype("T.reinterpret", value, dtype)
    expr = as_expr(given)
    if expr.dtype.bits * expr.dtype.lanes != row.bits * row.lanes:
        raise ProgramError(
            f"T.reinterpret: {expr.dtype!s} has {expr.dtype.bits * expr.dtype.lanes} bits, {row!s} has "
            f"{row.bits * row.lanes}",
            hint="convert values with T.cast; a bare literal is float32 or int32: write T.float16(1.0)",
        )
    return expr if expr.dtype == row else Reinterpret(expr, row)


bitcast = reinterpret


def _value_and_dtype(what: str, a: object, b: object) -> tuple[ExprLike, DType]:
    """The two arguments of a cast, which published programs write in either order."""
    value, dtype = (b, a) if not isinstance(a, Expr) and not is_number(a) and not _is_tile(a) else (a, b)
    return value, plain_dtype(dtype, what)  # type: ignore[return-value]


def _is_tile(value: object) -> bool:
    return hasattr(value, "__tilelang_expr__")
