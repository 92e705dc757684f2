"""C++ texts of the elementary functions: standard library calls."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.intrinsic import Helper, Spelling

_CMATH = Helper("cmath", "", headers=("<cmath>",))


def _std(text: str) -> Mapping[str, Spelling]:
    return {"float32": Spelling(text, _CMATH), "float64": Spelling(text, _CMATH)}


def _with_integers(floats: Mapping[str, Spelling], text: str) -> Mapping[str, Spelling]:
    names = [f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)]
    return {**floats, **{name: Spelling(text) for name in ("bool", *names)}}


EXP = _std("std::exp({0})")
EXP2 = _std("std::exp2({0})")
EXP10 = {
    "float32": Spelling("(float)std::pow(10.0, (double)({0}))", _CMATH),
    "float64": Spelling("std::pow(10.0, {0})", _CMATH),
}
LOG = _std("std::log({0})")
LOG2 = _std("std::log2({0})")
LOG10 = _std("std::log10({0})")
LOG1P = _std("std::log1p({0})")
SQRT = _std("std::sqrt({0})")
RSQRT = {
    "float32": Spelling("(1.0f / std::sqrt({0}))", _CMATH),
    "float64": Spelling("(1.0 / std::sqrt({0}))", _CMATH),
}
POW = _std("std::pow({0}, {1})")
TANH = _std("std::tanh({0})")
SIGMOID = {
    "float32": Spelling("(1.0f / (1.0f + std::exp(-({0}))))", _CMATH),
    "float64": Spelling("(1.0 / (1.0 + std::exp(-({0}))))", _CMATH),
}
ERF = _std("std::erf({0})")
SIN = _std("std::sin({0})")
COS = _std("std::cos({0})")
TAN = _std("std::tan({0})")
ASIN = _std("std::asin({0})")
ACOS = _std("std::acos({0})")
ATAN = _std("std::atan({0})")
SINH = _std("std::sinh({0})")
COSH = _std("std::cosh({0})")
ATAN2 = _std("std::atan2({0}, {1})")
FMOD = _std("std::fmod({0}, {1})")
FLOOR = _with_integers(_std("std::floor({0})"), "({0})")
CEIL = _with_integers(_std("std::ceil({0})"), "({0})")
TRUNC = _with_integers(_std("std::trunc({0})"), "({0})")
ROUND = _with_integers(_std("std::nearbyint({0})"), "({0})")
FMA = _with_integers(_std("std::fma({0}, {1}, {2})"), "(({0}) * ({1}) + ({2}))")
ABS = _with_integers(_std("std::abs({0})"), "std::abs({0})")
ISNAN = _std("std::isnan({0})")
ISINF = _std("std::isinf({0})")
ISFINITE = _std("std::isfinite({0})")
FDIVIDEF = _std("(({0}) / ({1}))")
