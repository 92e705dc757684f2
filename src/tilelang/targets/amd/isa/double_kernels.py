"""C++ texts of elementary functions of doubles, for targets without a mathematical library.

Gives helpers that define overloads in `namespace tl`, beside those for float of `isa.common.math_kernels`. Invariant:
with strict floating point (contraction is allowed), results are within 2 units in the last place (pow, tan and the
hyperbolic functions 4), and infinities, NaN, zeros and subnormal numbers come out as IEEE 754 has them.

The polynomials are Taylor series, cut where the rest is below 2^-57; intervals are small enough that few terms do.
"""

from __future__ import annotations

from math import factorial

from tilelang.isa.common.convert import BIT_CASTS
from tilelang.isa.common.math_kernels import EXP
from tilelang.isa.intrinsic import Helper

_GUARD = 32  # bits beyond those that are asked for


def _arctan_bits(numerator: int, denominator: int, bits: int) -> int:
    """Floor of atan(numerator / denominator) * 2**bits, for at most 1/2."""
    term = (numerator << (bits + _GUARD)) // denominator
    total, k = term, 1
    while term:
        term = -(term * numerator * numerator) // (denominator * denominator)
        if term in (0, -1):
            break
        k += 2
        total += term // k
    return total >> _GUARD


def _pi_bits(bits: int) -> int:
    """Floor of pi * 2**bits, by Machin's formula."""
    more = bits + _GUARD
    return (16 * _arctan_bits(1, 5, more) - 4 * _arctan_bits(1, 239, more)) >> _GUARD


def _parts(value: int, bits: int, *widths: int) -> tuple[str, ...]:
    """The value over 2**bits as a sum of doubles, each with at most the given number of significant bits."""
    parts = []
    for width in widths:
        drop = max(abs(value).bit_length() - width, 0)
        part = (abs(value) >> drop << drop) * (1 if value >= 0 else -1)
        parts.append((part / (1 << bits)).hex())
        value -= part
    return tuple(parts)


def _horner(variable: str, coefficients: list[str]) -> str:
    """A polynomial, lowest power first."""
    *others, text = coefficients
    for coefficient in reversed(others):
        text = f"{coefficient} + {variable} * ({text})"
    return text


_BITS = 400
_PI = _pi_bits(_BITS)
_PI_HIGH, _PI_LOW = _parts(_PI, _BITS, 53, 53)
_HALF_PI_HIGH, _HALF_PI_LOW = _parts(_PI, _BITS + 1, 53, 53)
_FIRST, _SECOND, _THIRD = _parts(_PI, _BITS + 1, 33, 33, 53)  # pi / 2; multiples up to 2^20 of the first two are exact

_EXPM1 = _horner("r", [f"1.0 / {factorial(n)}.0" for n in range(2, 15)])
_SIN = _horner("z", [f"{'-' if n % 4 == 3 else ''}1.0 / {factorial(n)}.0" for n in range(3, 20, 2)])
_COS = _horner("z", [f"{'-' if n % 4 == 2 else ''}1.0 / {factorial(n)}.0" for n in range(4, 20, 2)])
_ATANH = _horner("z", [f"2.0 / {n}.0" for n in range(3, 25, 2)])
_ATAN = _horner("z", [f"{'-' if n % 4 == 3 else ''}1.0 / {n}.0" for n in range(3, 14, 2)])

DOUBLE_EXP = Helper(
    "double_exp",
    f"""\
namespace tl {{
// exp(r) - 1 on |r| <= ln(2) / 2
static inline double expm1_near_zero(double r) {{
    return r + r * r * ({_EXPM1});
}}
static inline double exp2(double x) {{
    const double limited = x < -1100.0 ? -1100.0 : x > 1100.0 ? 1100.0 : x;
    const double n = __builtin_rint(limited), r = (limited - n) * 0x1.62e42fefa39efp-1;
    const double value = scale(1.0 + expm1_near_zero(r), (int64_t)n);
    return x == x ? value : x;
}}
static inline double exp10(double x) {{
    const double limited = x < -330.0 ? -330.0 : x > 310.0 ? 310.0 : x;
    const double n = __builtin_rint(limited * 0x1.a934f0979a371p+1);
    const double r = (limited - n * 0x1.34413508p-2) - n * 0x1.f79fef311f12bp-34;  // log10(2): the first part 32 bits
    const double t = r * 0x1.26bb1bbb55516p+1;
    const double low = __builtin_fma(r, 0x1.26bb1bbb55516p+1, -t) + r * -0x1.f48ad494ea3e9p-53;  // of r * ln(10)
    const double near = expm1_near_zero(t);
    const double value = scale(1.0 + (near + low * (1.0 + near)), (int64_t)n);
    return x == x ? value : x;
}}
static inline double expm1(double x) {{
    const double limited = x < -60.0 ? -60.0 : x > 709.79 ? 709.79 : x;  // whose result is infinite
    const double n = __builtin_rint(limited * 0x1.71547652b82fep+0);
    const double r = (limited - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    const int32_t whole = (int32_t)n;
    const double near = expm1_near_zero(r), half = scale(0.5, (int64_t)whole);
    const double value = whole == 0 ? near : 2.0 * (near * half + (half - 0.5));
    return x == x ? (x == 0.0 ? x : value) : x;
}}
}}  // namespace tl
""",
    needs=(EXP,),
)

DOUBLE_LOG = Helper(
    "double_log",
    f"""\
namespace tl {{
struct double_log_parts {{ double exponent, fraction; }};  // x = 2^exponent * (1 + fraction)
static inline double_log_parts split_for_log(double x) {{
    const bool subnormal = x < 0x1p-1022;
    const uint64_t u = bits_of(subnormal ? x * 0x1p+52 : x) - 0x3fe6a09e667f3bcdu;
    const int32_t e = (int32_t)((int64_t)u >> 52) - (subnormal ? 52 : 0);
    return {{(double)e, double_of((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0}};
}}
// log(1 + f) - f: with s = f / (2 + f), log(1 + f) = 2 atanh(s), and 2 s = f - f^2 / 2 + s f^2 / 2
static inline double log1p_tail(double f) {{
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    return s * (half + z * ({_ATANH})) - half;
}}
static inline double with_log_limits(double x, double value) {{
    const double at_edges = x == 0.0 ? -__builtin_inf() : x > 0.0 ? x : __builtin_nan("");
    return bits_of(x) - 1u < 0x7fefffffffffffffu ? value : at_edges;  // whether x is positive and finite
}}
static inline double log(double x) {{
    const double_log_parts s = split_for_log(x);
    const double small = s.exponent * 0x1.a39ef35793c76p-33 + log1p_tail(s.fraction);
    return with_log_limits(x, s.exponent * 0x1.62e42feep-1 + (s.fraction + small));
}}
static inline double log2(double x) {{
    const double_log_parts s = split_for_log(x);
    const double tail = log1p_tail(s.fraction), e = 0x1.71547652b82fep+0, rest = 0x1.777d0ffda0d24p-56;  // 1 / ln(2)
    const double high = s.fraction * e, low = __builtin_fma(s.fraction, e, -high);
    return with_log_limits(x, s.exponent + (high + (low + (tail * e + s.fraction * rest))));
}}
static inline double log10(double x) {{
    const double_log_parts s = split_for_log(x);
    const double tail = log1p_tail(s.fraction), e = 0x1.bcb7b1526e50ep-2, rest = 0x1.95355baaafad3p-57;  // 1 / ln(10)
    const double high = s.fraction * e, low = __builtin_fma(s.fraction, e, -high);
    const double small = s.exponent * 0x1.f79fef311f12bp-34 + (low + (tail * e + s.fraction * rest));
    return with_log_limits(x, s.exponent * 0x1.34413508p-2 + (high + small));
}}
static inline double log1p(double x) {{
    const double u = 1.0 + x;
    const double_log_parts s = split_for_log(u);
    const double lost = x > 0x1p+60 ? 0.0 : x - (u - 1.0);  // what 1 + x lost, scaled as the fraction is
    const int32_t e = (int32_t)s.exponent;
    const double f = s.fraction + lost * double_of((uint64_t)(1023 - (e > 200 ? 200 : e)) << 52);
    const double value = s.exponent * 0x1.62e42feep-1 + (f + (s.exponent * 0x1.a39ef35793c76p-33 + log1p_tail(f)));
    return x == 0.0 ? x : with_log_limits(u, value);
}}
}}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

DOUBLE_HYPERBOLIC = Helper(
    "double_hyperbolic",
    """\
namespace tl {
static inline double tanh(double x) {
    const double e = expm1(__builtin_fmin(2.0 * __builtin_fabs(x), 40.0));
    return x == x ? __builtin_copysign(e / (e + 2.0), x) : x;
}
static inline double sinh(double x) {
    const double t = __builtin_fabs(x), e = expm1(t), root = exp(0.5 * t);
    const double value = t > 700.0 ? 0.5 * root * root : 0.5 * (e + e / (e + 1.0));
    return x == x ? __builtin_copysign(value, x) : x;
}
static inline double cosh(double x) {
    const double t = __builtin_fabs(x), e = exp(t), root = exp(0.5 * t);
    return t > 700.0 ? 0.5 * root * root : 0.5 * e + 0.5 / e;
}
static inline double asinh(double x) {
    const double t = __builtin_fabs(x), square = t * t;
    const double near = log1p(t + square / (1.0 + __builtin_sqrt(1.0 + square)));
    const double value = t > 0x1p+28 ? log(t) + 0x1.62e42fefa39efp-1 : near;
    return x == x ? __builtin_copysign(value, x) : x;
}
static inline double acosh(double x) {
    const double t = x - 1.0;
    return x > 0x1p+28 ? log(x) + 0x1.62e42fefa39efp-1 : log1p(t + __builtin_sqrt(2.0 * t + t * t));
}
static inline double atanh(double x) {
    const double t = __builtin_fabs(x);
    return x == x ? __builtin_copysign(0.5 * log1p(2.0 * t / (1.0 - t)), x) : x;
}
}  // namespace tl
""",
    needs=(DOUBLE_EXP, DOUBLE_LOG),
)


def _atan_table() -> str:
    """atan(k / 16) for k from 0 to 16, each in two parts; those above 1/2 by the sum of two arcs."""
    rows = []
    for k in range(17):
        # atan(k / 16) = atan(1/2) + atan((2 k - 16) / (32 + k)) from 1/2 on
        arcs = ((k, 16),) if k <= 8 else ((1, 2), (2 * k - 16, 32 + k))
        rows.append(", ".join(_parts(sum(_arctan_bits(*arc, _BITS) for arc in arcs), _BITS, 53, 53)))
    return ",\n    ".join(rows)


DOUBLE_ATAN = Helper(
    "double_atan",
    f"""\
namespace tl {{
// atan(k / 16) in two parts, row by row
static const double atan_table[] = {{
    {_atan_table()}}};
struct two_doubles {{ double high, low; }};
// atan(y / x) for 0 <= y <= x, x > 0: with t = (y/x - c) / (1 + c y/x), atan(c) + atan(t), |t| <= 1/32
static inline two_doubles atan_of_ratio(double y, double x) {{
    const double q = y / x;
    const int32_t k = (int32_t)__builtin_rint(16.0 * q);
    const double c = k * 0.0625;
    const double t = k == 0 ? q : __builtin_fma(-c, x, y) / __builtin_fma(c, y, x), z = t * t;
    return {{atan_table[2 * k], atan_table[2 * k + 1] + (t + t * z * ({_ATAN}))}};
}}
static inline double atan2(double y, double x) {{
    if (x != x || y != y) return x + y;
    double a = __builtin_fabs(y), b = __builtin_fabs(x);
    const bool steep = a > b;
    if (a == b) a = b = a == 0.0 && b == 0.0 ? a : 1.0;
    double least = steep ? b : a, most = steep ? a : b;
    if (most > 0x1p+1000) least *= 0x1p-60, most *= 0x1p-60;
    if (most < 0x1p-900) least *= 0x1p+100, most *= 0x1p+100;
    two_doubles r = {{0.0, 0.0}};
    if (most > 0.0 && least > 0.0) r = atan_of_ratio(least, most);
    if (steep) r = {{{_HALF_PI_HIGH} - r.high, {_HALF_PI_LOW} - r.low}};
    if (__builtin_signbit(x)) r = {{{_PI_HIGH} - r.high, {_PI_LOW} - r.low}};
    return __builtin_copysign(r.high + r.low, y);
}}
static inline double atan(double x) {{ return atan2(x, 1.0); }}
static inline double asin(double x) {{ return atan2(x, __builtin_sqrt((1.0 - x) * (1.0 + x))); }}
static inline double acos(double x) {{ return atan2(__builtin_sqrt((1.0 - x) * (1.0 + x)), x); }}
}}  // namespace tl
""",
    needs=(BIT_CASTS,),
)


def _two_over_pi() -> str:
    """A word of zeros, and the bits of 2 / pi behind the point, in words of 64."""
    words = 19
    value = (1 << (128 * words + 1)) // _pi_bits(64 * words)
    found = ["0u", *(f"{value >> (64 * (words - 1 - n)) & (2**64 - 1):#x}u" for n in range(words))]
    return ",\n    ".join(", ".join(found[at : at + 4]) for at in range(0, len(found), 4))


DOUBLE_TRIGONOMETRY = Helper(
    "double_trigonometry",
    f"""\
namespace tl {{
static const uint64_t two_over_pi[] = {{  // the bits behind the point, after 64 zeros
    {_two_over_pi()}}};
struct double_quarter_turns {{ double high, low; uint32_t count; }};  // x = high + low + count * pi/2
static inline uint64_t upper_product(uint64_t a, uint64_t b) {{
    const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}}
// From 2^20 on: the fraction of x, an integer of 53 bits, times 192 bits of 2 / pi. Those before are left out, whose
// products are multiples of four quarters; what the first ones give beyond 192 bits are such, too.
static inline double_quarter_turns reduce_far(double x) {{
    const uint64_t u = bits_of(x), fraction = (u & 0xfffffffffffffu) | 0x10000000000000u;
    const int32_t skipped = (int32_t)(u >> 52 & 0x7ffu) - 1075 - 2 + 64, first = skipped >> 6, shift = skipped & 63;
    uint64_t window[3];
    for (int32_t i = 0; i < 3; ++i)
        window[i] = two_over_pi[first + i] << shift | two_over_pi[first + i + 1] >> 1 >> (63 - shift);
    const uint64_t low = fraction * window[2], carry = upper_product(fraction, window[2]);
    const uint64_t middle = fraction * window[1] + carry;
    const uint64_t high = fraction * window[0] + upper_product(fraction, window[1]) + (middle < carry ? 1u : 0u);
    // two bits before the point, and 128 behind it; the nearest quarter is the next one if the first of these is set
    uint64_t f = high << 2 | middle >> 62, g = middle << 2 | low >> 62;
    const bool beyond = (f >> 63) != 0, negative = (u >> 63) != 0;
    const uint32_t turns = (uint32_t)(high >> 62) + beyond;
    if (beyond) {{
        g = 0u - g;
        f = ~f + (g == 0 ? 1u : 0u);
    }}
    const double t = (double)(f & ~(uint64_t)0x7ff) * 0x1p-64;
    const double rest = (double)(f & 0x7ffu) * 0x1p-64 + (double)g * 0x1p-128;
    const double h = t * {_HALF_PI_HIGH};
    const double l = __builtin_fma(t, {_HALF_PI_HIGH}, -h) + (rest * {_HALF_PI_HIGH} + t * {_HALF_PI_LOW});
    const double sum = h + l, left = (h - sum) + l;
    return {{beyond != negative ? -sum : sum, beyond != negative ? -left : left, negative ? 0u - turns : turns}};
}}
static inline double_quarter_turns reduce_turns(double x) {{
    if (__builtin_fabs(x) >= 0x1p+20) return x - x == 0.0 ? reduce_far(x) : double_quarter_turns{{x - x, 0.0, 0u}};
    const double n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    const double r = x - n * {_FIRST}, w = n * {_SECOND}, h = r - w;  // products are exact
    const double l = ((r - h) - w) - n * {_THIRD};
    const double sum = h + l;
    return {{sum, (h - sum) + l, (uint32_t)(int32_t)n}};
}}
static inline double sin_near_zero(double_quarter_turns q) {{
    const double z = q.high * q.high;
    return q.high + (q.high * z * ({_SIN}) + q.low * (1.0 - 0.5 * z));
}}
static inline double cos_near_zero(double_quarter_turns q) {{
    const double z = q.high * q.high, half = 0.5 * z, near = 1.0 - half;
    return near + (((1.0 - near) - half) + (z * z * ({_COS}) - q.high * q.low));
}}
static inline double sin_of_turns(double_quarter_turns q) {{
    const double value = q.count & 1u ? cos_near_zero(q) : sin_near_zero(q);
    return q.count & 2u ? -value : value;
}}
static inline double sin(double x) {{ return x == 0.0 ? x : sin_of_turns(reduce_turns(x)); }}
static inline double cos(double x) {{
    const double_quarter_turns q = reduce_turns(x);
    return sin_of_turns({{q.high, q.low, q.count + 1u}});
}}
static inline double tan(double x) {{
    const double_quarter_turns q = reduce_turns(x);
    const double s = sin_near_zero(q), c = cos_near_zero(q);
    return x == 0.0 ? x : q.count & 1u ? -c / s : s / c;
}}
}}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

DOUBLE_ERF = Helper(
    "double_erf",
    """\
namespace tl {
// Up to 1.5: 2 / sqrt(pi) * x * exp(-x^2) * (1 + 2x^2/3 (1 + 2x^2/5 (1 + ...))). Beyond, 1 - erfc(x) by its continued
// fraction. What the square of x loses is put right in the exponential.
static inline double erf(double x) {
    const double t = __builtin_fmin(__builtin_fabs(x), 6.0), square = t * t;
    const double small = exp(-square) * (1.0 - __builtin_fma(t, t, -square));
    double value = 1.0;
    if (t < 1.5) {
#pragma unroll 1
        for (int32_t n = 40; n > 0; --n) value = __builtin_fma(value, 2.0 * square / (2.0 * n + 1.0), 1.0);
        value *= t * small * 0x1.20dd750429b6dp+0;
    } else {
        double fraction = t;
#pragma unroll 1
        for (int32_t n = 80; n > 0; --n) fraction = t + 0.5 * n / fraction;
        value = 1.0 - small / (fraction * 0x1.c5bf891b4ef6bp+0);
    }
    return x == x ? __builtin_copysign(value, x) : x;
}
}  // namespace tl
""",
    needs=(EXP,),
)

# sums and products with what they lost
_POW_ATANH = _horner("z.high", [f"2.0 / {n}.0" for n in range(5, 25, 2)])
_THIRDS = (2 << _BITS) // 3
_TWO_THIRDS_HIGH, _TWO_THIRDS_LOW = _parts(_THIRDS, _BITS, 53, 53)

DOUBLE_POW = Helper(
    "double_pow",
    f"""\
namespace tl {{
struct double_sum {{ double high, low; }};  // unevaluated
static inline double_sum exact_sum(double a, double b) {{
#pragma clang fp contract(off)
    const double s = a + b, t = s - a;
    return {{s, (a - (s - t)) + (b - t)}};
}}
static inline double_sum exact_product(double a, double b) {{
#pragma clang fp contract(off)
    const double p = a * b;
    return {{p, __builtin_fma(a, b, -p)}};
}}
static inline double_sum sum(double_sum a, double_sum b) {{
#pragma clang fp contract(off)
    const double_sum s = exact_sum(a.high, b.high);
    return exact_sum(s.high, s.low + (a.low + b.low));
}}
static inline double_sum product(double_sum a, double_sum b) {{
#pragma clang fp contract(off)
    const double_sum p = exact_product(a.high, b.high);
    return exact_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}}
// log2(x) of a positive finite x, to 2^-65: with s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 + ...
static inline double_sum log2_wide(double x) {{
#pragma clang fp contract(off)
    const double_log_parts parts = split_for_log(x);
    const double_sum under = exact_sum(2.0, parts.fraction);
    const double quotient = parts.fraction / under.high;
    const double_sum back = exact_product(quotient, under.high);
    const double rest = ((parts.fraction - back.high) - back.low - quotient * under.low) / under.high;
    const double_sum s = exact_sum(quotient, rest), z = product(s, s);
    const double_sum third = product(z, {{{_TWO_THIRDS_HIGH}, {_TWO_THIRDS_LOW}}});
    const double tail = z.high * z.high * ({_POW_ATANH});
    const double_sum factor = sum(sum({{2.0, 0.0}}, third), {{tail, 0.0}});
    const double_sum scaled = product(product(s, factor), {{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}});
    return sum({{parts.exponent, 0.0}}, scaled);
}}
static inline double pow(double x, double y) {{
    const double magnitude = __builtin_fabs(x), inf = __builtin_inf();
    const double size = __builtin_fabs(y);
    const double_sum exponent = log2_wide(magnitude);
    // an exponent so large that the result is 0, 1 or infinite whatever its last bits are
    const double_sum t = product(exponent, {{__builtin_copysign(__builtin_fmin(size, 0x1p+66), y), 0.0}});
    const double limited = t.high < -1200.0 ? -1200.0 : t.high > 1200.0 ? 1200.0 : t.high;
    const double n = __builtin_rint(limited), low = limited == t.high ? t.low : 0.0;
    const double r = (limited - n) * 0x1.62e42fefa39efp-1;
    const double rest = __builtin_fma(limited - n, 0x1.62e42fefa39efp-1, -r) + low * 0x1.62e42fefa39efp-1
        + (limited - n) * 0x1.abc9e3b39803fp-56;
    const double near = expm1_near_zero(r);
    double value = scale(1.0 + (near + rest * (1.0 + near)), (int64_t)n);
    if (magnitude == 0.0 || magnitude == inf) value = (magnitude == 0.0) == (y > 0.0) ? 0.0 : inf;
    // a double from 2^53 on is an even integer
    const double bounded = size < 0x1p+53 ? y : 0.0;
    const bool whole = size >= 0x1p+53 || (double)(int64_t)bounded == y;
    const bool odd = whole && ((int64_t)bounded & 1) != 0;
    if (x < 0.0 && magnitude < inf && !whole) value = __builtin_nan("");
    if (__builtin_signbit(x) && odd) value = -value;
    if (x != x || y != y) value = x + y;
    return x == 1.0 || y == 0.0 || (x == -1.0 && size == inf) ? 1.0 : value;
}}
}}  // namespace tl
""",
    needs=(DOUBLE_EXP, DOUBLE_LOG),
)

DOUBLE_HYPOT = Helper(
    "double_hypot",
    """\
namespace tl {
static inline double hypot(double x, double y) {
    const double a = __builtin_fabs(x), b = __builtin_fabs(y);
    const double most = __builtin_fmax(a, b), least = __builtin_fmin(a, b);
    if (most == __builtin_inf()) return most;
    if (x != x || y != y) return x + y;
    const double by = most > 0x1p+500 ? 0x1p-600 : least < 0x1p-450 ? 0x1p+600 : 1.0;  // squares stay normal
    const double u = most * by, v = least * by;
    return most > 0x1p+500 || most < 0x1p-450 || by == 1.0 ? __builtin_sqrt(u * u + v * v) / by : most;
}
static inline float hypot(float x, float y) {
    const float most = __builtin_fmaxf(__builtin_fabsf(x), __builtin_fabsf(y));
    if (most == __builtin_inff()) return most;
    return (float)__builtin_sqrt((double)x * x + (double)y * y);
}
// The float after x on the way to y.
template <class Bits, class T> static inline T step_towards(T x, T y, Bits sign, Bits u, T (*of)(Bits)) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == T(0)) return of((y < T(0) ? sign : 0u) | 1u);
    return of((x < y) == (x > T(0)) ? u + 1u : u - 1u);
}
static inline float nextafter(float x, float y) {
    return step_towards<uint32_t, float>(x, y, (uint32_t)1 << 31, bits_of(x), float_of);
}
static inline double nextafter(double x, double y) {
    return step_towards<uint64_t, double>(x, y, (uint64_t)1 << 63, bits_of(x), double_of);
}
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)
