"""C++ texts of the elementary functions.

One table per function, from compute dtype to `Template`. Float32 functions that are common in inner loops are the
vectorizable ones of `isa.common.math_kernels`; the others, and most of float64, are from the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.common import math_kernels as kernels
from tilelang.isa.common.math_text import SIGNED, UNCHANGED, UNSIGNED, fma_of_integers
from tilelang.isa.intrinsic import Helper, Template

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


def _std(name: str, arity: int = 1) -> Mapping[str, Template]:
    operands = ", ".join(f"{{{number}}}" for number in range(arity))
    text = Template(f"std::{name}({operands})", _CMATH)
    return {"float32": text, "float64": text}


def _own(name: str, helper: Helper, *, float64: Template | None, arity: int = 1) -> Mapping[str, Template]:
    operands = ", ".join(f"{{{number}}}" for number in range(arity))
    own = Template(f"tl::{name}({operands})", helper)
    return {"float32": own, "float64": own if float64 is None else float64}


def _double(text: str) -> Template:
    return Template(text, _CMATH)


def _rounding(name: str) -> Mapping[str, Template]:
    return {**_std(name), **UNCHANGED}


_EXP = _own("exp", kernels.EXP, float64=None)
_EXP2 = _own("exp2", kernels.EXP2, float64=_double("std::exp2({0})"))
_EXP10 = _own("exp10", kernels.EXP10, float64=_double("std::pow(10.0, {0})"))
_LOG = _own("log", kernels.LOG, float64=_double("std::log({0})"))
_LOG2 = _own("log2", kernels.LOG, float64=_double("std::log2({0})"))
_LOG10 = _own("log10", kernels.LOG, float64=_double("std::log10({0})"))
_POW = _own("pow", kernels.POW, float64=_double("std::pow({0}, {1})"), arity=2)
_SIN = _own("sin", kernels.TRIGONOMETRY, float64=_double("std::sin({0})"))
_COS = _own("cos", kernels.TRIGONOMETRY, float64=_double("std::cos({0})"))
_TAN = _own("tan", kernels.TRIGONOMETRY, float64=_double("std::tan({0})"))
_ROUND = _rounding("nearbyint")  # in the default rounding mode: nearest, ties to even

# by the names of `isa.common.math`; there is nothing faster than the accurate functions
MATH: Mapping[str, Mapping[str, Template]] = {
    "exp": _EXP,
    "exp2": _EXP2,
    "exp10": _EXP10,
    "log": _LOG,
    "log2": _LOG2,
    "log10": _LOG10,
    "log1p": _own("log1p", kernels.LOG, float64=_double("std::log1p({0})")),
    "sqrt": _std("sqrt"),
    "rsqrt": {
        "float32": Template("(1.0f / std::sqrt({0}))", _CMATH),
        "float64": Template("(1.0 / std::sqrt({0}))", _CMATH),
    },
    "pow": _POW,
    "tanh": _own("tanh", kernels.TANH, float64=_double("std::tanh({0})")),
    "sigmoid": _own("sigmoid", kernels.SIGMOID, float64=None),
    "erf": _own("erf", kernels.ERF, float64=_double("std::erf({0})")),
    "sin": _SIN,
    "cos": _COS,
    "tan": _TAN,
    "asin": _std("asin"),
    "acos": _std("acos"),
    "atan": _std("atan"),
    "sinh": _std("sinh"),
    "cosh": _std("cosh"),
    "asinh": _std("asinh"),
    "acosh": _std("acosh"),
    "atanh": _std("atanh"),
    "atan2": _std("atan2", 2),
    "hypot": _std("hypot", 2),
    "copysign": _std("copysign", 2),
    "nextafter": _std("nextafter", 2),
    "ldexp": {
        "float32": Template("std::ldexp({0}, (int)std::fmin(std::fmax({1}, -4096.0f), 4096.0f))", _CMATH),
        "float64": Template("std::ldexp({0}, (int)std::fmin(std::fmax({1}, -4096.0), 4096.0))", _CMATH),
    },
    "fmod": _std("fmod", 2),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _ROUND,
    "nearbyint": _ROUND,
    "fma": {**_std("fma", 3), **fma_of_integers()},
    "abs": {
        **_std("abs"),
        **{name: Template("{0}") for name in UNSIGNED},
        **{name: Template("tl::magnitude((int32_t)({0}))", _ON_INTEGERS) for name in SIGNED},
        "int64": Template("tl::magnitude((int64_t)({0}))", _ON_INTEGERS),
    },
    "isnan": _std("isnan"),
    "isinf": _std("isinf"),
    "isfinite": _std("isfinite"),
    "__exp": _EXP,
    "__exp2": _EXP2,
    "__exp10": _EXP10,
    "__log": _LOG,
    "__log2": _LOG2,
    "__log10": _LOG10,
    "__sin": _SIN,
    "__cos": _COS,
    "__tan": _TAN,
    "__pow": _POW,
    "__fdividef": {name: Template("(({0}) / ({1}))") for name in ("float32", "float64")},
}
