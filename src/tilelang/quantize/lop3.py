"""CUDA C++ that decodes eight packed values of 1, 2 or 4 bits to halves, two at a time, for `T.import_source`.

A field of at most 10 bits under the bits 0x6400 is the half 1024 + field, so one three-input logic instruction (`lop3`)
on a word converts two fields that are 16 bits apart. Words therefore are interleaved: value 2i lies in field i of the
lower half of the eight values, value 2i + 1 in field i of the upper half.

Source: IEEE 754-2019, 3.4, binary16: 10 bits of fraction, bias 15; PTX ISA, "lop3".
"""

from __future__ import annotations

from tilelang.api import public
from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramNotImplementedError, ProgramValueError
from tilelang.language.types import DTypeLike

# the bytes of eight values as a word whose fields are 16 bits apart, by bits of a value
_WORDS = {
    4: "bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (unsigned int)bytes[3] << 24",
    2: "bytes[0] | bytes[1] << 16",
    1: "(bytes[0] & 0xfu) | (bytes[0] & 0xf0u) << 12",
}
_ZEROS = {
    "original": "pair = __hmul2(__hsub2(pair, zero), factor);",
    "rescale": "pair = __hfma2(pair, factor, __hneg2(zero));",
    "quantized": "pair = __hmul2(__hsub2(pair, zero), factor);",
}


@public
def get_lop3_intrin_group(
    out_dtype: DTypeLike,
    source_format: str = "uint",
    source_bit: int = 4,
    storage_dtype: DTypeLike = "int8",
    with_scaling: bool = False,
    with_zeros: bool = False,
    zeros_mode: str = "original",
    storage_scope: str = "local",
) -> dict[str, str]:
    """A function of CUDA C++ that decodes eight packed values to halves.

    The function takes the address of the packed values, that of the results, with scaling that of a scale, with zero
    points that of a zero point, and the number of values: `decode(packed, decoded, scale, zeros, N)`. Signed values are
    stored with half of their range added; of one bit, 0 stands for -1.

    Args:
        out_dtype: "float16".
        source_format: "uint" or "int".
        source_bit: Bits of a value: 1, 2 or 4.
        storage_dtype: Of the packed values, "int8", "uint8", "int32" or "uint32"; the text is the same.
        with_scaling: Multiply with a scale.
        with_zeros: Also subtract a zero point, of unsigned values.
        zeros_mode: "original" is (value - zero) * scale, "rescale" is value * scale - zero, "quantized" is as
            "original" with a zero point that is an integer.
        storage_scope: "local": the packed values are the thread's own.

    Returns:
        The name as "func_name" and the text as "c_source".

    Raises:
        ValueError: An unknown format or mode, or zero points of signed values.
        NotImplementedError: Other results than halves, values of other sizes, or another scope.

    Example:
        `T.import_source(group["c_source"]); T.call_extern("handle", group["func_name"], packed.data, halves.data)`
    """
    what = "get_lop3_intrin_group"
    as_dtype(storage_dtype)
    signed = str(source_format) in ("int", "int32")
    if not signed and str(source_format) not in ("uint", "uint32"):
        raise ProgramValueError(f"{what}: unknown source_format {source_format!r}", hint="write 'int' or 'uint'")
    if zeros_mode not in _ZEROS:
        raise ProgramValueError(f"{what}: unknown zeros_mode {zeros_mode!r}", hint=f"write {' or '.join(_ZEROS)}")
    if with_zeros and (signed or not with_scaling):
        raise ProgramValueError(f"{what}: zero points are for unsigned values with a scale")
    if as_dtype(out_dtype) != "float16" or source_bit not in _WORDS or storage_scope != "local":
        raise ProgramNotImplementedError(
            f"{what}: values of {source_bit} bits in scope {storage_scope!r} to {as_dtype(out_dtype)!s}",
            hint="there are decoders of 1, 2 and 4 bits to float16; tilelang.quantize has expressions for all dtypes",
        )
    suffix = (f"_scale_zeros_{zeros_mode}" if with_zeros else "_scale") if with_scaling else ""
    name = f"decode_i{source_bit}{'s' if signed else 'u'}_to_f16{suffix}"
    text = _text(name, source_bit, signed, with_scaling, zeros_mode if with_zeros else "")
    return {"func_name": name, "c_source": text}


def _half_at(pointer: str) -> str:
    """The half at an address, whatever its type is called."""
    return f"__ushort_as_half(*reinterpret_cast<const unsigned short*>({pointer}))"


def _text(name: str, bits: int, signed: bool, scaled: bool, zeros_mode: str) -> str:
    types = ["typename Packed", "typename Decoded"]
    parameters = ["const Packed* packed", "Decoded* decoded"]
    steps = []
    offset = 1 << (bits - 1) if signed and bits > 1 else 0
    steps.append(f"pair = __hsub2(pair, __half2half2(__ushort_as_half(0x{0x6400 | offset:x})));")
    if signed and bits == 1:
        steps.append("pair = __hsub2(__hadd2(pair, pair), __half2half2(__ushort_as_half(0x3c00)));")
    if scaled:
        types.append("typename Scale")
        parameters.append("const Scale* scale")
        steps.append(f"const __half2 factor = __half2half2({_half_at('scale')});")
        if zeros_mode:
            zero = "__int2half_rn((int)*zeros)" if zeros_mode == "quantized" else _half_at("zeros")
            steps.append(f"const __half2 zero = __half2half2({zero});")
        steps.append(_ZEROS[zeros_mode] if zeros_mode else "pair = __hmul2(pair, factor);")
    if zeros_mode:
        types.append("typename Zero")
        parameters.append("const Zero* zeros")
    mask = (1 << bits) - 1
    body = "\n            ".join(steps)
    return f"""\
template <{", ".join(types)}>
__device__ inline void {name}({", ".join(parameters)}, const int N = 8) {{
    #pragma unroll
    for (int group = 0; group < N / 8; ++group) {{
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(packed) + group * {bits};
        const unsigned int word = {_WORDS[bits]};
        #pragma unroll
        for (int i = 0; i < 4; ++i) {{
            const unsigned int halves = (word >> ({bits} * i) & 0x{mask << 16 | mask:x}u) | 0x64006400u;
            __half2 pair = __halves2half2(__ushort_as_half(halves & 0xffff), __ushort_as_half(halves >> 16));
            {body}
            unsigned short* place = reinterpret_cast<unsigned short*>(decoded) + 8 * group + 2 * i;
            place[0] = __half_as_ushort(__low2half(pair));
            place[1] = __half_as_ushort(__high2half(pair));
        }}
    }}
}}
"""
