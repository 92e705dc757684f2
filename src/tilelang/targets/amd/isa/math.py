"""HIP texts of the elementary functions, by dtype.

Gives `MATH`, from name to compute dtype to `Template`: clang's builtins where they need no device library of ROCm,
otherwise functions of `isa.common.math_kernels` and `double_kernels`. Names with two underscores are hardware
instructions of lower accuracy.

Source: LLVM, "LLVM Language Reference Manual", "Standard C/C++ Library Intrinsics"; AMD's ISA manuals, V_EXP_F32,
V_LOG_F32, V_SIN_F32, V_COS_F32.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.common import math_kernels as kernels
from tilelang.isa.common.math_text import SIGNED, UNCHANGED, UNSIGNED, fma_of_integers
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.amd.isa import double_kernels
from tilelang.targets.amd.isa.device_text import for_device
from tilelang.targets.amd.isa.remainder import FMOD

Texts = Mapping[str, Template]

_ON_INTEGERS = Helper(
    "tl_magnitude",
    """\
__device__ __forceinline__ int32_t tl_magnitude(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
__device__ __forceinline__ int64_t tl_magnitude(int64_t x) { return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x; }
""",
)

# Source: AMD's ISA manuals, V_RSQ_F32: one unit in the last place, and subnormal operands count as zero
_RSQRT = Helper(
    "tl_rsqrt",
    """\
// 1 / sqrt(x) by the machine's own instruction, which gets subnormal numbers scaled.
__device__ __forceinline__ float tl_rsqrt(float x) {
    const bool small = x < 0x1p-126f;
    return __builtin_amdgcn_rsqf(small ? x * 0x1p+24f : x) * (small ? 0x1p+12f : 1.0f);
}
""",
)

# V_SIN_F32 takes the angle in turns, and needs its fraction; the absolute error of a result is 2 pi times 1e-7.
_FAST = Helper(
    "tl_fast",
    """\
// The machine's own functions of float; subnormal numbers count as zero. Before LLVM 17 the others were the same.
#if __has_builtin(__builtin_amdgcn_exp2f)
__device__ __forceinline__ float tl_fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
__device__ __forceinline__ float tl_fast_log2(float x) { return __builtin_amdgcn_logf(x); }
#else
__device__ __forceinline__ float tl_fast_exp2(float x) { return __builtin_exp2f(x); }
__device__ __forceinline__ float tl_fast_log2(float x) { return __builtin_log2f(x); }
#endif
__device__ __forceinline__ float tl_fast_exp(float x) { return tl_fast_exp2(x * 0x1.715476p+0f); }
__device__ __forceinline__ float tl_fast_exp10(float x) { return tl_fast_exp2(x * 0x1.a934f0p+1f); }
__device__ __forceinline__ float tl_fast_log(float x) { return tl_fast_log2(x) * 0x1.62e430p-1f; }
__device__ __forceinline__ float tl_fast_log10(float x) { return tl_fast_log2(x) * 0x1.344136p-2f; }
__device__ __forceinline__ float tl_fast_sin(float x) {
    return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
__device__ __forceinline__ float tl_fast_cos(float x) {
    return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
__device__ __forceinline__ float tl_fast_tan(float x) { return tl_fast_sin(x) * __builtin_amdgcn_rcpf(tl_fast_cos(x)); }
__device__ __forceinline__ float tl_fast_pow(float x, float y) { return tl_fast_exp2(y * tl_fast_log2(x)); }
__device__ __forceinline__ float tl_fast_divide(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
""",
)


def _operands(arity: int) -> str:
    return ", ".join(f"{{{place}}}" for place in range(arity))


def _builtin(name: str, arity: int = 1) -> Texts:
    """A builtin of the compiler."""
    return {
        "float32": Template(f"__builtin_{name}f({_operands(arity)})"),
        "float64": Template(f"__builtin_{name}({_operands(arity)})"),
    }


def _from_library(name: str, float32: Helper | None, float64: Helper, arity: int = 1) -> Texts:
    """Functions of our helpers; float uses the builtin of the compiler if there is no helper for it."""
    own, wide = f"tl::{name}({_operands(arity)})", for_device(float64)
    narrow = _builtin(name, arity)["float32"] if float32 is None else Template(own, for_device(float32))
    return {"float32": narrow, "float64": Template(own, wide)}


def _in_double(name: str, helper: Helper, arity: int = 1) -> Texts:
    """A function of our helpers for double; float is computed in double."""
    wide = for_device(helper)
    operands = ", ".join(f"(double)({{{place}}})" for place in range(arity))
    return {
        "float32": Template(f"(float)tl::{name}({operands})", wide),
        "float64": Template(f"tl::{name}({_operands(arity)})", wide),
    }


def _fast(name: str, accurate: Texts) -> Texts:
    """A fast function of float beside the accurate one of double."""
    arity = 2 if "{1}" in accurate["float64"].text else 1
    return {"float32": Template(f"tl_fast_{name}({_operands(arity)})", _FAST), "float64": accurate["float64"]}


def _rounding(name: str) -> Texts:
    return {**_builtin(name), **UNCHANGED}


def _classification(name: str) -> Texts:
    return dict.fromkeys(("float32", "float64"), Template(f"bool(__builtin_{name}({{0}}))"))


_EXP = _from_library("exp", None, kernels.EXP)
_EXP2 = _from_library("exp2", None, double_kernels.DOUBLE_EXP)
_EXP10 = _from_library("exp10", kernels.EXP10, double_kernels.DOUBLE_EXP)
_LOG = _from_library("log", None, double_kernels.DOUBLE_LOG)
_LOG2 = _from_library("log2", None, double_kernels.DOUBLE_LOG)
_LOG10 = _from_library("log10", None, double_kernels.DOUBLE_LOG)
_SIN = _from_library("sin", kernels.TRIGONOMETRY, double_kernels.DOUBLE_TRIGONOMETRY)
_COS = _from_library("cos", kernels.TRIGONOMETRY, double_kernels.DOUBLE_TRIGONOMETRY)
_TAN = _from_library("tan", kernels.TRIGONOMETRY, double_kernels.DOUBLE_TRIGONOMETRY)
_POW = _from_library("pow", kernels.POW, double_kernels.DOUBLE_POW, 2)
_ROUND = _rounding("rint")  # to nearest, ties to even
_FMOD = {name: Template("tl::fmod({0}, {1})", FMOD) for name in ("float32", "float64")}

# by the names of `isa.common.math`
MATH: Mapping[str, Texts] = {
    "exp": _EXP,
    "exp2": _EXP2,
    "exp10": _EXP10,
    "log": _LOG,
    "log2": _LOG2,
    "log10": _LOG10,
    "log1p": _from_library("log1p", kernels.LOG, double_kernels.DOUBLE_LOG),
    "sqrt": _builtin("sqrt"),
    "rsqrt": {
        "float32": Template("tl_rsqrt({0})", _RSQRT),
        "float64": Template("(1.0 / __builtin_sqrt({0}))"),
    },
    "pow": _POW,
    "tanh": _from_library("tanh", kernels.TANH, double_kernels.DOUBLE_HYPERBOLIC),
    "sigmoid": _from_library("sigmoid", kernels.SIGMOID, kernels.SIGMOID),
    "erf": _from_library("erf", kernels.ERF, double_kernels.DOUBLE_ERF),
    "sin": _SIN,
    "cos": _COS,
    "tan": _TAN,
    "asin": _in_double("asin", double_kernels.DOUBLE_ATAN),
    "acos": _in_double("acos", double_kernels.DOUBLE_ATAN),
    "atan": _in_double("atan", double_kernels.DOUBLE_ATAN),
    "sinh": _in_double("sinh", double_kernels.DOUBLE_HYPERBOLIC),
    "cosh": _in_double("cosh", double_kernels.DOUBLE_HYPERBOLIC),
    "asinh": _in_double("asinh", double_kernels.DOUBLE_HYPERBOLIC),
    "acosh": _in_double("acosh", double_kernels.DOUBLE_HYPERBOLIC),
    "atanh": _in_double("atanh", double_kernels.DOUBLE_HYPERBOLIC),
    "atan2": _in_double("atan2", double_kernels.DOUBLE_ATAN, 2),
    "hypot": _from_library("hypot", double_kernels.DOUBLE_HYPOT, double_kernels.DOUBLE_HYPOT, 2),
    "copysign": _builtin("copysign", 2),
    "nextafter": _from_library("nextafter", double_kernels.DOUBLE_HYPOT, double_kernels.DOUBLE_HYPOT, 2),
    "ldexp": {
        "float32": Template(
            "__builtin_amdgcn_ldexpf({0}, (int)__builtin_fminf(__builtin_fmaxf({1}, -4096.0f), 4096.0f))"
        ),
        "float64": Template("__builtin_amdgcn_ldexp({0}, (int)__builtin_fmin(__builtin_fmax({1}, -4096.0), 4096.0))"),
    },
    "fmod": _FMOD,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _ROUND,
    "nearbyint": _ROUND,
    "fma": {**_builtin("fma", 3), **fma_of_integers()},
    "abs": {
        **_builtin("fabs"),
        **{name: Template("{0}") for name in UNSIGNED},
        **{name: Template("tl_magnitude((int32_t)({0}))", _ON_INTEGERS) for name in SIGNED},
        "int64": Template("tl_magnitude((int64_t)({0}))", _ON_INTEGERS),
    },
    "isnan": _classification("isnan"),
    "isinf": _classification("isinf"),
    "isfinite": _classification("isfinite"),
    "__exp": _fast("exp", _EXP),
    "__exp2": _fast("exp2", _EXP2),
    "__exp10": _fast("exp10", _EXP10),
    "__log": _fast("log", _LOG),
    "__log2": _fast("log2", _LOG2),
    "__log10": _fast("log10", _LOG10),
    "__sin": _fast("sin", _SIN),
    "__cos": _fast("cos", _COS),
    "__tan": _fast("tan", _TAN),
    "__pow": _fast("pow", _POW),
    "__fdividef": {
        "float32": Template("tl_fast_divide({0}, {1})", _FAST),
        "float64": Template("(({0}) / ({1}))"),
    },
}
