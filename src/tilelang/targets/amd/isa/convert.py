"""Conversions between dtypes as HIP text: what they have of their own; see `targets.gpu.isa.conversions`."""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.isa.intrinsic import Helper, Template, needed
from tilelang.targets.amd.isa.types import BITS, hip_type
from tilelang.targets.gpu.isa.conversions import Conversions

# Directly to half: by way of float, it would round twice. Integers are exact in float where a half is finite.
_HALF_OF_DOUBLE = Helper(
    "tl_half_of",
    """\
__device__ __forceinline__ half_t tl_half_of(double x) {
    half_t y;
    y.number = (_Float16)x;
    return y;
}
""",
    needs=needed(hip_type(DType("float16")).helper),
)

_TF32 = Helper(
    "tl_round_tf32",
    """\
// To the 10 bits of fraction that tf32 has, ties to even.
__device__ __forceinline__ float tl_round_tf32(float x) {
    const uint32_t u = tl_bits<uint32_t>(x), rounded = (u + 0x0fffu + (u >> 13 & 1u)) & 0xffffe000u;
    return tl_bits<float>((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
}
""",
    needs=(BITS,),
)


def _to_half(source: DType) -> Template | None:
    return Template("tl_half_of({0})", _HALF_OF_DOUBLE) if source == "float64" else None


CONVERSIONS = Conversions(hip_type, _TF32, _to_half)
