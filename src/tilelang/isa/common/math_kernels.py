"""C++ texts of elementary functions that vectorize: no branches, no calls, no tables but one.

Gives helpers that define overloads in `namespace tl`. Invariant: with the compiler's strict floating point (no
reassociation; contraction is allowed), results are within 2 units in the last place (tanh and sigmoid 3, tan 4), and
infinities, NaN, zeros and subnormal numbers come out as IEEE 754 has them.

The polynomials were fitted for this file: least squares on 4000 Chebyshev points of the interval, in relative error,
with points reweighted by their error until it is level (Lawson's method); the leading coefficients that are exact
in theory (1, 1/2) are kept exact. Each comment gives the interval and the relative error of the fit.
"""

from __future__ import annotations

from tilelang.isa.common.convert import BIT_CASTS
from tilelang.isa.intrinsic import Helper


def _pi_bits(bits: int) -> int:
    """Floor of pi * 2**bits, by Machin's formula."""
    guard = 32

    def arctan_of_inverse(x: int) -> int:
        term = (1 << (bits + guard)) // x
        total, k = term, 1
        while term:
            term //= -x * x
            k += 2
            total += term // k
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> guard


def _split(value: int, bits: int, widths: tuple[int, ...]) -> tuple[float, ...]:
    """The value over 2**bits as a sum of floats, each with at most the given number of significant bits."""
    parts = []
    for width in widths:
        drop = max(abs(value).bit_length() - width, 0)
        part = (abs(value) >> drop << drop) * (1 if value >= 0 else -1)
        parts.append(part / (1 << bits))
        value -= part
    return tuple(parts)


def _turn_table() -> str:
    """For exponents s of floats: 2**(s - 23) mod 2 pi, relative to 2**(s - 23), in two parts of 27 and 53 bits.

    A float is an integer times 2**(s - 23), so its product with the row is equal to it modulo 2 pi. The first row
    stands for s <= 24, where nothing is taken away; the last for infinities and NaN.
    """
    bits = 320
    turn = 2 * _pi_bits(bits)
    rows = ["1.0, 0.0"]
    for s in range(25, 128):
        rest = (1 << (bits + s - 23)) % turn
        rest -= turn if rest > turn // 2 else 0
        rows.append(", ".join(part.hex() for part in _split(rest, bits + s - 23, (27, 53))))
    rows.append("0.0, 0.0")
    return ",\n    ".join(rows)


_FIRST, _SECOND, _THIRD = (part.hex() for part in _split(_pi_bits(320), 321, (27, 27, 53)))  # pi / 2

LOW_INTEGER = Helper(
    "low_integer",
    """\
namespace tl {
// Adding 1.5 * 2^23 (2^52) rounds to an integer, which the low bits then hold.
static inline int32_t low_integer(float shifted) { return (int32_t)(bits_of(shifted) - 0x4b400000u); }
static inline int32_t low_integer(double shifted) { return (int32_t)bits_of(shifted); }
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

EXP = Helper(
    "exp",
    """\
namespace tl {
// Where to round to an integer n by an addition: the low bits of the sum hold n + 254, which `scale` takes apart.
static constexpr float scale_origin = 0x1.8p+23f + 254.0f;
// x * 2^n in two steps, so that no factor overflows or vanishes where the result does not; |n| <= 250
static inline float scale(float x, float shifted) {
    const uint32_t both = bits_of(shifted), half = both >> 1;
    return x * float_of(half << 23) * float_of((both - half) << 23);
}
static inline double scale(double x, int64_t n) {
    const int64_t half = n >> 1;
    return x * double_of((uint64_t)(half + 1023) << 52) * double_of((uint64_t)(n - half + 1023) << 52);
}
// x within two bounds of either sign, by comparing bits as integers, for which processors have one instruction; the
// result for NaN is one of the bounds
static inline float between(float low, float x, float high) {
    const int32_t most = (int32_t)bits_of(high), u = (int32_t)bits_of(x);
    const uint32_t least = bits_of(low), v = (uint32_t)(u < most ? u : most);
    return float_of(v < least ? v : least);
}
// exp(r) - 1 on |r| <= ln(2) / 2; 2^-28.2
static inline float expm1_near_zero(float r) {
    const float high = 0x1.555916p-5f + r * (0x1.123fd2p-7f + r * 0x1.6a1a5ap-10f);
    const float p = 0x1.fffffcp-2f + r * (0x1.55548ap-3f + r * high);
    return r + r * r * p;
}
static inline float exp(float x) {
    const float limited = between(-104.0f, x, 89.0f);
    const float shifted = limited * 0x1.715476p+0f + scale_origin, n = shifted - scale_origin;
    const float r = (limited - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;  // ln(2), the first part of 9 bits
    const float value = scale(1.0f + expm1_near_zero(r), shifted);
    return x == x ? value : x;
}
// exp(r) on |r| <= ln(2) / 2; 2^-57.8
static inline double exp(double x) {
    const double limited = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
    const int32_t n = low_integer(limited * 0x1.71547652b82fep+0 + 0x1.8p+52);
    const double r = (limited - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;  // the first part: 32 bits
    double p = 0x1.28b17b4562b12p-22 + r * 0x1.ad7b7095ed304p-26;
    p = 0x1.a01995d6d9f98p-16 + r * (0x1.71df2e78fcccbp-19 + r * p);
    p = 0x1.6c16c185a5a32p-10 + r * (0x1.a01a0123453cdp-13 + r * p);
    p = 0x1.555555555021cp-5 + r * (0x1.111111112997dp-7 + r * p);
    p = 0x1.000000000000bp-1 + r * (0x1.55555555554f0p-3 + r * p);
    return scale(1.0 + (r + r * r * p), (int64_t)n);
}
}  // namespace tl
""",
    needs=(LOW_INTEGER,),
)

EXP2 = Helper(
    "exp2",
    """\
namespace tl {
// 2^r on |r| <= 1/2; 2^-28.8
static inline float exp2(float x) {
    const float limited = between(-151.0f, x, 129.0f);
    const float shifted = limited + scale_origin, r = limited - (shifted - scale_origin);
    const float high = 0x1.c6aed8p-5f + r * (0x1.3b2d68p-7f + r * (0x1.5f4706p-10f + r * 0x1.41f61ep-13f));
    const float value = scale(1.0f + r * (0x1.62e430p-1f + r * (0x1.ebfbdcp-3f + r * high)), shifted);
    return x == x ? value : x;
}
}  // namespace tl
""",
    needs=(EXP,),
)

EXP10 = Helper(
    "exp10",
    """\
namespace tl {
// 10^r on |r| <= log10(2) / 2; 2^-28.8
static inline float exp10(float x) {
    const float limited = between(-46.0f, x, 39.0f);
    const float shifted = limited * 0x1.a934f0p+1f + scale_origin, n = shifted - scale_origin;
    const float r = (limited - n * 0x1.344p-2f) - n * 0x1.3509f8p-18f;  // log10(2), the first part of 11 bits
    const float high = 0x1.046f5ep+1f + r * (0x1.2bd9f2p+0f + r * (0x1.158b96p-1f + r * 0x1.a68430p-3f));
    const float value = scale(1.0f + r * (0x1.26bb1cp+1f + r * (0x1.53524ap+1f + r * high)), shifted);
    return x == x ? value : x;
}
}  // namespace tl
""",
    needs=(EXP,),
)

LOG = Helper(
    "log",
    """\
namespace tl {
// x = 2^exponent * (1 + fraction), with 1 + fraction in [sqrt(1/2), sqrt(2)]
struct log_parts { float exponent, fraction; };
static inline log_parts split_for_log(float x) {
    const bool subnormal = x < 0x1p-126f;
    const uint32_t u = bits_of(subnormal ? x * 0x1p+23f : x) - 0x3f3504f3u;
    const int32_t e = ((int32_t)u >> 23) - (subnormal ? 23 : 0);
    return {(float)e, float_of((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f};
}
// log(1 + f) - f on [sqrt(1/2) - 1, sqrt(2) - 1]; 2^-30.3
static inline float log1p_tail(float f) {
    float p = -0x1.fc1d4cp-4f + f * (0x1.e70736p-4f + f * (-0x1.de65f0p-4f + f * 0x1.1456cep-4f));
    p = 0x1.99a4cap-3f + f * (-0x1.555c5cp-3f + f * (0x1.2335aep-3f + f * p));
    return f * f * (-0.5f + f * (0x1.555548p-2f + f * (-0x1.000006p-2f + f * p)));
}
static inline float with_log_limits(float x, float value) {
    const float at_edges = x == 0.0f ? -__builtin_inff() : x > 0.0f ? x : __builtin_nanf("");
    return bits_of(x) - 1u < 0x7f7fffffu ? value : at_edges;  // whether x is positive and finite
}
static inline float log(float x) {
    const log_parts s = split_for_log(x);
    const float small = s.exponent * -0x1.bd0106p-13f + log1p_tail(s.fraction);
    return with_log_limits(x, s.exponent * 0x1.63p-1f + (s.fraction + small));
}
static inline float log2(float x) {
    const log_parts s = split_for_log(x);
    const float tail = log1p_tail(s.fraction), e = 0x1.715476p+0f, rest = 0x1.4ae0bep-26f;  // 1 / ln(2)
    return with_log_limits(x, s.exponent + (s.fraction * e + (tail * e + s.fraction * rest)));
}
static inline float log10(float x) {
    const log_parts s = split_for_log(x);
    const float tail = log1p_tail(s.fraction), e = 0x1.bcb7b2p-2f, rest = -0x1.5b235ep-27f;  // 1 / ln(10)
    const float small = s.exponent * 0x1.3509f8p-18f + (tail * e + s.fraction * rest);
    return with_log_limits(x, s.exponent * 0x1.344p-2f + (s.fraction * e + small));
}
static inline float log1p(float x) {
    const float u = 1.0f + x;
    const log_parts s = split_for_log(u);
    // what 1 + x lost, scaled as the fraction is; beyond 2^60 nothing that counts
    const float lost = x > 0x1p+60f ? 0.0f : x - (u - 1.0f);
    const int32_t e = (int32_t)s.exponent;
    const float f = s.fraction + lost * float_of((uint32_t)(127 - (e > 100 ? 100 : e)) << 23);
    const float value = s.exponent * 0x1.63p-1f + (f + (s.exponent * -0x1.bd0106p-13f + log1p_tail(f)));
    return x == 0.0f ? x : with_log_limits(u, value);
}
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

TANH = Helper(
    "tanh",
    """\
namespace tl {
// With e = exp(2|x|) - 1: e / (e + 2). From 2|x| = 20 on the result is 1.
static inline float tanh(float x) {
    const float magnitude = __builtin_fabsf(x), t = magnitude > 10.0f ? 20.0f : 2.0f * magnitude;
    const int32_t n = low_integer(t * 0x1.715476p+0f + 0x1.8p+23f);
    const float r = (t - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    const float power = float_of((uint32_t)(n + 127) << 23);
    const float e = expm1_near_zero(r) * power + (power - 1.0f);
    return __builtin_copysignf(e / (e + 2.0f), x);
}
}  // namespace tl
""",
    needs=(EXP,),
)

SIGMOID = Helper(
    "sigmoid",
    """\
namespace tl {
static inline float sigmoid(float x) {
    const float e = exp(-__builtin_fabsf(x));  // at most 1, so that nothing overflows on either side
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
static inline double sigmoid(double x) {
    const double e = exp(-__builtin_fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
}  // namespace tl
""",
    needs=(EXP,),
)

ERF = Helper(
    "erf",
    """\
namespace tl {
// x + x * (erf(x)/x - 1) on |x| <= 0.92; 2^-26. Beyond, 1 - exp(log(erfc(x))) up to 3.95; 2^-34 of the result.
static inline float erf(float x) {
    const float t = __builtin_fabsf(x), z = x * x, u = t > 3.95f ? 3.95f : t;
    float near = 0x1.ce1be4p-4f + z * (-0x1.b69f12p-6f + z * (0x1.47a82ap-8f + z * -0x1.3bb9eap-11f));
    near = x + x * (0x1.06eba8p-3f + z * (-0x1.8126f0p-2f + z * near));
    float far = 0x1.9b8e84p-6f + u * (-0x1.115ad4p-8f + u * (0x1.c7912ep-12f + u * -0x1.61ea90p-16f));
    far = 0x1.6e5700p-13f + u * (-0x1.2127e4p+0f + u * (-0x1.44460cp-1f + u * (-0x1.bb83e8p-4f + u * far)));
    return t < 0.92f ? near : __builtin_copysignf(1.0f - exp(far), x);
}
}  // namespace tl
""",
    needs=(EXP,),
)

TRIGONOMETRY = Helper(
    "trigonometry",
    """\
namespace tl {
// Row e of the table times x is x less whole turns, for any float x of exponent e + 24; see _turn_table.
static const double turn_table[] = {
    """
    + _turn_table()
    + """};
struct quarter_turns { float rest; uint32_t count; };  // x = rest + count * pi/2, |rest| <= pi/4
static inline quarter_turns reduce_turns(float x) {
    const int32_t exponent = (int32_t)(bits_of(x) >> 23 & 255u) - 151;
    const int64_t row = exponent > 0 ? exponent : 0;
    const double y = (double)x * turn_table[2 * row], low = (double)x * turn_table[2 * row + 1];
    const int32_t n = low_integer((y + low) * 0x1.45f306dc9c883p-1 + 0x1.8p+52);  // up to 2^25
    const double rest = ((y - n * """
    + _FIRST
    + """) - n * """
    + _SECOND
    + """) - (n * """
    + _THIRD
    + """ - low);
    return {(float)rest, (uint32_t)n};
}
// sin(r)/r on |r| <= pi/4; 2^-28
static inline float sin_near_zero(float r) {
    const float z = r * r;
    return r * (1.0f + z * (-0x1.555546p-3f + z * (0x1.110730p-7f + z * -0x1.994060p-13f)));
}
// cos(r) on |r| <= pi/4; 2^-33
static inline float cos_near_zero(float r) {
    const float z = r * r;
    return 1.0f + z * (-0.5f + z * (0x1.55554ap-5f + z * (-0x1.6c0c28p-10f + z * 0x1.99e868p-16f)));
}
static inline float sin_of_turns(quarter_turns q) {
    const float s = sin_near_zero(q.rest), c = cos_near_zero(q.rest);
    return float_of(bits_of(q.count & 1u ? c : s) ^ (q.count & 2u) << 30);
}
static inline float sin(float x) { return sin_of_turns(reduce_turns(x)); }
static inline float cos(float x) {
    const quarter_turns q = reduce_turns(x);
    return sin_of_turns({q.rest, q.count + 1u});
}
static inline float tan(float x) {
    const quarter_turns q = reduce_turns(x);
    const float s = sin_near_zero(q.rest), c = cos_near_zero(q.rest);
    return (q.count & 1u ? -c : s) / (q.count & 1u ? s : c);
}
}  // namespace tl
""",
    needs=(LOW_INTEGER,),
)

POW = Helper(
    "pow",
    """\
namespace tl {
// log2(x) of a positive finite float, in double, to 2^-40: with s = f / (2 + f), log(1 + f) = 2 atanh(s)
static inline double log2_wide(float x) {
    const uint64_t u = bits_of((double)x) - 0x3fe6a09e667f3bcdu;
    const double exponent = (double)(int32_t)((int64_t)u >> 52);
    const double f = double_of((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 1.0 / 13 + z * (1.0 / 15 + z * (1.0 / 17));
    p = 1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * p));
    return exponent + s * (1.0 + z * (1.0 / 3 + z * (1.0 / 5 + z * p))) * 0x1.71547652b82fep+1;
}
static inline float pow(float x, float y) {
    const float magnitude = __builtin_fabsf(x), inf = __builtin_inff(), nan = __builtin_nanf("");
    const double between = log2_wide(magnitude);
    const double exponent = magnitude == 0.0f ? -(double)inf : magnitude < inf ? between : (double)magnitude;
    const double t = exponent * (double)y, limited = t < -200.0 ? -200.0 : t > 200.0 ? 200.0 : t;
    const int32_t n = low_integer(limited + 0x1.8p+52);
    const double r = (limited - n) * 0x1.62e42fefa39efp-1;
    double p = 1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880)));
    p = 1.0 + r * (1.0 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * p)))));
    const float value = (float)(p * double_of((uint64_t)(n + 1023) << 52));
    // a float from 2^24 on is an even integer
    const float size = __builtin_fabsf(y), bounded = size < 0x1p+24f ? y : 0.0f;
    const bool whole = (size >= 0x1p+24f) | ((float)(int32_t)bounded == y);
    const uint32_t odd = (uint32_t)(int32_t)bounded & (uint32_t)whole;
    const float real = (x < 0.0f) & (magnitude < inf) & !whole ? nan : value;
    const float signed_value = float_of(bits_of(real) ^ (bits_of(x) & odd << 31));
    return (x == 1.0f) | (y == 0.0f) | ((x == -1.0f) & (size == inf)) ? 1.0f : signed_value;
}
}  // namespace tl
""",
    needs=(EXP,),
)
