"""C++ texts of the bit operations, for languages of the C family.

Operands are the unsigned types that the rows of `isa.common.bits` compute in.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.intrinsic import Helper, Template

# __builtin_popcount and __builtin_clz are instructions or short sequences with g++ and clang alike
_COUNTS = Helper(
    "bit_counts",
    """\
namespace tl {
static inline int32_t popcount(uint32_t x) { return __builtin_popcount(x); }
static inline int32_t popcount64(uint64_t x) { return __builtin_popcountll(x); }
static inline int32_t clz(uint32_t x, int32_t width) { return x ? __builtin_clz(x) - (32 - width) : width; }
static inline int32_t clz64(uint64_t x) { return x ? __builtin_clzll(x) : 64; }
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_DOT4 = Helper(
    "dot4",
    """\
namespace tl {
static inline int32_t dp4a(int32_t a, int32_t b, int32_t c) {
    uint32_t sum = (uint32_t)c;
    for (int i = 0; i < 4; ++i)
        sum += (uint32_t)((int32_t)(int8_t)((uint32_t)a >> (8 * i)) * (int32_t)(int8_t)((uint32_t)b >> (8 * i)));
    return (int32_t)sum;
}
static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 255u) * (b >> (8 * i) & 255u);
    return c;
}
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_NTH_SET = Helper(
    "nth_set_bit",
    """\
namespace tl {
static inline uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
    if (offset == 0) return base < 32 && (mask >> base & 1u) ? base : 0xffffffffu;
    const uint32_t step = offset > 0 ? 1u : 0xffffffffu;
    int64_t left = offset > 0 ? (int64_t)offset : -(int64_t)offset;
    for (uint32_t at = base; at < 32; at += step)
        if ((mask >> at & 1u) && --left == 0) return at;
    return 0xffffffffu;
}
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_POPCOUNT = {
    "uint4": Template("tl::popcount(({0}) & 15u)", _COUNTS),
    "uint8": Template("tl::popcount({0})", _COUNTS),
    "uint16": Template("tl::popcount({0})", _COUNTS),
    "uint32": Template("tl::popcount({0})", _COUNTS),
    "uint64": Template("tl::popcount64({0})", _COUNTS),
}
_CLZ = {
    "uint4": Template("tl::clz(({0}) & 15u, 4)", _COUNTS),
    "uint8": Template("tl::clz({0}, 8)", _COUNTS),
    "uint16": Template("tl::clz({0}, 16)", _COUNTS),
    "uint32": Template("tl::clz({0}, 32)", _COUNTS),
    "uint64": Template("tl::clz64({0})", _COUNTS),
}
_DP4A = {
    "int32": Template("tl::dp4a((int32_t)({0}), (int32_t)({1}), (int32_t)({2}))", _DOT4),
    "uint32": Template("tl::dp4a((uint32_t)({0}), (uint32_t)({1}), (uint32_t)({2}))", _DOT4),
}

_FNS = {"uint32": Template("tl::fns({0}, {1}, (int32_t)({2}))", _NTH_SET)}

# by the names of `isa.common.bits`
BITS: Mapping[str, Mapping[str, Template]] = {"popcount": _POPCOUNT, "clz": _CLZ, "fns": _FNS, "dp4a": _DP4A}
