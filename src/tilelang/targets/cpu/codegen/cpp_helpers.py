"""C++ functions for operators whose semantics in C++ differ from those of the language.

Each is printed once per source, if used. Invariant: none of them traps or has undefined behavior for any operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.common.arithmetic import remainders
from tilelang.isa.common.vectors import vectors
from tilelang.isa.intrinsic import Helper

_MAX = Helper(
    "tl_max",
    """\
// The larger value; NaN if either is NaN.
static inline float tl_max(float a, float b) { return (a > b || a != a) ? a : b; }
static inline double tl_max(double a, double b) { return (a > b || a != a) ? a : b; }
template <typename T> static inline T tl_max(T a, T b) { return a > b ? a : b; }
""",
)
_MIN = Helper(
    "tl_min",
    """\
// The smaller value; NaN if either is NaN.
static inline float tl_min(float a, float b) { return (a < b || a != a) ? a : b; }
static inline double tl_min(double a, double b) { return (a < b || a != a) ? a : b; }
template <typename T> static inline T tl_min(T a, T b) { return a < b ? a : b; }
""",
)
_FMAX = Helper(
    "tl_fmax",
    """\
// The larger value; the other one if one is NaN.
static inline float tl_fmax(float a, float b) { return (a > b || b != b) ? a : b; }
static inline double tl_fmax(double a, double b) { return (a > b || b != b) ? a : b; }
""",
)
_FMIN = Helper(
    "tl_fmin",
    """\
// The smaller value; the other one if one is NaN.
static inline float tl_fmin(float a, float b) { return (a < b || b != b) ? a : b; }
static inline double tl_fmin(double a, double b) { return (a < b || b != b) ? a : b; }
""",
)
_TRUNCDIV = Helper(
    "tl_truncdiv",
    """\
// Division rounded towards zero; 0 if the divisor is 0.
template <typename T> static inline T tl_truncdiv(T a, T b) {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(T(0) - a);  // the least integer wraps instead of trapping
    return T(a / b);
}
""",
)
_TRUNCMOD, _FLOORMOD, _FLOAT_FLOORMOD, _FLOAT_FLOORDIV = remainders("static inline", "std::", ("<cmath>",))
_FLOORDIV = Helper(
    "tl_floordiv",
    """\
// Division rounded down; 0 if an integer divisor is 0.
template <typename T> static inline T tl_floordiv(T a, T b) {
    const T quotient = tl_truncdiv<T>(a, b);
    return b != T(0) && T(quotient * b) != a && (a < T(0)) != (b < T(0)) ? T(quotient - T(1)) : quotient;
}
""",
    needs=(_TRUNCDIV,),
)
_SHL = Helper(
    "tl_shl",
    """\
// Left shift; 0 if the amount is not below the width.
template <typename T> static inline T tl_shl(T a, T n) {
    return uint64_t(n) < 8 * sizeof(T) ? T(uint64_t(a) << n) : T(0);
}
""",
)
_SHR = Helper(
    "tl_shr",
    """\
// Right shift that keeps the sign; all sign bits if the amount is not below the width.
template <typename T> static inline T tl_shr(T a, T n) {
    return uint64_t(n) < 8 * sizeof(T) ? T(a >> n) : a < T(0) ? T(-1) : T(0);
}
""",
)
_BITS = Helper(
    "tl_bits",
    """\
// The bits of a value read as another type of the same size.
template <typename To, typename From> static inline To tl_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
""",
)

_PACK, _LANE = vectors("static inline")

HELPERS: Mapping[str, Helper] = MappingProxyType(
    {
        helper.name: helper
        for helper in (
            _MAX,
            _MIN,
            _FMAX,
            _FMIN,
            _TRUNCDIV,
            _TRUNCMOD,
            _FLOORDIV,
            _FLOORMOD,
            _FLOAT_FLOORMOD,
            _FLOAT_FLOORDIV,
            _SHL,
            _SHR,
            _PACK,
            _LANE,
            _BITS,
        )
    }
)
