"""Conversions to other dtypes with a rounding mode and saturation.

Everything is expressed by round-to-nearest-even and integer arithmetic on the bits of its result, so that every target
computes the same values.
"""

from __future__ import annotations

from typing import NoReturn

from tilelang.dtypes import FLOAT32, SCALARS, DType, lane_dtype
from tilelang.errors import NoLowering, ProgramError, ProgramValueError
from tilelang.ir.callee import Callee
from tilelang.ir.expr import Call, Expr, Reinterpret, as_expr, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.vector import by_lane

ROUNDING_MODES = frozenset({"", "rn", "rz", "rp", "rm", "rs"})
_STOCHASTIC = {16: "FP16", 8: "FP8", 4: "FP4"}  # what the instructions are called, by width


def refuse_stochastic(dtype: DType) -> NoReturn:
    """Raises: no target implements stochastic rounding.

    Raises:
        NoLowering: Always.
    """
    kind = "BF16" if str(dtype).startswith("bfloat16") else _STOCHASTIC.get(dtype.bits, str(dtype))
    raise NoLowering(f"T.cast: Stochastic rounding f32-to-{kind} requires sm_100a", hint="write round='rn'")


STOCHASTIC = Callee("cast_rs", 2, lambda of: of[0], lambda value, bits: refuse_stochastic(FLOAT32), lambda of: of[0])
"""A cast that rounds by random bits, the second operand; no target has it."""


def as_cast(
    value: Expr, dtype: DType, round: str = "", sat: bool = True, rbits: object = None, span: object = None
) -> Expr:
    """The expression of `T.cast` and `x.astype(dtype)`.

    Raises:
        ProgramError: The dtypes differ in lanes.
        ProgramValueError: There is no such mode, `sat` is no bool, or `rbits` is there without "rs" or missing.
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
    if value.dtype.lanes != dtype.lanes:
        raise ProgramError(f"{what}: cannot convert {value.dtype!s} to {dtype!s}: they differ in lanes")
    if round == "rs":
        bits = cast(as_expr(rbits), SCALARS["uint32"])  # type: ignore[arg-type]
        vector = value.dtype.lanes > 1
        convert = by_lane if vector else (lambda function, *operands: function(*operands))
        return convert(lambda lane: Call(STOCHASTIC, (lane, bits), lane_dtype(dtype) if vector else dtype), value)
    plain = round in ("", "rn") and not (sat and dtype.bits <= 8)
    if plain or not dtype.is_float or dtype == "float8_e8m0fnu":
        return cast(value, dtype)
    if dtype.lanes > 1:
        return by_lane(lambda lane: _to_float(lane, lane_dtype(dtype), round, sat), value)
    return _to_float(value, dtype, round, sat)


def _to_float(value: Expr, dtype: DType, mode: str, sat: bool) -> Expr:
    """A scalar converted to a float dtype."""
    narrower = value.dtype.is_float and value.dtype.bits > dtype.bits
    if sat and dtype.bits <= 8 and value.dtype != dtype:
        value = _clamped(value, dtype)
    rounded = cast(value, dtype)
    if mode in ("", "rn") or not narrower or dtype == "tfloat32":
        return rounded
    return _directed(value, rounded, mode)


def _clamped(value: Expr, dtype: DType) -> Expr:
    """A value clamped to the finite range of a dtype; NaN stays NaN."""
    wide = value if value.dtype.is_float and value.dtype.bits >= 32 else cast(value, FLOAT32)
    low, high = (const(float(bound), wide.dtype) for bound in dtype.limits)
    return binary(BinaryOp.MIN, binary(BinaryOp.MAX, wide, low), high)


def _directed(value: Expr, rounded: Expr, mode: str) -> Expr:
    """The nearest value, moved by one step in the direction of the rounding mode if it is on the wrong side.

    The bit pattern of a float without its sign grows with its magnitude, so one step is one bit pattern.
    """
    word = SCALARS[f"uint{max(rounded.dtype.bits, 8)}"]
    bits: Expr = Reinterpret(rounded, word)
    wide = value.dtype if value.dtype.bits >= 32 else FLOAT32
    exact, back = cast(value, wide), cast(rounded, wide)
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
    return Reinterpret(cast(chosen, word), rounded.dtype)
