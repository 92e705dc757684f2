"""Absolute values, by what integers and floats have."""

from __future__ import annotations

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.expr import Const, Expr, Reinterpret, cast, const, select


def absolute(a: Expr) -> Expr:
    """`abs(a)`; that of the least integer of a dtype wraps."""
    if a.dtype.is_bool:
        return cast(a, INT32)
    return select(a < 0, -a, a) if a.dtype.is_int else _of_float(a)


def _of_float(a: Expr) -> Expr:
    if isinstance(a, Const):
        return Const(abs(float(a.value)), a.dtype, weak=a.weak)
    if a.dtype.bits < 16:  # some have no sign bit, or use its code for NaN
        return cast(_of_float(cast(a, FLOAT32)), a.dtype)
    # clears the sign bit, so that abs(-0.0) is 0.0 and NaN stays NaN
    bits = as_dtype(f"uint{a.dtype.bits}")
    return Reinterpret(Reinterpret(a, bits) & const((1 << (a.dtype.bits - 1)) - 1, bits), a.dtype)
