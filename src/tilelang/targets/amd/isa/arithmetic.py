"""HIP helpers for operators whose meaning in C++ differs from that of the language.

Gives `HELPERS` by name, the same names that the texts for other targets have. Invariant: none of them traps or is
undefined for any operands; integer division by zero gives 0, shifts by the width and more leave zeros or copies of the
sign, NaN in either operand of a minimum or maximum gives NaN, or is dropped where the language says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.common.arithmetic import remainders
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


_TRUNCDIV = Helper(
    "tl_truncdiv",
    f"""\
// Division rounded towards zero; 0 if the divisor is 0. The least integer by -1 wraps.
template <typename T> {FUNCTION} T tl_truncdiv(T a, T b) {{
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(T(0) - a);
    return T(a / b);
}}
template <> {FUNCTION} int32_t tl_truncdiv(int32_t a, int32_t b) {{
    return b == 0 ? 0 : b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b;
}}
template <> {FUNCTION} int64_t tl_truncdiv(int64_t a, int64_t b) {{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0ull - (uint64_t)a) : a / b;
}}
""",
)
_TRUNCMOD, _FLOORMOD, *_ON_FLOATS = remainders(FUNCTION, "tl::")
_FLOAT_FLOORMOD, _FLOAT_FLOORDIV = (dataclasses.replace(each, needs=(*each.needs, FMOD)) for each in _ON_FLOATS)
_FLOORDIV = Helper(
    "tl_floordiv",
    f"""\
// Division rounded down; 0 if an integer divisor is 0.
template <typename T> {FUNCTION} T tl_floordiv(T a, T b) {{
    const T quotient = tl_truncdiv<T>(a, b);
    return tl_truncmod<T>(a, b) != T(0) && (a < T(0)) != (b < T(0)) ? T(quotient - T(1)) : quotient;
}}
""",
    needs=(_TRUNCDIV, _TRUNCMOD),
)
_SHL = Helper(
    "tl_shl",
    f"""\
// Left shift; 0 if the amount is not below the width.
template <typename T> {FUNCTION} T tl_shl(T a, T n) {{
    return n >= T(0) && n < T(8 * sizeof(T)) ? T(uint64_t(a) << n) : T(0);
}}
""",
)
_SHR = Helper(
    "tl_shr",
    f"""\
// Right shift that keeps the sign; all sign bits if the amount is not below the width.
template <typename T> {FUNCTION} T tl_shr(T a, T n) {{
    return n >= T(0) && n < T(8 * sizeof(T)) ? T(a >> n) : a < T(0) ? T(-1) : T(0);
}}
""",
)

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
