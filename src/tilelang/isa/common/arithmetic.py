"""C++ functions for integer and float remainders, shared by all dialects.

`remainders` makes them for a dialect. Invariant: none of them traps or has undefined behaviour for any operands;
division by zero gives an integer 0.
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
