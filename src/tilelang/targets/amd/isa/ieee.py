"""HIP texts of arithmetic that is rounded once, by a rounding mode.

Gives `IEEE`. Invariant: a result is the exact value, rounded by the mode. It is computed by rounding to nearest, and
replaced by its neighbor where the sign of the rounding error shows that the mode rounds to the other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.isa.common.convert import BIT_CASTS
from tilelang.isa.common.ieee import OPERATIONS
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.amd.isa.device_text import for_device

_MODES = {"rn": 0, "rz": 1, "ru": 2, "rd": 3}

ROUNDING = Helper(
    "ieee_rounding",
    """\
namespace tl {
// A value, the sign of what it lost of the exact one, which is in the last place or less, and whether a sum that is
// exactly zero has a negative operand: then it is -0 where it is rounded down.
template <class T> struct rounded_value { T nearest, lost; bool cancels; };
template <class T> struct as_integer;
template <> struct as_integer<float> { typedef uint32_t type; };
template <> struct as_integer<double> { typedef uint64_t type; };
static inline float of_integer(uint32_t u) { return float_of(u); }
static inline double of_integer(uint64_t u) { return double_of(u); }
// To nearest, toward zero, up or down: modes 0 to 3. A lost part of an infinity or NaN is NaN, and changes neither.
template <int Mode, class T> static inline T rounded_by(rounded_value<T> r) {
    typedef typename as_integer<T>::type bits;
    const bits sign = (bits)1 << (8 * sizeof(T) - 1);
    const T x = r.nearest;
    const bool negative = x < T(0) || (x == T(0) && r.lost < T(0));
    const bool up = r.lost > T(0) && (Mode == 2 || (Mode == 1 && negative));
    const bool down = r.lost < T(0) && (Mode == 3 || (Mode == 1 && !negative));
    if (!up && !down) return Mode == 3 && x == T(0) && r.cancels ? -T(0) : x;
    if (x == T(0)) return of_integer((down ? sign : 0) | (bits)1);
    return of_integer((bits)(up == !(x < T(0)) ? bits_of(x) + 1u : bits_of(x) - 1u));
}
// An infinite result of finite operands is too large, whatever is lost.
static inline double loss(double nearest, double lost, bool finite) {
    return finite && __builtin_isinf(nearest) ? -nearest : lost;
}
static inline rounded_value<double> sum_and_loss(double a, double b) {
#pragma clang fp contract(off)
    const double s = a + b, t = s - a, lost = (a - (s - t)) + (b - t);
    const bool finite = __builtin_isfinite(a) && __builtin_isfinite(b);
    return {s, loss(s, lost, finite), __builtin_signbit(a) || __builtin_signbit(b)};
}
// A double with what it lost, as a float: where nothing is lost by that, the first loss counts.
static inline rounded_value<float> as_float(rounded_value<double> r) {
    const float x = (float)r.nearest;
    if (__builtin_isinf(x) && !__builtin_isinf(r.nearest)) return {x, x > 0.0f ? -1.0f : 1.0f, false};
    const double lost = r.nearest - (double)x;
    const double sign = lost == 0.0 ? r.lost : lost;
    return {x, sign > 0.0 ? 1.0f : sign < 0.0 ? -1.0f : 0.0f, r.cancels};
}
static inline double product_loss(double x, double y, double nearest) {
    // products of subnormal size lose what a double cannot hold: larger ones lose as much
    const double larger = __builtin_fma(x * 0x1p+500, y, -(nearest * 0x1p+500));
    const double lost = __builtin_fma(x, y, -nearest);
    return __builtin_fabs(nearest) < 0x1p-900 && __builtin_fabs(x) < 0x1p+500 ? larger : lost;
}
static inline rounded_value<double> ieee_add(double x, double y, double) { return sum_and_loss(x, y); }
static inline rounded_value<double> ieee_sub(double x, double y, double) { return sum_and_loss(x, -y); }
static inline rounded_value<double> ieee_mul(double x, double y, double) {
    const double p = x * y;
    return {p, product_loss(x, y, p), false};
}
static inline rounded_value<double> ieee_fmaf(double x, double y, double z) {
#pragma clang fp contract(off)
    const double nearest = __builtin_fma(x, y, z), p = x * y;
    const rounded_value<double> low = sum_and_loss(z, __builtin_fma(x, y, -p)), high = sum_and_loss(p, low.nearest);
    const rounded_value<double> rest = sum_and_loss((high.nearest - nearest) + high.lost, low.lost);
    const bool finite = __builtin_isfinite(x) && __builtin_isfinite(y) && __builtin_isfinite(z);
    const double lost = loss(nearest, rest.nearest == 0.0 ? rest.lost : rest.nearest, finite);
    return {nearest, lost, __builtin_signbit(p) || __builtin_signbit(z)};
}
static inline rounded_value<double> ieee_fdiv(double x, double y, double) {
    const double q = x / y, rest = __builtin_fma(-q, y, x);
    return {q, y < 0.0 ? -rest : rest, false};
}
static inline rounded_value<double> ieee_frcp(double x, double, double) { return ieee_fdiv(1.0, x, 0.0); }
static inline rounded_value<double> ieee_fsqrt(double x, double, double) {
    const double root = __builtin_sqrt(x);
    return {root, __builtin_fma(-root, root, x), false};
}
static inline rounded_value<double> ieee_frsqrt(double x, double, double) {
    const double root = 1.0 / __builtin_sqrt(x);
    return {root, __builtin_fma(-root * x, root, 1.0), false};
}
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)


def _texts() -> Iterator[tuple[str, Mapping[str, Template]]]:
    helper = for_device(ROUNDING)
    for operation, record in OPERATIONS.items():
        operands = ", ".join([*(f"{{{place}}}" for place in range(record.arity)), *["0.0"] * (3 - record.arity)])
        for name, mode in _MODES.items():
            call = f"tl::ieee_{operation}({operands})"
            yield f"ieee_{operation}_{name}", {
                "float32": Template(f"tl::rounded_by<{mode}>(tl::as_float({call}))", helper),
                "float64": Template(f"tl::rounded_by<{mode}>({call})", helper),
            }


IEEE: Mapping[str, Mapping[str, Template]] = dict(_texts())
