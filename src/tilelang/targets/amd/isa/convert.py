"""Conversions between all dtypes as HIP text, bit for bit those of `ir.scalar.convert` and ml_dtypes.

Takes two dtypes, gives the text of a cast. Invariant: integers wrap, floats round once to nearest even, a float
becomes an integer by truncation.
"""

from __future__ import annotations

from tilelang.dtypes import DType, lane_dtype
from tilelang.errors import NoLowering
from tilelang.isa.intrinsic import Helper, Template, needed
from tilelang.targets.amd.isa.types import BITS, hip_type

# A half straight from a wide number: a detour through float would round twice. That of integers is exact where a half
# is finite.
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


def conversion(source: DType, destination: DType) -> Template:
    """The text that casts a value from one dtype to another; its operand and value have the types of `hip_type`.

    The operand may also be a value of the source's value type. Short vectors are cast lane by lane. A float that an
    integer cannot hold gives an unspecified integer.

    Raises:
        NoLowering: The dtypes have different numbers of lanes.
    """
    if source.lanes != destination.lanes:
        raise NoLowering(f"cast: {source!s} and {destination!s} have different numbers of lanes")
    if source == destination:
        return Template("{0}")
    if source.lanes > 1:
        return Template(f"{_lanes_name(source, destination)}({{0}})", _lanes_helper(source, destination))
    return _scalar(source, destination)


def _fits_tf32(source: DType) -> bool:
    """Whether tf32 has every value of a dtype: 8 bits of exponent, 10 of fraction."""
    return source.bits <= 16 if source.is_float else source.bits <= 8


def _scalar(source: DType, destination: DType) -> Template:
    result_type, source_type = hip_type(destination), hip_type(source)
    if destination == "tfloat32":
        return Template("(float)({0})") if _fits_tf32(source) else Template("tl_round_tf32((float)({0}))", _TF32)
    if destination.is_bool:
        return Template(f"(({source_type.value})({{0}}) != 0)", source_type.helper)
    if destination == "float16" and source == "float64":
        return Template("tl_half_of({0})", _HALF_OF_DOUBLE)
    if destination.is_float and destination.bits < 32:
        wide = "(float)(double)" if source.is_int and source.bits == 64 else "(float)"  # as the reference rounds
        return Template(f"{result_type.name}({wide}({{0}}))", result_type.helper)
    if destination.is_int and destination.bits < 8:
        return Template(f"{result_type.name}((int32_t)({{0}}))", result_type.helper)
    return Template(f"({result_type.name})({{0}})", result_type.helper)


def _lanes_name(source: DType, destination: DType) -> str:
    return f"tl_{source!s}_to_{destination!s}"


def _lanes_helper(source: DType, destination: DType) -> Helper:
    """The function that casts a short vector lane by lane; compilers pair neighbors where an instruction does."""
    source_type, result_type = hip_type(source), hip_type(destination)
    lane, cast = lane_dtype(source), lane_dtype(destination)
    single = conversion(lane, cast)
    text = f"""\
__device__ __forceinline__ {result_type.name} {_lanes_name(source, destination)}({source_type.name} x) {{
    union {{ {source_type.name} all; {hip_type(lane).name} lane[{source.lanes}]; }} from;
    union {{ {result_type.name} all; {hip_type(cast).name} lane[{source.lanes}]; }} to;
    from.all = x;
#pragma unroll
    for (int i = 0; i < {source.lanes}; ++i) to.lane[i] = {single.format("from.lane[i]")};
    return to.all;
}}
"""
    needs = needed(source_type.helper, result_type.helper, hip_type(lane).helper, hip_type(cast).helper, single.helper)
    return Helper(_lanes_name(source, destination), text, needs=needs)
