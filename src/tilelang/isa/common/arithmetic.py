"""C++ functions for integer and float division and for shifts, shared by dialects.

`remainders` makes those of all dialects, `divisions_and_shifts` those that CUDA and HIP have in common. Invariant: none
of them traps or has undefined behavior for any operands; division by zero gives an integer 0, shifts by the width and
more leave zeros or copies of the sign.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper

_TRUNCMOD = """\
// Remainder with the sign of the dividend; 0 if the divisor is 0.
template <typename T> {function} T tl_truncmod(T a, T b) {{
    return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}}
"""
_FLOORMOD = """\
// Remainder with the sign of the divisor; 0 if an integer divisor is 0.
template <typename T> {function} T tl_floormod(T a, T b) {{
    const T rest = tl_truncmod<T>(a, b);
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
}}
"""
_FLOAT_FLOORMOD = """\
// Remainder with the sign of the divisor.
template <typename T> {function} T tl_floormod_float(T a, T b) {{
    const T rest = {library}fmod(a, b);
    if (b == T(0)) return rest;
    if (rest == T(0)) return {library}copysign(T(0), b);
    return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}}
"""
_FLOAT_FLOORDIV = """\
// Quotient rounded down, exact where a / b would round up across an integer.
template <typename T> {function} T tl_floordiv_float(T a, T b) {{
    if (b == T(0)) return a / b;
    const T rest = {library}fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
    if (quotient == T(0)) return {library}copysign(T(0), a / b);
    const T down = {library}floor(quotient);
    return quotient - down > T(0.5) ? down + T(1) : down;
}}
"""
_TRUNCDIV = """\
// Division rounded towards zero; 0 if the divisor is 0. The least integer by -1 wraps.
template <typename T> {function} T tl_truncdiv(T a, T b) {{
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(T(0) - a);
    return T(a / b);
}}
template <> {function} int32_t tl_truncdiv(int32_t a, int32_t b) {{
    return b == 0 ? 0 : b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b;
}}
template <> {function} int64_t tl_truncdiv(int64_t a, int64_t b) {{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0ull - (uint64_t)a) : a / b;
}}
"""
_FLOORDIV = """\
// Division rounded down; 0 if an integer divisor is 0.
template <typename T> {function} T tl_floordiv(T a, T b) {{
    const T quotient = tl_truncdiv<T>(a, b);
    return tl_truncmod<T>(a, b) != T(0) && (a < T(0)) != (b < T(0)) ? T(quotient - T(1)) : quotient;
}}
"""
_SHL = """\
// Left shift; 0 if the amount is not below the width.
template <typename T> {function} T tl_shl(T a, T n) {{
    return n >= T(0) && n < T(8 * sizeof(T)) ? T(uint64_t(a) << n) : T(0);
}}
"""
_SHR = """\
// Right shift that keeps the sign; all sign bits if the amount is not below the width.
template <typename T> {function} T tl_shr(T a, T n) {{
    return n >= T(0) && n < T(8 * sizeof(T)) ? T(a >> n) : a < T(0) ? T(-1) : T(0);
}}
"""


def remainders(
    function: str, library: str = "", headers: tuple[str, ...] = ()
) -> tuple[Helper, Helper, Helper, Helper]:
    """`tl_truncmod`, `tl_floormod`, `tl_floormod_float` and `tl_floordiv_float` in a dialect of C++.

    Args:
        function: Qualifiers of functions, such as "static inline".
        library: Prefix of the mathematical functions.
        headers: The headers that declare them.
    """

    def text(template: str) -> str:
        return template.format(function=function, library=library)

    truncmod = Helper("tl_truncmod", text(_TRUNCMOD))
    return (
        truncmod,
        Helper("tl_floormod", text(_FLOORMOD), needs=(truncmod,)),
        Helper("tl_floormod_float", text(_FLOAT_FLOORMOD), headers=headers),
        Helper("tl_floordiv_float", text(_FLOAT_FLOORDIV), headers=headers),
    )


def divisions_and_shifts(
    function: str, truncmod: Helper, needs: tuple[Helper, ...] = ()
) -> tuple[Helper, Helper, Helper, Helper]:
    """`tl_truncdiv`, `tl_floordiv`, `tl_shl` and `tl_shr` of integers, in dialects of GPUs.

    Args:
        function: Qualifiers of functions.
        truncmod: The first of `remainders`.
        needs: What defines the integer types.
    """
    truncdiv = Helper("tl_truncdiv", _TRUNCDIV.format(function=function), needs=needs)
    return (
        truncdiv,
        Helper("tl_floordiv", _FLOORDIV.format(function=function), needs=(truncdiv, truncmod)),
        Helper("tl_shl", _SHL.format(function=function), needs=needs),
        Helper("tl_shr", _SHR.format(function=function), needs=needs),
    )
