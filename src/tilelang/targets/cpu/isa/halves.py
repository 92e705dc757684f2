"""Conversions of arrays of float16, by F16C or AVX-512 instructions if available.

Compilers do not vectorize loops that convert single float16 values (g++ before 14), and integer arithmetic takes about
ten instructions per vector. Invariant: values are those of `tl::float16`, rounded to nearest even, with subnormals and
infinities; a NaN stays a NaN and may become quiet.
"""

from __future__ import annotations

from tilelang.dtypes import SCALARS
from tilelang.ir.callee import Routine
from tilelang.isa.common.convert import cpp_type
from tilelang.isa.intrinsic import Helper

_FLOAT16 = cpp_type(SCALARS["float16"]).helper
assert _FLOAT16 is not None

# VCVTPH2PS and VCVTPS2PH: Intel SDM volume 2; the immediate operand 0 is "to nearest even", whatever MXCSR says, and
# subnormal float16 are numbers under DAZ and FTZ, too. Written as assembly because <immintrin.h> takes a compiler
# longer than everything else in a small kernel.
_VECTORS = Helper(
    "half_vectors",
    """\
#if defined(__F16C__)
namespace tl {
typedef float floats8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint16_t codes8 __attribute__((vector_size(16), aligned(2), may_alias));
static inline floats8 widened(codes8 codes) {
    floats8 x;
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=x"(x) : "x"(codes));
    return x;
}
static inline codes8 narrowed(floats8 x) {
    codes8 codes;
    __asm__("vcvtps2ph {$0, %1, %0|%0, %1, 0}" : "=x"(codes) : "x"(x));
    return codes;
}
// The first n of eight elements, and back.
template <typename V, typename T> static inline V first_of(const T* from, int64_t n) {
    T all[8] = {};
    __builtin_memcpy(all, from, sizeof(T) * (size_t)n);
    V x;
    __builtin_memcpy(&x, all, sizeof(V));
    return x;
}
template <typename V, typename T> static inline void put_first(T* to, V x, int64_t n) {
    __builtin_memcpy(to, &x, sizeof(T) * (size_t)n);
}
}  // namespace tl
#endif
#if defined(__AVX512F__)
namespace tl {
typedef float floats16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t codes16 __attribute__((vector_size(32), aligned(2), may_alias));
static inline floats16 widened(codes16 codes) {
    floats16 x;
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=v"(x) : "v"(codes));
    return x;
}
static inline codes16 narrowed(floats16 x) {
    codes16 codes;
    __asm__("vcvtps2ph {$0, %1, %0|%0, %1, 0}" : "=v"(codes) : "v"(x));
    return codes;
}
}  // namespace tl
#endif
""",
    needs=(_FLOAT16,),
    headers=("<cstddef>", "<cstdint>"),
)


def _elementwise(name: str, what: str, parameters: str, vector: str, rest: str, one: str) -> Helper:
    """A function on `n` elements: vectors of 16 and of 8, a partial vector at the end, scalars without instructions."""
    return Helper(
        name,
        f"""\
// {what}
static inline void {name}({parameters}, int64_t n) {{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {vector.replace("8", "16")};
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {vector};
    if (i < n) {rest};
#else
    for (; i < n; ++i) {one};
#endif
}}
""",
        needs=(_VECTORS,),
    )


_WIDEN = _elementwise(
    "tl_widen_halves",
    "The values of neighboring float16 elements.",
    "float* __restrict to, const tl::float16* __restrict from",
    "*(tl::floats8*)(to + i) = tl::widened(*(const tl::codes8*)(from + i))",
    "tl::put_first(to + i, tl::widened(tl::first_of<tl::codes8>(from + i, n - i)), n - i)",
    "to[i] = (float)from[i]",
)
_NARROW = _elementwise(
    "tl_narrow_halves",
    "Neighboring float16 elements of the nearest values.",
    "tl::float16* __restrict to, const float* __restrict from",
    "*(tl::codes8*)(to + i) = tl::narrowed(*(const tl::floats8*)(from + i))",
    "tl::put_first(to + i, tl::narrowed(tl::first_of<tl::floats8>(from + i, n - i)), n - i)",
    "to[i].bits = tl::float16(from[i]).bits",
)
_ROUND = _elementwise(
    "tl_round_halves",
    "Rounds neighboring values to the nearest ones of float16.",
    "float* x",
    "*(tl::floats8*)(x + i) = tl::widened(tl::narrowed(*(const tl::floats8*)(x + i)))",
    "tl::put_first(x + i, tl::widened(tl::narrowed(tl::first_of<tl::floats8>(x + i, n - i))), n - i)",
    "x[i] = tl::float16::rounded(x[i])",
)

# The arguments are the addresses of the first elements, and their number.
WIDEN_HALVES = Routine("widen_halves", {"cpp": "tl_widen_halves({0}, {1}, {2})"}, {"cpp": _WIDEN})
NARROW_HALVES = Routine("narrow_halves", {"cpp": "tl_narrow_halves({0}, {1}, {2})"}, {"cpp": _NARROW})
ROUND_HALVES = Routine("round_halves", {"cpp": "tl_round_halves({0}, {1})"}, {"cpp": _ROUND})
