"""C++ types of every dtype, and conversions between them that agree bit for bit with NumPy and ml_dtypes.

`cpp_type` is the type of a dtype in memory and in expressions, and `conversion` the text of a cast.
Invariant: a narrow float is a struct of bits; it becomes a number by `(float)x` and is made by an explicit, correctly
rounded construction. Conversions have no branches and calls, so that loops over them vectorize.
"""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper, Template

BIT_CASTS = Helper(
    "bit_casts",
    """\
namespace tl {
static inline uint32_t bits_of(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
static inline float float_of(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
static inline uint64_t bits_of(double x) { uint64_t u; __builtin_memcpy(&u, &x, 8); return u; }
static inline double double_of(uint64_t u) { double x; __builtin_memcpy(&x, &u, 8); return x; }
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_BFLOAT16 = Helper(
    "bfloat16",
    """\
namespace tl {
struct bfloat16 {  // the upper half of a float
    uint16_t bits;
    bfloat16() = default;
    explicit bfloat16(float x) {
        const uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
        const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
        bits = (uint16_t)(magnitude > 0x7f800000u ? (u >> 16 & 0x8000u) | 0x7fc0u : rounded);
    }
    operator float() const { return float_of((uint32_t)bits << 16); }
    static float rounded(float x) {
        const uint32_t u = bits_of(x), nearest = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
        return float_of(x == x ? nearest : 0x7fc00000u | (u & 0x80000000u));
    }
};
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

# Decoding: the fields are moved to where a float has them; a multiplication by a power of two corrects the exponent
# and makes subnormal numbers normal at once. Encoding: an addition shifts the last bit to that of a float, which rounds
# it; a carry out of the fraction is a carry into the exponent. Types without infinities round normal numbers as
# integers. `rounded` is the way there and back without the code in between.
_MINIFLOAT = Helper(
    "minifloat",
    """\
namespace tl {
enum class specials { ieee, only_nan, unsigned_zero, none };  // infinities and NaN; one NaN per sign; one NaN; finite
template <class Bits, int E, int M, int Bias, specials S> struct minifloat {
    Bits bits;
    static constexpr uint32_t sign_bit = 1u << (E + M);
    static constexpr uint32_t infinity = ((1u << E) - 1u) << M;  // the code above the largest finite one, under ieee
    static constexpr uint32_t largest = S == specials::ieee ? infinity - 1u
        : S == specials::only_nan ? sign_bit - 2u : sign_bit - 1u;
    // The sum of a magnitude, at most just above the largest one, and a power of two so large that the sum has its last
    // bit where a minifloat has it.
    struct alignment {
        static constexpr uint32_t smallest = (uint32_t)(128 - Bias + 23 - M) << 23;
        uint32_t power;
        float sum;
        explicit alignment(uint32_t magnitude) {
            constexpr int32_t beyond = (126 - Bias + (1 << E)) << 23, least = (128 - Bias) << 23;
            const int32_t bounded = (int32_t)magnitude < beyond ? (int32_t)magnitude : beyond;
            const int32_t exponent = bounded & 0x7f800000;
            power = (uint32_t)((exponent > least ? exponent : least) + ((23 - M) << 23));
            sum = float_of((uint32_t)bounded) + float_of(power);
        }
    };
    minifloat() = default;
    explicit minifloat(float x) {
        const uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu, sign = (u >> 31) << (E + M);
        if constexpr (S == specials::ieee) {
            const uint32_t payload = M > 4 ? magnitude >> (23 - M) & ((1u << M) - 1u) : 1u << (M - 1);
            const alignment a(magnitude);
            const uint32_t code = bits_of(a.sum) - a.power + ((a.power - alignment::smallest) >> (23 - M));
            const uint32_t finite = code < infinity ? code : infinity;
            bits = (Bits)(sign | (magnitude > 0x7f800000u ? infinity | (payload ? payload : 1u) : finite));
            return;
        }
        const uint32_t even = magnitude >> (23 - M) & 1u;
        const uint32_t rounded = (magnitude + ((1u << (22 - M)) - 1u) + even) >> (23 - M);
        const uint32_t normal = rounded - ((uint32_t)(127 - Bias) << M);
        constexpr uint32_t aligner = (uint32_t)(127 + 1 - Bias - M + 23) << 23;
        const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(aligner)) - aligner;
        const uint32_t code = magnitude < ((uint32_t)(128 - Bias) << 23) ? subnormal : normal;
        uint32_t result;
        if constexpr (S == specials::only_nan) {
            result = sign | (magnitude >= 0x7f800000u || code > largest ? sign_bit - 1u : code);
        } else if constexpr (S == specials::unsigned_zero) {
            const uint32_t finite = code ? sign | code : 0u;
            result = magnitude >= 0x7f800000u || code > largest ? sign_bit : finite;
        } else {
            const uint32_t finite = sign | (magnitude >= 0x7f800000u || code > largest ? largest : code);
            result = magnitude > 0x7f800000u ? sign ^ sign_bit : finite;
        }
        bits = (Bits)result;
    }
    operator float() const {
        const uint32_t magnitude = bits & (sign_bit - 1u), sign = (uint32_t)(bits & sign_bit) << (31 - E - M);
        const float value = float_of(magnitude << (23 - M)) * float_of((uint32_t)(254 - Bias) << 23);
        uint32_t u = bits_of(value);
        if constexpr (S == specials::ieee) u = magnitude >= infinity ? 0x7f800000u | magnitude << (23 - M) : u;
        if constexpr (S == specials::only_nan) u = magnitude == sign_bit - 1u ? 0x7fc00000u : u;
        if constexpr (S == specials::unsigned_zero) u = (bits & (2u * sign_bit - 1u)) == sign_bit ? 0x7fc00000u : u;
        return float_of(u | sign);
    }
    static float rounded(float x) {
        if constexpr (S == specials::ieee) {
            const uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
            const alignment a(magnitude);
            const uint32_t nearest = bits_of(a.sum - float_of(a.power));
            const uint32_t value = nearest < (uint32_t)(126 - Bias + (1 << E)) << 23 ? nearest : 0x7f800000u;
            return float_of((magnitude > 0x7f800000u ? magnitude : value) | (u & 0x80000000u));
        }
        return (float)minifloat(x);
    }
};
typedef minifloat<uint16_t, 5, 10, 15, specials::ieee> float16;
typedef minifloat<uint8_t, 4, 3, 7, specials::only_nan> float8_e4m3fn;
typedef minifloat<uint8_t, 5, 2, 15, specials::ieee> float8_e5m2;
typedef minifloat<uint8_t, 4, 3, 8, specials::unsigned_zero> float8_e4m3fnuz;
typedef minifloat<uint8_t, 5, 2, 16, specials::unsigned_zero> float8_e5m2fnuz;
typedef minifloat<uint8_t, 3, 4, 3, specials::ieee> float8_e3m4;
typedef minifloat<uint8_t, 4, 3, 11, specials::unsigned_zero> float8_e4m3b11fnuz;
typedef minifloat<uint8_t, 2, 3, 1, specials::none> float6_e2m3fn;
typedef minifloat<uint8_t, 3, 2, 3, specials::none> float6_e3m2fn;
typedef minifloat<uint8_t, 2, 1, 1, specials::none> float4_e2m1fn;
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

_E8M0 = Helper(
    "float8_e8m0fnu",
    """\
namespace tl {
struct float8_e8m0fnu {  // a power of two: the exponent of a float; 255 is NaN
    uint8_t bits;
    float8_e8m0fnu() = default;
    explicit float8_e8m0fnu(float x) {
        const uint32_t u = bits_of(x), code = (u + 0x400000u - (uint32_t)(u == 0x400000u)) >> 23;  // halves go up
        bits = (uint8_t)(u - 1u >= 0x7f7fffffu ? 255u : code);  // only positive finite numbers have one
    }
    operator float() const { return float_of(bits == 255 ? 0x7fc00000u : bits ? (uint32_t)bits << 23 : 0x400000u); }
};
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

_NIBBLES = Helper(
    "nibbles",
    """\
namespace tl {
struct int4 {  // in the low half of a byte
    uint8_t bits;
    int4() = default;
    explicit int4(int32_t x) : bits((uint8_t)(x & 15)) {}
    operator int32_t() const { return (int32_t)((bits & 15u) ^ 8u) - 8; }
};
struct uint4 {
    uint8_t bits;
    uint4() = default;
    explicit uint4(int32_t x) : bits((uint8_t)(x & 15)) {}
    operator int32_t() const { return (int32_t)(bits & 15u); }
};
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_HALF_OF_DOUBLE = Helper(
    "half_of_double",
    """\
namespace tl {
// Rounded to odd on the way: a float's last bit remembers what was lost, so that the second rounding is exact.
static inline float16 half_of_double(double x) {
    const float nearest = (float)x;
    const uint32_t u = bits_of(nearest);
    const double back = (double)nearest;
    const bool exact = back == x || x != x;
    const bool too_far = (x < 0 ? -back : back) > (x < 0 ? -x : x);
    return float16(float_of(exact ? u : too_far ? (u - 1u) | 1u : u | 1u));
}
}  // namespace tl
""",
    needs=(_MINIFLOAT,),
)

_TF32 = Helper(
    "round_tf32",
    """\
namespace tl {
static inline float round_tf32(float x) {
    const uint32_t u = bits_of(x), rounded = (u + 0x0fffu + (u >> 13 & 1u)) & 0xffffe000u;
    return float_of((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
}
}  // namespace tl
""",
    needs=(BIT_CASTS,),
)

_INTEGER_NAMES = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_INTEGERS = {name: CType(f"{name}_t", f"{name}_t") for name in _INTEGER_NAMES}

CPP_TYPES: dict[str, CType] = {
    "bool": CType("bool", "bool"),
    **_INTEGERS,
    "int4": CType("tl::int4", "int32_t", _NIBBLES),
    "uint4": CType("tl::uint4", "int32_t", _NIBBLES),
    "float16": CType("tl::float16", "float", _MINIFLOAT),
    "bfloat16": CType("tl::bfloat16", "float", _BFLOAT16),
    "float32": CType("float", "float"),
    "tfloat32": CType("float", "float"),
    "float64": CType("double", "double"),
    "float8_e4m3fn": CType("tl::float8_e4m3fn", "float", _MINIFLOAT),
    "float8_e5m2": CType("tl::float8_e5m2", "float", _MINIFLOAT),
    "float8_e4m3fnuz": CType("tl::float8_e4m3fnuz", "float", _MINIFLOAT),
    "float8_e5m2fnuz": CType("tl::float8_e5m2fnuz", "float", _MINIFLOAT),
    "float8_e3m4": CType("tl::float8_e3m4", "float", _MINIFLOAT),
    "float8_e4m3b11fnuz": CType("tl::float8_e4m3b11fnuz", "float", _MINIFLOAT),
    "float8_e8m0fnu": CType("tl::float8_e8m0fnu", "float", _E8M0),
    "float6_e2m3fn": CType("tl::float6_e2m3fn", "float", _MINIFLOAT),
    "float6_e3m2fn": CType("tl::float6_e3m2fn", "float", _MINIFLOAT),
    "float4_e2m1fn": CType("tl::float4_e2m1fn", "float", _MINIFLOAT),
    "float4_e2m1_unpacked": CType("tl::float4_e2m1fn", "float", _MINIFLOAT),
}


def cpp_type(dtype: DType) -> CType:
    """The C++ types of a scalar dtype.

    Raises:
        NoLowering: The dtype is a vector.
    """
    found = CPP_TYPES.get(str(dtype))
    if found is None:
        raise NoLowering(f"dtype {dtype!s}: has no C++ type", hint="use its lanes")
    return found


def conversion(source: DType, destination: DType) -> Template:
    """The text that casts a value from one dtype to another; its operand and value have the types of `cpp_type`.

    Integers wrap, floats round to nearest even, a float becomes an integer by truncation; a float that the integer
    cannot hold gives an unspecified integer.
    """
    result_type = cpp_type(destination)
    if source == destination:
        return Template("{0}")
    if destination == "tfloat32":
        return Template("tl::round_tf32((float)({0}))", _TF32)
    if destination.is_bool:
        return Template(f"(({cpp_type(source).value})({{0}}) != 0)")
    if destination == "float16" and (source == "float64" or source.is_int and source.bits > 16):
        return Template("tl::half_of_double((double)({0}))", _HALF_OF_DOUBLE)
    if destination.is_float and destination.bits < 32:
        wide = "(float)(double)" if source.is_int and source.bits > 16 else "(float)"
        return Template(f"{result_type.name}({wide}({{0}}))", result_type.helper)
    if destination.is_int and destination.bits < 8:
        return Template(f"{result_type.name}((int32_t)({{0}}))", result_type.helper)
    return Template(f"({result_type.name})({{0}})")
