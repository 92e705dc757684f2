"""HIP text of the remainder of floats, for which there is no exact instruction.

Gives `FMOD`, which defines `tl::fmod`, and overloads of other functions by their names in C. Invariant: the remainder
is exact, as that of IEEE 754 hardware with rounding toward zero of the quotient.
"""

from __future__ import annotations

from tilelang.isa.common.convert import BIT_CASTS
from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.isa.device_text import for_device

_FMOD = Helper(
    "tl_fmod",
    """\
namespace tl {
static inline float floor(float x) { return __builtin_floorf(x); }
static inline double floor(double x) { return __builtin_floor(x); }
static inline float copysign(float x, float sign) { return __builtin_copysignf(x, sign); }
static inline double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
// The magnitude of x modulo that of y, both as the bits of finite floats, y not 0: long division of the fractions, of
// so many bits, by as many steps as the exponents differ.
template <class Bits, int Fraction> static inline Bits remainder_of_bits(Bits x, Bits y) {
    const Bits one = (Bits)1 << Fraction, mask = one - 1;
    if (x < y) return x;
    int32_t ex = (int32_t)(x >> Fraction), ey = (int32_t)(y >> Fraction);
    Bits a = ex ? (x & mask) | one : x, b = ey ? (y & mask) | one : y;
    ex += ex == 0;  // subnormal numbers have the least exponent
    ey += ey == 0;
#pragma unroll 1
    for (; a < one; --ex) a <<= 1;
#pragma unroll 1
    for (; b < one; --ey) b <<= 1;
#pragma unroll 1
    for (; ex > ey; --ex) a = (a >= b ? a - b : a) << 1;
    a = a >= b ? a - b : a;
    if (a == 0) return 0;
#pragma unroll 1
    for (; a < one; --ey) a <<= 1;
    return ey > 0 ? (a & mask) | (Bits)ey << Fraction : a >> (1 - ey);
}
static inline float fmod(float x, float y) {
    const uint32_t u = bits_of(x), a = u & 0x7fffffffu, b = bits_of(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0) return __builtin_nanf("");
    const uint32_t rest = b == 0x7f800000u ? a : remainder_of_bits<uint32_t, 23>(a, b);
    return float_of(rest | (u & 0x80000000u));
}
static inline double fmod(double x, double y) {
    const uint64_t sign = (uint64_t)1 << 63, infinity = (uint64_t)0x7ff << 52;
    const uint64_t u = bits_of(x), a = u & ~sign, b = bits_of(y) & ~sign;
    if (a >= infinity || b > infinity || b == 0) return __builtin_nan("");
    const uint64_t rest = b == infinity ? a : remainder_of_bits<uint64_t, 52>(a, b);
    return double_of(rest | (u & sign));
}
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

FMOD = for_device(_FMOD)
