"""HIP helpers for operators whose meaning in C++ differs from that of the language.

Gives `HELPERS` by name, the same names that the texts for other targets have. Invariant: none of them traps or is
undefined for any operands; integer division by zero gives 0, shifts by the width and more leave zeros or copies of the
sign, NaN in either operand of a minimum or maximum gives NaN, or is dropped where the language says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.common.arithmetic import divisions_and_shifts, remainders
from tilelang.isa.common.vectors import vectors
from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.isa.remainder import FMOD
from tilelang.targets.amd.isa.types import BITS

FUNCTION = "__device__ __forceinline__"

_EXTREME = """\
// {comment}; NaN if either is NaN.
template <typename T> {function} T tl_{kind}(T a, T b) {{ return a {less} b ? a : b; }}
template <> {function} float tl_{kind}(float a, float b) {{
#if __has_builtin(__builtin_elementwise_{builtin})
    return __builtin_elementwise_{builtin}(a, b);
#else
    return a {less} b || a != a ? a : b;
#endif
}}
template <> {function} double tl_{kind}(double a, double b) {{ return a {less} b || a != a ? a : b; }}
"""


def _extreme(kind: str, builtin: str, comment: str, less: str) -> Helper:
    text = _EXTREME.format(kind=kind, builtin=builtin, comment=comment, less=less, function=FUNCTION)
    return Helper(f"tl_{kind}", text)


def _of_numbers(kind: str, comment: str) -> Helper:
    text = f"""\
// {comment}; the other one if one is NaN.
{FUNCTION} float tl_f{kind}(float a, float b) {{ return __builtin_f{kind}f(a, b); }}
{FUNCTION} double tl_f{kind}(double a, double b) {{ return __builtin_f{kind}(a, b); }}
"""
    return Helper(f"tl_f{kind}", text)


_TRUNCMOD, _FLOORMOD, *_ON_FLOATS = remainders(FUNCTION, "tl::")
_FLOAT_FLOORMOD, _FLOAT_FLOORDIV = (dataclasses.replace(each, needs=(*each.needs, FMOD)) for each in _ON_FLOATS)
_TRUNCDIV, _FLOORDIV, _SHL, _SHR = divisions_and_shifts(FUNCTION, _TRUNCMOD)

HELPERS: Mapping[str, Helper] = MappingProxyType(
    {
        helper.name: helper
        for helper in (
            _extreme("max", "maximum", "The larger value", ">"),
            _extreme("min", "minimum", "The smaller value", "<"),
            _of_numbers("max", "The larger value"),
            _of_numbers("min", "The smaller value"),
            _TRUNCDIV,
            _TRUNCMOD,
            _FLOORDIV,
            _FLOORMOD,
            _FLOAT_FLOORMOD,
            _FLOAT_FLOORDIV,
            _SHL,
            _SHR,
            *vectors(FUNCTION),
            BITS,
        )
    }
)
