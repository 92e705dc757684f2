"""CUDA types of every dtype: how it lies in memory, and in which type its values are computed with.

Gives `cuda_type` and the helpers that define the types, none of which needs a header. Invariant: a narrow float is a
struct that only holds bits; it becomes a number by conversion to float and is made by an explicit construction that
rounds once, to nearest, ties to even, as ml_dtypes does (NaN stays NaN, with the sign and payload that the machine
gives it). A short vector is an integer of its size, which the machine moves in one access.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper
from tilelang.targets.gpu.isa.c_types import BITS_TEXT, CTypes

# NVRTC has no <stdint.h>; nvcc and host compilers do
INTEGERS = Helper(
    "tl_integers",
    """\
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
""",
)

BITS = Helper("tl_bits", BITS_TEXT, needs=(INTEGERS,))

# The sum or product of two elements, which is rounded once, is what float gives when it is rounded to an element: with
# 24 bits, which are at least twice the 11 of a half and two more, a sum that is rounded twice is the same (Figueroa,
# "When is double rounding innocuous?", 1995), and products are exact. With .rn they are never contracted, and ptxas
# pairs neighbors. Products of bfloat16 may be subnormal floats, which are not exact. Source: PTX ISA, "Half Precision
# Floating Point Instructions": add, sub and mul of .f16 from sm_53 on, of .bf16 from sm_90 on
_ELEMENT_OPERATOR = """\
__device__ __forceinline__ {kind} operator{sign}({kind} a, {kind} b) {{
    {body}
}}
"""
_NATIVE = """\
{kind} c;
    asm("{name}.rn.{suffix} %0, %1, %2;" : "=h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;"""
_BY_FLOAT = "return {kind}((float)a {sign} (float)b);"
_FROM_90 = f"#if __CUDA_ARCH__ >= 900\n    {_NATIVE}\n#else\n    {_BY_FLOAT}\n#endif"
_NAMES = {"+": "add", "-": "sub", "*": "mul"}


def _operators(kind: str, suffix: str, bodies: Mapping[str, str]) -> str:
    """The text of +, - and * for elements of a type, each with its body."""
    return "".join(
        _ELEMENT_OPERATOR.format(
            kind=kind, sign=sign, body=body.format(kind=kind, sign=sign, name=_NAMES[sign], suffix=suffix)
        )
        for sign, body in bodies.items()
    )


_HALF = Helper(
    "half_t",
    """\
struct half_t {
    uint16_t bits;
    half_t() = default;
    __device__ __forceinline__ explicit half_t(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    __device__ __forceinline__ operator float() const {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
    static __device__ __forceinline__ float rounded(float x) { return (float)half_t(x); }
};
"""
    + _operators("half_t", "f16", dict.fromkeys(_NAMES, _NATIVE)),
    needs=(INTEGERS,),
)

_BFLOAT16 = Helper(
    "bfloat16_t",
    """\
struct bfloat16_t {  // the upper half of a float
    uint16_t bits;
    bfloat16_t() = default;
    __device__ __forceinline__ explicit bfloat16_t(float x) {
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        const uint32_t u = tl_bits<uint32_t>(x);
        bits = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 & 0x8000u) | 0x7fc0u
                                                          : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
#endif
    }
    __device__ __forceinline__ operator float() const { return tl_bits<float>((uint32_t)bits << 16); }
    static __device__ __forceinline__ float rounded(float x) { return (float)bfloat16_t(x); }
};
"""
    + _operators("bfloat16_t", "bf16", {"+": _FROM_90, "-": _FROM_90, "*": _BY_FLOAT}),
    needs=(BITS,),
)

# Encoding: a normal number is rounded as an integer, a carry out of the fraction being one into the exponent; adding a
# power of two gives a subnormal one the last bit that it has. Decoding avoids subnormal floats, which a kernel compiled
# with fast mathematics would take for zero.
_MINIFLOAT = Helper(
    "tl_minifloat",
    """\
// What a narrow float has beside numbers: infinities and NaN; one NaN per sign; one NaN in place of -0; nothing.
enum tl_specials { TL_IEEE, TL_ONLY_NAN, TL_UNSIGNED_ZERO, TL_FINITE };
template <int E, int M, int BIAS, tl_specials S> __device__ __forceinline__ uint8_t tl_encode(float x) {
    const uint32_t sign_bit = 1u << (E + M), infinity = ((1u << E) - 1u) << M;
    const uint32_t u = tl_bits<uint32_t>(x), magnitude = u & 0x7fffffffu, sign = (u >> 31) << (E + M);
    const uint32_t even = magnitude >> (23 - M) & 1u, aligner = (uint32_t)(128 - BIAS - M + 23) << 23;
    const uint32_t normal =
        ((magnitude + ((1u << (22 - M)) - 1u) + even) >> (23 - M)) - ((uint32_t)(127 - BIAS) << M);
    const uint32_t subnormal = tl_bits<uint32_t>(tl_bits<float>(magnitude) + tl_bits<float>(aligner)) - aligner;
    const uint32_t code = magnitude < (uint32_t)(128 - BIAS) << 23 ? subnormal : normal;
    const bool nan = magnitude > 0x7f800000u;
    if (S == TL_IEEE) return (uint8_t)(sign | (nan ? infinity | 1u << (M - 1) : code < infinity ? code : infinity));
    if (S == TL_ONLY_NAN) return (uint8_t)(sign | (nan || code > sign_bit - 2u ? sign_bit - 1u : code));
    if (S == TL_UNSIGNED_ZERO) return (uint8_t)(nan || code > sign_bit - 1u ? sign_bit : code ? sign | code : 0u);
    return (uint8_t)(nan ? sign ^ sign_bit : sign | (code > sign_bit - 1u ? sign_bit - 1u : code));
}
template <int E, int M, int BIAS, tl_specials S> __device__ __forceinline__ float tl_decode(uint8_t bits) {
    const uint32_t sign_bit = 1u << (E + M), infinity = ((1u << E) - 1u) << M, least = (uint32_t)(128 - BIAS) << 23;
    const uint32_t magnitude = bits & (sign_bit - 1u), sign = (uint32_t)(bits & sign_bit) << (31 - E - M);
    const uint32_t normal = (magnitude << (23 - M)) + ((uint32_t)(127 - BIAS) << 23);
    const float subnormal = tl_bits<float>(magnitude << (23 - M) | least) - tl_bits<float>(least);
    uint32_t u = magnitude < 1u << M ? tl_bits<uint32_t>(subnormal) : normal;
    if (S == TL_IEEE && magnitude >= infinity) u = 0x7f800000u | (magnitude & ((1u << M) - 1u)) << (23 - M);
    if (S == TL_ONLY_NAN && magnitude == sign_bit - 1u) u = 0x7fc00000u;
    if (S == TL_UNSIGNED_ZERO && (bits & (2u * sign_bit - 1u)) == sign_bit) u = 0x7fc00000u;
    return tl_bits<float>(u | sign);
}
""",
    needs=(BITS,),
)

_STRUCT = """\
struct {name} {{
    uint8_t bits;
    {name}() = default;
    __device__ __forceinline__ explicit {name}(float x) : bits({encode}(x)) {{}}
    __device__ __forceinline__ operator float() const {{ return {decode}(bits); }}
    static __device__ __forceinline__ float rounded(float x) {{ return (float){name}(x); }}
}};
"""


def _minifloat(name: str, shape: str) -> Helper:
    text = _STRUCT.format(name=name, encode=f"tl_encode<{shape}>", decode=f"tl_decode<{shape}>")
    return Helper(name, text, needs=(_MINIFLOAT,))


# The instructions saturate, where ml_dtypes gives NaN (e4m3fn beyond 464, half way to the next code) or infinity (e5m2
# from 61440 on). Source: PTX ISA, "Data Movement and Conversion Instructions: cvt", .satfinite and .e4m3x2
_E4M3 = Helper(
    "float8_e4m3_t",
    """\
__device__ __forceinline__ uint8_t tl_encode_e4m3(float x) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    const float bounded = fabsf(x) <= 464.0f ? x : tl_bits<float>(0x7fc00000u);
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(bounded));
    return (uint8_t)pair;
#else
    return tl_encode<4, 3, 7, TL_ONLY_NAN>(x);
#endif
}
__device__ __forceinline__ float tl_decode_e4m3(uint8_t bits) {
#if __CUDA_ARCH__ >= 890
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)bits));
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)pair));
    return x;
#else
    return tl_decode<4, 3, 7, TL_ONLY_NAN>(bits);
#endif
}
"""
    + _STRUCT.format(name="float8_e4m3_t", encode="tl_encode_e4m3", decode="tl_decode_e4m3"),
    needs=(_MINIFLOAT,),
)
_E5M2 = Helper(
    "float8_e5m2_t",
    """\
__device__ __forceinline__ uint8_t tl_encode_e5m2(float x) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return (uint8_t)(fabsf(x) >= 61440.0f ? (pair & 0x80u) | 0x7cu : pair);
#else
    return tl_encode<5, 2, 15, TL_IEEE>(x);
#endif
}
__device__ __forceinline__ float tl_decode_e5m2(uint8_t bits) {
#if defined(__CUDA_ARCH__)
    float x;  // the upper half of a half
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)(bits << 8)));
    return x;
#else
    return tl_decode<5, 2, 15, TL_IEEE>(bits);
#endif
}
"""
    + _STRUCT.format(name="float8_e5m2_t", encode="tl_encode_e5m2", decode="tl_decode_e5m2"),
    needs=(_MINIFLOAT,),
)

_E8M0 = Helper(
    "float8_e8m0_t",
    """\
__device__ __forceinline__ uint8_t tl_encode_e8m0(float x) {
    const uint32_t u = tl_bits<uint32_t>(x), code = (u + 0x400000u - (uint32_t)(u == 0x400000u)) >> 23;  // halves go up
    return (uint8_t)(u - 1u >= 0x7f7fffffu ? 255u : code);  // only positive finite numbers have one
}
__device__ __forceinline__ float tl_decode_e8m0(uint8_t bits) {
    return tl_bits<float>(bits == 255 ? 0x7fc00000u : bits ? (uint32_t)bits << 23 : 0x400000u);
}
// A power of two: the exponent of a float; 255 is NaN.
"""
    + _STRUCT.format(name="float8_e8m0_t", encode="tl_encode_e8m0", decode="tl_decode_e8m0"),
    needs=(BITS,),
)

_NIBBLES = Helper(
    "tl_nibbles",
    """\
struct int4_t {  // in the low half of a byte
    uint8_t bits;
    int4_t() = default;
    __device__ __forceinline__ explicit int4_t(int32_t x) : bits((uint8_t)(x & 15)) {}
    __device__ __forceinline__ operator int32_t() const { return (int32_t)((bits & 15u) ^ 8u) - 8; }
};
struct uint4_t {
    uint8_t bits;
    uint4_t() = default;
    __device__ __forceinline__ explicit uint4_t(int32_t x) : bits((uint8_t)(x & 15)) {}
    __device__ __forceinline__ operator int32_t() const { return (int32_t)(bits & 15u); }
};
""",
    needs=(INTEGERS,),
)

_WIDE = Helper(
    "tl_words",
    """\
// A short vector wider than one access, in 16-byte pieces.
template <int N> struct __align__(16) tl_words { uint4 part[N]; };
""",
    needs=(INTEGERS,),
)


def _integer(name: str) -> CType:
    return CType(f"{name}_t", f"{name}_t", INTEGERS)


_E2M1 = _minifloat("float4_e2m1_t", "2, 1, 1, TL_FINITE")

CUDA_TYPES: Mapping[str, CType] = MappingProxyType(
    {
        "bool": CType("bool", "bool"),
        **{name: _integer(name) for bits in (8, 16, 32, 64) for name in (f"int{bits}", f"uint{bits}")},
        "int4": CType("int4_t", "int32_t", _NIBBLES),
        "uint4": CType("uint4_t", "int32_t", _NIBBLES),
        "float16": CType("half_t", "float", _HALF),
        "bfloat16": CType("bfloat16_t", "float", _BFLOAT16),
        "float32": CType("float", "float"),
        "tfloat32": CType("float", "float"),
        "float64": CType("double", "double"),
        "float8_e4m3fn": CType("float8_e4m3_t", "float", _E4M3),
        "float8_e5m2": CType("float8_e5m2_t", "float", _E5M2),
        "float8_e4m3fnuz": CType(
            "float8_e4m3fnuz_t", "float", _minifloat("float8_e4m3fnuz_t", "4, 3, 8, TL_UNSIGNED_ZERO")
        ),
        "float8_e5m2fnuz": CType(
            "float8_e5m2fnuz_t", "float", _minifloat("float8_e5m2fnuz_t", "5, 2, 16, TL_UNSIGNED_ZERO")
        ),
        "float8_e8m0fnu": CType("float8_e8m0_t", "float", _E8M0),
        "float8_e3m4": CType("float8_e3m4_t", "float", _minifloat("float8_e3m4_t", "3, 4, 3, TL_IEEE")),
        "float8_e4m3b11fnuz": CType(
            "float8_e4m3b11fnuz_t", "float", _minifloat("float8_e4m3b11fnuz_t", "4, 3, 11, TL_UNSIGNED_ZERO")
        ),
        "float6_e2m3fn": CType("float6_e2m3_t", "float", _minifloat("float6_e2m3_t", "2, 3, 1, TL_FINITE")),
        "float6_e3m2fn": CType("float6_e3m2_t", "float", _minifloat("float6_e3m2_t", "3, 2, 3, TL_FINITE")),
        "float4_e2m1fn": CType("float4_e2m1_t", "float", _E2M1),
        "float4_e2m1_unpacked": CType("float4_e2m1_t", "float", _E2M1),
    }
)

_TYPES = CTypes(
    "CUDA",
    CUDA_TYPES,
    {
        **{size: _integer(f"uint{8 * size}") for size in (1, 2, 4)},
        # built into the compilers. Source: CUDA C++ Programming Guide, "Built-in Vector Types"
        **{4 * count: CType(f"uint{count}", f"uint{count}", INTEGERS) for count in (2, 4)},
    },
    _WIDE,
)
words, cuda_type, lane_type = _TYPES.words, _TYPES.of, _TYPES.of_lane
