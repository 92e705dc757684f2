"""C++ spellings of the elementary functions: which text serves which dtype.

Gives one table per function, from compute dtype to `Spelling`. Float32 functions that kernels use in inner loops are
the vectorizable ones of `isa.cpu.math_kernels`; the others, and most of float64, call the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.cpu import math_kernels as kernels
from tilelang.isa.intrinsic import Helper, Spelling

_CMATH = Helper("cmath", "", headers=("<cmath>",))

_ON_INTEGERS = Helper(
    "integer_magnitude",
    """\
namespace tl {
static inline int32_t magnitude(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
static inline int64_t magnitude(int64_t x) { return x < 0 ? (int64_t)(0u - (uint64_t)x) : x; }
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_SIGNED = ("int4", "int8", "int16", "int32", "int64")
_UNSIGNED = ("bool", "uint4", "uint8", "uint16", "uint32", "uint64")


def _std(name: str, arity: int = 1) -> Mapping[str, Spelling]:
    operands = ", ".join(f"{{{place}}}" for place in range(arity))
    text = Spelling(f"std::{name}({operands})", _CMATH)
    return {"float32": text, "float64": text}


def _own(name: str, helper: Helper, *, float64: Spelling | None, arity: int = 1) -> Mapping[str, Spelling]:
    operands = ", ".join(f"{{{place}}}" for place in range(arity))
    own = Spelling(f"tl::{name}({operands})", helper)
    return {"float32": own, "float64": own if float64 is None else float64}


def _double(text: str) -> Spelling:
    return Spelling(text, _CMATH)


def _rounding(name: str) -> Mapping[str, Spelling]:
    unchanged = Spelling("({0})")
    return {**_std(name), **dict.fromkeys((*_SIGNED, *_UNSIGNED), unchanged)}


def _fma_integers() -> Mapping[str, Spelling]:
    # unsigned arithmetic wraps; the conversion to the stored dtype drops what is above its width
    narrow = Spelling("(int32_t)((uint32_t)({0}) * (uint32_t)({1}) + (uint32_t)({2}))")
    wide = {
        "uint32": Spelling("((uint32_t)({0}) * (uint32_t)({1}) + (uint32_t)({2}))"),
        "int64": Spelling("(int64_t)((uint64_t)({0}) * (uint64_t)({1}) + (uint64_t)({2}))"),
        "uint64": Spelling("((uint64_t)({0}) * (uint64_t)({1}) + (uint64_t)({2}))"),
    }
    return {name: wide.get(name, narrow) for name in (*_SIGNED, *_UNSIGNED)}


EXP = _own("exp", kernels.EXP, float64=None)
EXP2 = _own("exp2", kernels.EXP2, float64=_double("std::exp2({0})"))
EXP10 = _own("exp10", kernels.EXP10, float64=_double("std::pow(10.0, {0})"))
LOG = _own("log", kernels.LOG, float64=_double("std::log({0})"))
LOG2 = _own("log2", kernels.LOG, float64=_double("std::log2({0})"))
LOG10 = _own("log10", kernels.LOG, float64=_double("std::log10({0})"))
LOG1P = _own("log1p", kernels.LOG, float64=_double("std::log1p({0})"))
SQRT = _std("sqrt")
RSQRT = {
    "float32": Spelling("(1.0f / std::sqrt({0}))", _CMATH),
    "float64": Spelling("(1.0 / std::sqrt({0}))", _CMATH),
}
POW = _own("pow", kernels.POW, float64=_double("std::pow({0}, {1})"), arity=2)
TANH = _own("tanh", kernels.TANH, float64=_double("std::tanh({0})"))
SIGMOID = _own("sigmoid", kernels.SIGMOID, float64=None)
ERF = _own("erf", kernels.ERF, float64=_double("std::erf({0})"))
SIN = _own("sin", kernels.TRIGONOMETRY, float64=_double("std::sin({0})"))
COS = _own("cos", kernels.TRIGONOMETRY, float64=_double("std::cos({0})"))
TAN = _own("tan", kernels.TRIGONOMETRY, float64=_double("std::tan({0})"))
ASIN = _std("asin")
ACOS = _std("acos")
ATAN = _std("atan")
SINH = _std("sinh")
COSH = _std("cosh")
ATAN2 = _std("atan2", 2)
FMOD = _std("fmod", 2)
FLOOR = _rounding("floor")
CEIL = _rounding("ceil")
TRUNC = _rounding("trunc")
ROUND = _rounding("nearbyint")  # in the default rounding mode: nearest, ties to even
FMA = {**_std("fma", 3), **_fma_integers()}
ABS = {
    **_std("abs"),
    **{name: Spelling("({0})") for name in _UNSIGNED},
    **{name: Spelling("tl::magnitude((int32_t)({0}))", _ON_INTEGERS) for name in _SIGNED},
    "int64": Spelling("tl::magnitude((int64_t)({0}))", _ON_INTEGERS),
}
ISNAN = _std("isnan")
ISINF = _std("isinf")
ISFINITE = _std("isfinite")
FDIVIDEF = {name: Spelling("(({0}) / ({1}))") for name in ("float32", "float64")}
