"""HIP types of every dtype: in memory, and in arithmetic.

Gives `hip_type`, and `PRELUDE`, which defines the keywords of HIP and the integer types, so that no text needs a
header. Invariant: a narrow float is a struct that converts to float; its explicit constructor rounds once, to nearest,
ties to even, as ml_dtypes does. A short vector is a vector of words of its size, which one access moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.c_type import CType
from tilelang.isa.common.convert import CPP_TYPES
from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.isa.device_text import for_device
from tilelang.targets.gpu.isa.c_types import BITS_TEXT, CTypes

# hiprtc predefines these keywords, other compilers do not; some versions have other types of 64 bits
PRELUDE = """\
#ifdef __HIPCC_RTC__
#define int64_t tl_int64_t
#define uint64_t tl_uint64_t
#else
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#endif
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
"""

BITS = Helper("tl_bits", BITS_TEXT)

# The sum or product of two halves is rounded once; it must not be contracted with another one, which would not round it
_HALF = Helper(
    "half_t",
    """\
struct half_t {
    _Float16 number;
    half_t() = default;
    __device__ __forceinline__ explicit half_t(float x) : number((_Float16)x) {}
    __device__ __forceinline__ operator float() const { return (float)number; }
    static __device__ __forceinline__ float rounded(float x) { return (float)(_Float16)x; }
};
"""
    + "".join(
        f"""\
__device__ __forceinline__ half_t operator{sign}(half_t a, half_t b) {{
#pragma clang fp contract(off)
    a.number = a.number {sign} b.number;
    return a;
}}
"""
        for sign in "+-*"
    ),
)

_BFLOAT16 = Helper(
    "bfloat16_t",
    """\
struct bfloat16_t {  // the upper half of a float
    uint16_t bits;
    bfloat16_t() = default;
    __device__ __forceinline__ explicit bfloat16_t(float x) {
#if defined(__gfx950__)
        bits = tl_bits<uint16_t>((__bf16)x);
#else
        const uint32_t u = tl_bits<uint32_t>(x);
        bits = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 & 0x8000u) | 0x7fc0u
                                                          : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
#endif
    }
    __device__ __forceinline__ operator float() const { return tl_bits<float>((uint32_t)bits << 16); }
    static __device__ __forceinline__ float rounded(float x) { return (float)bfloat16_t(x); }
};
""",
    needs=(BITS,),
)

# Elements that the machine converts to float in one instruction.
# Source: LLVM, BuiltinsAMDGPU.def, `cvt_f32_fp8`, `cvt_f32_bf8`; the kind of float8 is the architecture's
_HARDWARE_FLOAT8 = """\
struct {name} : {base} {{
    {name}() = default;
    __device__ __forceinline__ explicit {name}(float x) : {base}(x) {{}}
    __device__ __forceinline__ operator float() const {{
#if {machines}
        return __builtin_amdgcn_cvt_f32_{kind}(bits, 0);
#else
        return (float)({base} const&)*this;
#endif
    }}
    static __device__ __forceinline__ float rounded(float x) {{ return (float){name}(x); }}
}};
"""
_FNUZ, _OCP = "defined(__gfx942__)", "defined(__gfx950__) || defined(__GFX12__)"


def _hardware_float8(dtype: str, kind: str, machines: str) -> CType:
    base, name = CPP_TYPES[dtype], f"{dtype}_t"
    text = _HARDWARE_FLOAT8.format(name=name, base=base.name, kind=kind, machines=machines)
    assert base.helper is not None
    return CType(name, "float", Helper(name, text, needs=(for_device(base.helper),)))


_WORDS = Helper(
    "tl_words",
    """\
// Short vectors of one access, whatever their elements are, and wider ones in 16-byte pieces.
typedef uint32_t uint32x2_t __attribute__((ext_vector_type(2), may_alias));
typedef uint32_t uint32x4_t __attribute__((ext_vector_type(4), may_alias));
template <int N> struct __attribute__((aligned(16))) tl_words { uint32x4_t part[N]; };
""",
)


def _shared(dtype: str) -> CType:
    """The type of a dtype that is the same in C++, CUDA and HIP."""
    found = CPP_TYPES[dtype]
    return CType(found.name, found.value, None if found.helper is None else for_device(found.helper))


HIP_TYPES: Mapping[str, CType] = MappingProxyType(
    {
        **{name: _shared(name) for name in CPP_TYPES},
        "float16": CType("half_t", "float", _HALF),
        "bfloat16": CType("bfloat16_t", "float", _BFLOAT16),
        "float8_e4m3fn": _hardware_float8("float8_e4m3fn", "fp8", _OCP),
        "float8_e5m2": _hardware_float8("float8_e5m2", "bf8", _OCP),
        "float8_e4m3fnuz": _hardware_float8("float8_e4m3fnuz", "fp8", _FNUZ),
        "float8_e5m2fnuz": _hardware_float8("float8_e5m2fnuz", "bf8", _FNUZ),
    }
)

_TYPES = CTypes(
    "HIP",
    HIP_TYPES,
    {
        **{size: CType(f"uint{8 * size}_t", f"uint{8 * size}_t") for size in (1, 2, 4)},
        **{4 * count: CType(f"uint32x{count}_t", f"uint32x{count}_t", _WORDS) for count in (2, 4)},
    },
    _WORDS,
)
hip_type = _TYPES.of
