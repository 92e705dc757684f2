"""The elementary functions of floating-point scalars, one row per name.

Gives `MATH`. Invariant: operands narrower than 32 bits are computed in float32 and rounded once; integers and truth
values count as float32, except for the functions that leave integers as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL, FLOAT32, FLOAT64, DType, promote
from tilelang.isa.common import meaning
from tilelang.isa.intrinsic import Intrinsic

Rule = Callable[[tuple[DType, ...]], DType]


def float_result(dtypes: tuple[DType, ...]) -> DType:
    """The result dtype of a float function: that of the operands, float32 for integers."""
    dtype = reduce(promote, dtypes)
    return dtype if dtype.is_float else FLOAT32


def float_compute(dtypes: tuple[DType, ...]) -> DType:
    """The dtype of computation of a float function: float64 for float64, otherwise float32."""
    return FLOAT64 if float_result(dtypes) == FLOAT64 else FLOAT32


def common_result(dtypes: tuple[DType, ...]) -> DType:
    """The promoted dtype of all operands, integers included."""
    return reduce(promote, dtypes)


def common_compute(dtypes: tuple[DType, ...]) -> DType:
    """The dtype of computation of functions that also support integers: the integer dtype, or as `float_compute`."""
    dtype = reduce(promote, dtypes)
    if dtype.is_float:
        return float_compute(dtypes)
    return dtype


def bool_result(dtypes: tuple[DType, ...]) -> DType:
    """bool, for any operand."""
    return BOOL


def _row(
    name: str,
    arity: int,
    function: Callable[..., Any],
    *,
    result: Rule = float_result,
    compute: Rule = float_compute,
    source: str = "",
) -> Intrinsic:
    return Intrinsic(name, arity, result, function, compute, source)


_wide, _quiet = meaning.wide, meaning.quiet
_rounding = {"result": common_result, "compute": common_compute}
_C = "ISO C, 7.12"
_FAST = "as the name without underscores, with less accuracy where the target has something faster"

MATH: tuple[Intrinsic, ...] = (
    _row("exp", 1, _wide(np.exp), source=_C),
    _row("exp2", 1, _wide(np.exp2), source=_C),
    _row("exp10", 1, _wide(meaning.exp10), source=_C),
    _row("log", 1, _wide(np.log), source=_C),
    _row("log2", 1, _wide(np.log2), source=_C),
    _row("log10", 1, _wide(np.log10), source=_C),
    _row("log1p", 1, _wide(np.log1p), source=_C),
    _row("sqrt", 1, _quiet(np.sqrt), source=_C),
    _row("rsqrt", 1, _wide(meaning.rsqrt)),
    _row("pow", 2, _wide(np.power), source=_C),
    _row("tanh", 1, _wide(np.tanh), source=_C),
    _row("sigmoid", 1, _wide(meaning.sigmoid)),
    _row("erf", 1, _wide(meaning.erf), source=_C),
    _row("sin", 1, _wide(np.sin), source=_C),
    _row("cos", 1, _wide(np.cos), source=_C),
    _row("tan", 1, _wide(np.tan), source=_C),
    _row("asin", 1, _wide(np.arcsin), source=_C),
    _row("acos", 1, _wide(np.arccos), source=_C),
    _row("atan", 1, _wide(np.arctan), source=_C),
    _row("sinh", 1, _wide(np.sinh), source=_C),
    _row("cosh", 1, _wide(np.cosh), source=_C),
    _row("asinh", 1, _wide(np.arcsinh), source=_C),
    _row("acosh", 1, _wide(np.arccosh), source=_C),
    _row("atanh", 1, _wide(np.arctanh), source=_C),
    _row("atan2", 2, _wide(np.arctan2), source=_C),
    _row("hypot", 2, _wide(np.hypot), source=_C),
    _row("copysign", 2, _quiet(np.copysign), source=_C),
    _row("nextafter", 2, _quiet(np.nextafter), source=_C),
    _row("ldexp", 2, _quiet(meaning.ldexp), source=_C),
    _row("fmod", 2, _quiet(np.fmod), source=_C),
    _row("floor", 1, meaning.on_integers_identity(np.floor), source=_C, **_rounding),
    _row("ceil", 1, meaning.on_integers_identity(np.ceil), source=_C, **_rounding),
    _row("trunc", 1, meaning.on_integers_identity(np.trunc), source=_C, **_rounding),
    _row("round", 1, meaning.on_integers_identity(np.rint), source="nearest, ties to even", **_rounding),
    _row("nearbyint", 1, meaning.on_integers_identity(np.rint), source=_C, **_rounding),
    _row("fma", 3, _quiet(meaning.fma), source=_C, **_rounding),
    _row("abs", 1, _quiet(meaning.absolute), source="IEEE 754, 5.5.1", **_rounding),
    _row("isnan", 1, np.isnan, result=bool_result),
    _row("isinf", 1, np.isinf, result=bool_result),
    _row("isfinite", 1, np.isfinite, result=bool_result),
    _row("__exp", 1, _wide(np.exp), source=_FAST),
    _row("__exp2", 1, _wide(np.exp2), source=_FAST),
    _row("__exp10", 1, _wide(meaning.exp10), source=_FAST),
    _row("__log", 1, _wide(np.log), source=_FAST),
    _row("__log2", 1, _wide(np.log2), source=_FAST),
    _row("__log10", 1, _wide(np.log10), source=_FAST),
    _row("__sin", 1, _wide(np.sin), source=_FAST),
    _row("__cos", 1, _wide(np.cos), source=_FAST),
    _row("__tan", 1, _wide(np.tan), source=_FAST),
    _row("__pow", 2, _wide(np.power), source=_FAST),
    _row("__fdividef", 2, _quiet(np.true_divide), source=_FAST),
)
