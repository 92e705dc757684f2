"""Conversions between dtypes as CUDA text: what they have of their own; see `targets.gpu.isa.conversions`.

Architectures that have an instruction use it where it means exactly what the language does.
"""

from __future__ import annotations

from tilelang.dtypes import SCALARS, DType
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.gpu.isa.conversions import Conversions, PairCast
from tilelang.targets.nvidia.isa.types import BITS, cuda_type


def _helpers(*names: str) -> tuple[Helper, ...]:
    return tuple(helper for name in names if (helper := cuda_type(SCALARS[name]).helper) is not None)


# Directly to half: by way of float, it would round twice.
_HALF_OF = Helper(
    "tl_half_of",
    """\
__device__ __forceinline__ half_t tl_half_of(double x) {
    half_t y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}
__device__ __forceinline__ half_t tl_half_of(int32_t x) {
    half_t y;
    asm("cvt.rn.f16.s32 %0, %1;" : "=h"(y.bits) : "r"(x));
    return y;
}
__device__ __forceinline__ half_t tl_half_of(uint32_t x) {
    half_t y;
    asm("cvt.rn.f16.u32 %0, %1;" : "=h"(y.bits) : "r"(x));
    return y;
}
__device__ __forceinline__ half_t tl_half_of(int64_t x) {
    half_t y;
    asm("cvt.rn.f16.s64 %0, %1;" : "=h"(y.bits) : "l"(x));
    return y;
}
__device__ __forceinline__ half_t tl_half_of(uint64_t x) {
    half_t y;
    asm("cvt.rn.f16.u64 %0, %1;" : "=h"(y.bits) : "l"(x));
    return y;
}
""",
    needs=_helpers("float16"),
)

# A byte as the last bits of the fraction of 1024 has the value 1024 + byte: an addition instead of two conversions,
# which take two to four times as long. Source: CUDA C++ Programming Guide, "Arithmetic Instructions", throughput.
_HALF_OF_BYTE = Helper(
    "tl_half_of_byte",
    """\
__device__ __forceinline__ half_t tl_half_of_byte(uint8_t x) {
    half_t y, base;
    y.bits = uint16_t(0x6400 | x), base.bits = 0x6400;  // 1024
    return y - base;
}
__device__ __forceinline__ half_t tl_half_of_byte(int8_t x) {
    half_t y, base;
    y.bits = uint16_t(0x6400 | ((uint8_t)x ^ 0x80)), base.bits = 0x6480;  // 1024 + 128
    return y - base;
}
""",
    needs=_helpers("float16"),
)

_TF32 = Helper(
    "tl_round_tf32",
    """\
// To the 10 bits of fraction that tf32 has, ties to even.
__device__ __forceinline__ float tl_round_tf32(float x) {
#if __CUDA_ARCH__ >= 900
    uint32_t y;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return tl_bits<float>(y);
#else
    const uint32_t u = tl_bits<uint32_t>(x), rounded = (u + 0x0fffu + (u >> 13 & 1u)) & 0xffffe000u;
    return tl_bits<float>((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
#endif
}
""",
    needs=(BITS,),
)


def _to_half(source: DType) -> Template | None:
    """The cast to float16 of wide numbers, directly, and of bytes."""
    kind = cuda_type(source)
    if source == "float64" or source.is_int and source.bits >= 32:
        return Template(f"tl_half_of(({kind.value})({{0}}))", _HALF_OF)
    if source.is_int and source.bits == 8:
        return Template(f"tl_half_of_byte(({kind.name})({{0}}))", _HALF_OF_BYTE)
    return None


def _pair_of_16_bits(name: str, dtype: str, ptx: str) -> Helper:
    """Makes a pair of two floats. The first source operand of a packed cvt becomes the upper half.

    Source: PTX ISA, "Data Movement and Conversion Instructions: cvt", "Semantics".
    """
    kind = cuda_type(SCALARS[dtype]).name
    text = f"""\
__device__ __forceinline__ uint32_t {name}(float low, float high) {{
#if __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.{ptx}.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return {kind}(low).bits | (uint32_t){kind}(high).bits << 16;
#endif
}}
"""
    return Helper(name, text, needs=_helpers(dtype))


_HALF_PAIR = _pair_of_16_bits("tl_half_pair", "float16", "f16x2")
_BFLOAT16_PAIR = _pair_of_16_bits("tl_bfloat16_pair", "bfloat16", "bf16x2")
_E4M3_PAIR = Helper(
    "tl_float8_e4m3_pair",
    """\
__device__ __forceinline__ uint16_t tl_float8_e4m3_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    low = fabsf(low) <= 464.0f ? low : tl_bits<float>(0x7fc00000u);
    high = fabsf(high) <= 464.0f ? high : tl_bits<float>(0x7fc00000u);
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint16_t)(float8_e4m3_t(low).bits | float8_e4m3_t(high).bits << 8);
#endif
}
""",
    needs=_helpers("float8_e4m3fn"),
)
_E5M2_PAIR = Helper(
    "tl_float8_e5m2_pair",
    """\
__device__ __forceinline__ uint16_t tl_float8_e5m2_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    if (fabsf(low) >= 61440.0f) pair = (uint16_t)((pair & 0xff80u) | 0x007cu);
    if (fabsf(high) >= 61440.0f) pair = (uint16_t)((pair & 0x80ffu) | 0x7c00u);
    return pair;
#else
    return (uint16_t)(float8_e5m2_t(low).bits | float8_e5m2_t(high).bits << 8);
#endif
}
""",
    needs=_helpers("float8_e5m2"),
)
_ENCODED = {
    "float16": ("tl_half_pair", "uint32_t", _HALF_PAIR),
    "bfloat16": ("tl_bfloat16_pair", "uint32_t", _BFLOAT16_PAIR),
    "float8_e4m3fn": ("tl_float8_e4m3_pair", "uint16_t", _E4M3_PAIR),
    "float8_e5m2": ("tl_float8_e5m2_pair", "uint16_t", _E5M2_PAIR),
}

# Both kinds of float8 become halves without loss.
_HALVES_OF_E4M3 = Helper(
    "tl_halves_of_e4m3",
    """\
__device__ __forceinline__ uint32_t tl_halves_of_e4m3(uint16_t pair) {
#if __CUDA_ARCH__ >= 890
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
#else
    const half_t low(tl_decode_e4m3((uint8_t)pair)), high(tl_decode_e4m3((uint8_t)(pair >> 8)));
    return low.bits | (uint32_t)high.bits << 16;
#endif
}
""",
    needs=_helpers("float8_e4m3fn", "float16"),
)
_HALVES_OF_E5M2 = Helper(
    "tl_halves_of_e5m2",
    """\
__device__ __forceinline__ uint32_t tl_halves_of_e5m2(uint16_t pair) {
    return (uint32_t)(pair & 0xff00u) << 16 | (uint32_t)(pair & 0x00ffu) << 8;
}
""",
    needs=_helpers("float8_e5m2", "float16"),
)
_DECODED = {
    "float8_e4m3fn": ("tl_halves_of_e4m3", _HALVES_OF_E4M3),
    "float8_e5m2": ("tl_halves_of_e5m2", _HALVES_OF_E5M2),
}


def _pair(source: DType, destination: DType) -> PairCast | None:
    """Return the text that casts two lanes at once; None where nothing does."""
    if str(source) in _DECODED and destination in ("float16", "float32"):
        name, helper = _DECODED[str(source)]
        if destination == "float16":
            return PairCast((helper,), f"to.pair[i] = {name}(from.pair[i]);", ("uint16_t", "uint32_t"))
        text = (
            f"{{\n        half_t half;\n        const uint32_t halves = {name}(from.pair[i]);\n"
            "        half.bits = (uint16_t)halves;\n        to.lane[2 * i] = (float)half;\n"
            "        half.bits = (uint16_t)(halves >> 16);\n        to.lane[2 * i + 1] = (float)half;\n    }"
        )
        return PairCast((helper,), text, ("uint16_t", ""))
    through_float = source.is_float and source != "float64" or source.is_int and source.bits <= 16
    if through_float and str(destination) in _ENCODED:
        name, view, helper = _ENCODED[str(destination)]
        values = ", ".join(f"(float)from.lane[{index}]" for index in ("2 * i", "2 * i + 1"))
        return PairCast((helper,), f"to.pair[i] = {name}({values});", ("", view))
    return None


CONVERSIONS = Conversions(cuda_type, _TF32, _to_half, _pair)


def casts_pairs(source: DType, destination: DType) -> bool:
    """Whether two casts are one instruction."""
    return source.lanes == 1 and _pair(source, destination) is not None
