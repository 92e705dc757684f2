"""CUDA texts of the elementary functions, by dtype.

Gives `MATH`, from name to compute dtype to `Template`. The functions are those built into the compilers, within 2 units
in the last place (sinh 3; pow, tan 4); compiled with fast mathematics they become the fast ones. The names with two
underscores are the fast ones in any case.

Source: CUDA C++ Programming Guide, "Mathematical Functions Appendix", "Standard Functions" and "Intrinsic Functions".
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.common.math_text import SIGNED, UNCHANGED, UNSIGNED, fma_of_integers
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.nvidia.isa.types import INTEGERS

_ON_INTEGERS = Helper(
    "tl_magnitude",
    """\
__device__ __forceinline__ int32_t tl_magnitude(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
__device__ __forceinline__ int64_t tl_magnitude(int64_t x) { return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x; }
""",
    needs=(INTEGERS,),
)

_SIGMOID = Helper(
    "tl_sigmoid",
    """\
__device__ __forceinline__ float tl_sigmoid(float x) {
    const float e = expf(-fabsf(x));  // at most 1, so that nothing overflows on either side
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
__device__ __forceinline__ double tl_sigmoid(double x) {
    const double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
""",
)

# the machine's own instruction: 2 units in the last place, and subnormal numbers count as zero
# Source: PTX ISA, "Floating Point Instructions: ex2"
_FAST_EXP2 = Helper(
    "tl_fast_exp2",
    """\
__device__ __forceinline__ float tl_fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
""",
)

Templates = Mapping[str, Template]


def _called(name: str, arity: int = 1, *, float32: str | None = None, helper: Helper | None = None) -> Templates:
    """A function by its name for float64, and that name with an "f" for float32."""
    operands = ", ".join(f"{{{number}}}" for number in range(arity))
    short = float32 or f"{name}f"
    return {"float32": Template(f"{short}({operands})", helper), "float64": Template(f"{name}({operands})", helper)}


def _fast(name: str, accurate: Templates, helper: Helper | None = None) -> Templates:
    """A fast function of float32 beside the accurate one of float64."""
    operands = ", ".join(f"{{{number}}}" for number in range(accurate["float64"].text.count("{")))
    return {"float32": Template(f"{name}({operands})", helper), "float64": accurate["float64"]}


def _rounding(name: str) -> Templates:
    return {**_called(name), **UNCHANGED}


def _question(name: str) -> Templates:
    return dict.fromkeys(("float32", "float64"), Template(f"bool({name}({{0}}))"))


_EXP, _EXP2, _EXP10 = _called("exp"), _called("exp2"), _called("exp10")
_LOG, _LOG2, _LOG10 = _called("log"), _called("log2"), _called("log10")
_SIN, _COS, _TAN, _POW = _called("sin"), _called("cos"), _called("tan"), _called("pow", 2)
_ROUND = _rounding("rint")  # to nearest, ties to even

# by the names of `isa.common.math`
MATH: Mapping[str, Templates] = {
    "exp": _EXP,
    "exp2": _EXP2,
    "exp10": _EXP10,
    "log": _LOG,
    "log2": _LOG2,
    "log10": _LOG10,
    "log1p": _called("log1p"),
    "sqrt": _called("sqrt"),
    "rsqrt": _called("rsqrt"),
    "pow": _POW,
    "tanh": _called("tanh"),
    "sigmoid": _called("tl_sigmoid", float32="tl_sigmoid", helper=_SIGMOID),
    "erf": _called("erf"),
    "sin": _SIN,
    "cos": _COS,
    "tan": _TAN,
    "asin": _called("asin"),
    "acos": _called("acos"),
    "atan": _called("atan"),
    "sinh": _called("sinh"),
    "cosh": _called("cosh"),
    "asinh": _called("asinh"),
    "acosh": _called("acosh"),
    "atanh": _called("atanh"),
    "atan2": _called("atan2", 2),
    "hypot": _called("hypot", 2),
    "copysign": _called("copysign", 2),
    "nextafter": _called("nextafter", 2),
    "ldexp": {
        "float32": Template("ldexpf({0}, (int)fminf(fmaxf({1}, -4096.0f), 4096.0f))"),
        "float64": Template("ldexp({0}, (int)fmin(fmax({1}, -4096.0), 4096.0))"),
    },
    "fmod": _called("fmod", 2),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _ROUND,
    "nearbyint": _ROUND,
    "fma": {**_called("fma", 3), **fma_of_integers(INTEGERS)},
    "abs": {
        **_called("fabs"),
        **{name: Template("{0}") for name in UNSIGNED},
        **{name: Template("tl_magnitude((int32_t)({0}))", _ON_INTEGERS) for name in SIGNED},
        "int64": Template("tl_magnitude((int64_t)({0}))", _ON_INTEGERS),
    },
    "isnan": _question("isnan"),
    "isinf": _question("isinf"),
    "isfinite": _question("isfinite"),
    "__exp": _fast("__expf", _EXP),
    "__exp2": _fast("tl_fast_exp2", _EXP2, _FAST_EXP2),
    "__exp10": _fast("__exp10f", _EXP10),
    "__log": _fast("__logf", _LOG),
    "__log2": _fast("__log2f", _LOG2),
    "__log10": _fast("__log10f", _LOG10),
    "__sin": _fast("__sinf", _SIN),
    "__cos": _fast("__cosf", _COS),
    "__tan": _fast("__tanf", _TAN),
    "__pow": _fast("__powf", _POW),  # by way of a logarithm, so that a negative base gives NaN
    "__fdividef": {"float32": Template("__fdividef({0}, {1})"), "float64": Template("(({0}) / ({1}))")},
}
