"""Small CUDA functions that give the language's meaning to operators which CUDA defines otherwise.

Gives `HELPERS` by name, the same names that the CPU's text has. Invariant: none of them traps or is undefined for any
operands; integer division by zero gives 0, shifts by the width and more leave zeros or copies of the sign, NaN in
either operand of a minimum or maximum gives NaN, or is dropped where the language says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.isa.common.arithmetic import divisions_and_shifts, remainders
from tilelang.isa.common.vectors import vectors
from tilelang.isa.intrinsic import Helper
from tilelang.targets.nvidia.isa.types import BITS, INTEGERS

_MIN_MAX = """\
template <typename T> __device__ __forceinline__ T {name}(T a, T b) {{ return a {less} b ? a : b; }}
template <> __device__ __forceinline__ float {name}(float a, float b) {{
#if __CUDA_ARCH__ >= 800
    float c;
    asm("{instruction}.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#else
    return a {less} b || a != a ? a : b;
#endif
}}
template <> __device__ __forceinline__ double {name}(double a, double b) {{ return a {less} b || a != a ? a : b; }}
"""


def _min_max(kind: str, comment: str, less: str) -> Helper:
    text = _MIN_MAX.format(name=f"tl_{kind}", less=less, instruction=kind)
    return Helper(f"tl_{kind}", f"// {comment}; NaN if either is NaN.\n{text}")


# Source: PTX ISA, "Floating Point Instructions: min", "max"; .NaN needs sm_80
_MAX = _min_max("max", "The larger value", ">")
_MIN = _min_max("min", "The smaller value", "<")
# Source: PTX ISA, "Floating Point Instructions: min", "max"; without .NaN a NaN operand is dropped
_FMAX, _FMIN = (
    Helper(
        f"tl_f{kind}",
        f"""\
// {comment}; the other one if one is NaN.
__device__ __forceinline__ float tl_f{kind}(float a, float b) {{ return f{kind}f(a, b); }}
__device__ __forceinline__ double tl_f{kind}(double a, double b) {{ return f{kind}(a, b); }}
""",
    )
    for kind, comment in (("max", "The larger value"), ("min", "The smaller value"))
)
_TRUNCMOD, _FLOORMOD, _FLOAT_FLOORMOD, _FLOAT_FLOORDIV = remainders("__device__ __forceinline__")
_TRUNCDIV, _FLOORDIV, _SHL, _SHR = divisions_and_shifts("__device__ __forceinline__", _TRUNCMOD, (INTEGERS,))

CHOOSE = Helper(
    "tl_choose",
    """\
// One of two values, both of which are computed: branches around single elements would keep products from overlapping.
__device__ __forceinline__ float tl_choose(bool condition, float a, float b) { return condition ? a : b; }
""",
)
"""NVVM branches around inline PTX and around more than a few instructions, and ptxas then ends products of warpgroups
before each other, since the registers of accumulators merge after branches (advice C7511 of ptxas 13.0)."""

DIVIDE = Helper(
    "tl_divide",
    """\
// The quotient, as / gives it, for many that have the divisor in common: the steps of / for each end in a branch.
__device__ __forceinline__ float tl_divide(float a, float b) {
#if __CUDA_PREC_DIV && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
    const double y = b;
    const double r = __nvvm_rcp_approx_ftz_d(y);  // unlike inline PTX, computed once for all
    double inverse = fma(r, fma(-y, r, 1.0), r);
    inverse = fma(inverse, fma(-y, inverse, 1.0), inverse);
    const double q = a * (inverse == inverse ? inverse : r);  // it is NaN for 0 and infinity
    return (float)__longlong_as_double((__double_as_longlong(q) + 4) & ~7LL);  // off by two units at most
#else
    return a / b;
#endif
}
""",
)
"""ptxas takes as long for the branches of 64 divisions at the end of attention as for all else: each ends a block of
straight code in which accumulators live. On an H200, attention takes .92 to 1.00 of the time without them, decoding and
conversions to float8 with scales .88.

`rcp.approx.ftz.f64` is right to 20 bits, two steps of Newton give 53, and the product is off by at most two units in
the last place. It is rounded to 50 bits before 24: a quotient of floats that is no float, nor halfway between two, is
off from halfway by more than 2**-49 of it, so this decides nothing; and one that has 25 bits at most, as those halfway
between subnormal floats, becomes exact.
"""
# Source: PTX ISA, "Floating Point Instructions: rcp.approx.ftz.f64"; CUDA C++ Programming Guide, "Arithmetic
# Instructions", for the rates of doubles

_PACK, _LANE = vectors("__device__ __forceinline__")

HELPERS: Mapping[str, Helper] = MappingProxyType(
    {
        helper.name: helper
        for helper in (
            _MAX,
            _MIN,
            _FMAX,
            _FMIN,
            _TRUNCDIV,
            _TRUNCMOD,
            _FLOORDIV,
            _FLOORMOD,
            _FLOAT_FLOORMOD,
            _FLOAT_FLOORDIV,
            _SHL,
            _SHR,
            _PACK,
            _LANE,
            BITS,
        )
    }
)
