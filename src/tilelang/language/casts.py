"""Conversions that users write: `T.cast` with a rounding mode and saturation, and `T.reinterpret`.

Takes expressions and dtypes, gives expressions. Invariant: everything is expressed by the conversion to nearest even
and integer arithmetic on the bits of its result, so that every target computes the same.
"""

from __future__ import annotations

from tilelang.dtypes import FLOAT32, SCALARS, DType, lane_dtype
from tilelang.errors import NoLowering, ProgramError, ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, Reinterpret, as_expr, binary, const, select
from tilelang.ir.expr import cast as converted
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.vector import by_lane
from tilelang.language.api import api
from tilelang.language.dtypes import convert_to
from tilelang.language.math import is_number
from tilelang.language.types import DTypeLike, plain_dtype

__all__ = ["Cast", "bitcast", "cast", "reinterpret"]

ROUNDING_MODES = frozenset({"", "rn", "rz", "rp", "rm", "rs"})
_STOCHASTIC = {16: "FP16", 8: "FP8", 4: "FP4"}  # what the instructions are called, by width


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
        NoLowering: "rs" was asked for, which only sm_100a has.

    Example:
        `T.cast(acc[i], T.float8_e4m3fn, round="rz")`
    """
    del span
    what = "T.cast"
    if round not in ROUNDING_MODES:
        raise ProgramValueError(f"{what}: Invalid round {round!r:.40}", hint="write 'rn', 'rz', 'rp' or 'rm'")
    if not isinstance(sat, bool):
        raise ProgramValueError(f"{what}: Invalid sat {sat!r:.40}", hint="write True or False")
    if rbits is not None and round != "rs":
        raise ProgramValueError(f"{what}: rbits is only valid with round='rs'", hint="leave rbits out")
    if rbits is None and round == "rs":
        raise ProgramValueError(f"{what}: rbits is required with round='rs'", hint="pass a uint32 of random bits")
    given, row = _value_and_dtype(what, value, dtype)
    if round == "rs":
        kind = "BF16" if str(row).startswith("bfloat16") else _STOCHASTIC.get(row.bits, str(row))
        raise NoLowering(f"{what}: Stochastic rounding f32-to-{kind} requires sm_100a", hint="write round='rn'")
    plain = round in ("", "rn") and not (sat and row.bits <= 8)
    if plain or not row.is_float or isinstance(given, str) or row == "float8_e8m0fnu":
        return convert_to(given, row, what)
    operand = as_expr(given)
    if operand.dtype.lanes != row.lanes:
        return convert_to(given, row, what)
    if row.lanes > 1:
        return by_lane(lambda lane: _to_float(lane, lane_dtype(row), round, sat), operand)
    return _to_float(operand, row, round, sat)


Cast = cast


def _to_float(value: Expr, dtype: DType, mode: str, sat: bool) -> Expr:
    """A scalar converted to a float dtype."""
    narrower = value.dtype.is_float and value.dtype.bits > dtype.bits
    if sat and dtype.bits <= 8 and value.dtype != dtype:
        value = _clamped(value, dtype)
    rounded = converted(value, dtype)
    if mode in ("", "rn") or not narrower or dtype == "tfloat32":
        return rounded
    return _directed(value, rounded, mode)


def _clamped(value: Expr, dtype: DType) -> Expr:
    """A value within the finite range of a dtype; NaN stays NaN."""
    wide = value if value.dtype.is_float and value.dtype.bits >= 32 else converted(value, FLOAT32)
    low, high = (const(float(bound), wide.dtype) for bound in dtype.limits)
    return binary(BinaryOp.MIN, binary(BinaryOp.MAX, wide, low), high)


def _directed(value: Expr, rounded: Expr, mode: str) -> Expr:
    """The neighbor of the nearest value that a rounding mode asks for, where the nearest lies on the wrong side.

    The bits of a float without its sign grow with its magnitude, so that a neighbor is one bit pattern away.
    """
    word = SCALARS[f"uint{max(rounded.dtype.bits, 8)}"]
    bits: Expr = Reinterpret(rounded, word)
    wide = value.dtype if value.dtype.bits >= 32 else FLOAT32
    exact, back = converted(value, wide), converted(rounded, wide)
    zero = const(0.0, wide)
    negative = (bits >> const(rounded.dtype.bits - 1, word)) != const(0, word)
    inward, outward = bits - const(1, word), bits + const(1, word)
    if mode == "rz":
        beyond = select(exact < zero, back < exact, back > exact)
        chosen = select(beyond, inward, bits)
    elif mode == "rp":
        chosen = select(back < exact, select(negative, inward, outward), bits)
    else:
        chosen = select(back > exact, select(negative, outward, inward), bits)
    return Reinterpret(converted(chosen, word), rounded.dtype)


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
