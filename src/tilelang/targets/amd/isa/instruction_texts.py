"""The HIP texts of instructions that GPUs of every vendor have, those of `targets.gpu.isa`.

Gives `TEXTS`, by the family in an instruction's `dialect_key`. Invariant: a text and the meaning of its record agree.
A mask of lanes has a bit for each lane of a wave: 64 on CDNA, 32 on RDNA.

Source: LLVM, "User Guide for AMDGPU Backend", "Memory Model" and "LLVM IR Intrinsics"; AMD's ISA manuals, "Data
Parallel Processing" and DS_BPERMUTE_B32, DS_SWIZZLE_B32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilelang.dtypes import DType
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.amd.isa.types import hip_type

_SYNC_THREADS = Helper(
    "tl_sync_threads",
    """\
// All threads of the block meet, and see what the others wrote before. The barrier itself waits for no memory.
__device__ __forceinline__ void tl_sync_threads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
""",
)

_LANES = Helper(
    "tl_lanes",
    """\
// A wave of CDNA has 64 lanes, one of RDNA 32.
#if defined(__GFX9__)
typedef uint64_t tl_lanes_t;
#if __has_builtin(__builtin_amdgcn_ballot_w64)
#define TL_BALLOT __builtin_amdgcn_ballot_w64
#else  // before LLVM 16
#define TL_BALLOT(predicate) __builtin_amdgcn_uicmp((uint32_t)(predicate), 0u, 33)
#endif
#define TL_FIRST_BIT __builtin_ctzll
#else
typedef uint32_t tl_lanes_t;
#define TL_BALLOT __builtin_amdgcn_ballot_w32
#define TL_FIRST_BIT __builtin_ctz
#endif
// The number of this lane in its wave.
__device__ __forceinline__ int tl_lane_index() {
    return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
// The lanes of the mask in which the predicate is true; lanes that do not execute this are none of them.
__device__ __forceinline__ tl_lanes_t tl_ballot(tl_lanes_t mask, bool predicate) {
    return TL_BALLOT(predicate) & mask;
}
""",
)

_BY_WORDS = Helper(
    "tl_by_words",
    """\
// A value whose registers have each been moved.
template <typename T, typename F> __device__ __forceinline__ T tl_by_words(T value, F move) {
    union { int word[(sizeof(T) + 3) / 4]; T whole; } bits = {};
    bits.whole = value;
#pragma unroll
    for (int i = 0; i < (int)((sizeof(T) + 3) / 4); ++i) bits.word[i] = move(bits.word[i]);
    return bits.whole;
}
""",
)

_SYNC_GRID = Helper(
    "tl_sync_grid",
    """\
// How many blocks have arrived at the barrier of the grid, in the lower bits, which are zero again when all have; then
// the upper bit turns over. The driver runs cooperative launches of a device one after another: one word will do.
static __device__ unsigned tl_grid_arrivals = 0;
// All threads of all blocks meet, and see what the others wrote before.
__device__ __forceinline__ void tl_sync_grid() {
    tl_sync_threads();
    if (__builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workitem_id_y() + __builtin_amdgcn_workitem_id_z() == 0) {
        const unsigned blocks = __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()
                              * (__builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y())
                              * (__builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());
        const unsigned number = __builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workgroup_id_y()
                              + __builtin_amdgcn_workgroup_id_z();
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        const unsigned before = __hip_atomic_fetch_add(&tl_grid_arrivals, number ? 1u : 0x80000001u - blocks,
                                                       __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        while (((before ^ __hip_atomic_load(&tl_grid_arrivals, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) >> 31) == 0)
            __builtin_amdgcn_s_sleep(1);
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    }
    tl_sync_threads();
}
""",
    needs=(_SYNC_THREADS,),
)

_COUNT_THREADS = Helper(
    "tl_sync_threads_count",
    """\
// All threads of the block meet; gives how many predicates are true.
__device__ __forceinline__ int tl_sync_threads_count(bool predicate) {
    __shared__ int count;
    tl_sync_threads();
    count = 0;
    tl_sync_threads();
    const tl_lanes_t yes = tl_ballot(~(tl_lanes_t)0, predicate);
    if (tl_lane_index() == (int)TL_FIRST_BIT(TL_BALLOT(true)))  // one lane for its wave
        __hip_atomic_fetch_add(&count, __builtin_popcountll(yes), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    tl_sync_threads();
    return count;
}
""",
    needs=(_SYNC_THREADS, _LANES),
)

_SHUFFLE = Helper(
    "tl_shuffle",
    """\
// The value of another lane of the wave, whichever it is.
template <typename T> __device__ __forceinline__ T tl_of_lane(T value, int lane) {
    return tl_by_words(value, [=](int word) { return __builtin_amdgcn_ds_bpermute(lane << 2, word); });
}
// The value of a lane of the same sixteen, by an instruction that needs no LDS.
template <int CONTROL, typename T> __device__ __forceinline__ T tl_of_row(T value) {
    return tl_by_words(value, [](int word) { return __builtin_amdgcn_mov_dpp(word, CONTROL, 0xf, 0xf, true); });
}
// The value of the lane at the same place of the other sixteen of 32.
template <typename T> __device__ __forceinline__ T tl_of_other_row(T value) {
#if defined(__GFX9__)
    return tl_by_words(value, [](int word) { return __builtin_amdgcn_ds_swizzle(word, 16 << 10 | 0x1f); });
#else
    return tl_by_words(value, [](int word) {
        return (int)__builtin_amdgcn_permlanex16(0, word, 0x76543210, 0xfedcba98, false, true);
    });
#endif
}
// The value of a lane of the segment of `width` lanes around this one, counted from its first.
template <typename T> __device__ __forceinline__ T tl_shuffle_idx(T value, int lane, int width) {
    return tl_of_lane(value, (tl_lane_index() & -width) | (lane & (width - 1)));
}
// The value of a lane so far below, above or away; the own value where that is not of the segment.
template <typename T> __device__ __forceinline__ T tl_shuffle_up(T value, int offset, int width) {
    const int own = tl_lane_index(), other = own - offset;
    return tl_of_lane(value, other >= (own & -width) ? other : own);
}
template <typename T> __device__ __forceinline__ T tl_shuffle_down(T value, int offset, int width) {
    const int own = tl_lane_index(), other = own + offset;
    return tl_of_lane(value, other < (own & -width) + width ? other : own);
}
template <typename T> __device__ __forceinline__ T tl_shuffle_xor(T value, int offset, int width) {
    if (__builtin_constant_p(offset) && __builtin_constant_p(width) && offset < width) {
        switch (offset) {  // without the registers of an address
            case 1: return tl_of_row<0xb1>(value);  // in four lanes, two bits for each
            case 2: return tl_of_row<0x4e>(value);
            case 3: return tl_of_row<0x1b>(value);
            case 4: return tl_of_row<0x1b>(tl_of_row<0x141>(value));  // eight lanes backwards, and four
            case 8: return tl_of_row<0x128>(value);  // turns sixteen lanes by eight
            case 16: return tl_of_other_row(value);
            case 32: return tl_of_lane(value, tl_lane_index() ^ 32);
        }
    }
    const int own = tl_lane_index(), other = own ^ offset;
    return tl_of_lane(value, other < (own & -width) + width ? other : own);
}
""",
    needs=(_LANES, _BY_WORDS),
)

_MATCH = Helper(
    "tl_match",
    """\
// Whether two values have the same bits.
template <typename T> __device__ __forceinline__ bool tl_same_bits(T a, T b) {
    union { int word[(sizeof(T) + 3) / 4]; T whole; } x = {}, y = {};
    x.whole = a;
    y.whole = b;
    bool same = true;
#pragma unroll
    for (int i = 0; i < (int)((sizeof(T) + 3) / 4); ++i) same &= x.word[i] == y.word[i];
    return same;
}
// The value of the first lane that executes this.
template <typename T> __device__ __forceinline__ T tl_of_first(T value) {
    return tl_by_words(value, [](int word) { return __builtin_amdgcn_readfirstlane(word); });
}
// The lanes of the mask that have the same value as this one: one value after another, each by all that have it.
template <typename T> __device__ __forceinline__ tl_lanes_t tl_match_any(tl_lanes_t mask, T value) {
    while (true) {
        const bool same = tl_same_bits(tl_of_first(value), value);
        const tl_lanes_t lanes = tl_ballot(mask, same);
        if (same) return lanes;
    }
}
// The mask if the value is the same in all its lanes, otherwise 0.
template <typename T> __device__ __forceinline__ tl_lanes_t tl_match_all(tl_lanes_t mask, T value) {
    return tl_ballot(mask, !tl_same_bits(tl_of_first(value), value)) == 0 ? mask : 0;
}
""",
    needs=(_LANES, _BY_WORDS),
)


def _shuffle(mode: str, dtype: DType) -> Template:
    return Template(f"tl_shuffle_{mode}<{hip_type(dtype).value}>({{1}}, {{2}}, {{3}})", _SHUFFLE)


def _ballot(bits: int = 32) -> Template:
    return Template(f"(uint{bits}_t)tl_ballot({{0}}, {{1}})", _LANES)


def _fence(scope: str) -> Template:
    return Template(f'__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "{scope}")')


def _call_extern(result: DType | None, name: str, arity: int) -> Template:
    call = f"{name}({', '.join(f'{{{place}}}' for place in range(arity))})"
    if result is None:
        return Template(call)
    kind = hip_type(result)
    return Template(f"({kind.value})({call})", kind.helper)


TEXTS: Mapping[str, Template | Callable[..., Template]] = MappingProxyType(
    {
        "sync_threads": Template("tl_sync_threads()", _SYNC_THREADS),
        "sync_threads_count": Template("tl_sync_threads_count({0})", _COUNT_THREADS),
        "sync_threads_and": Template("(int)(tl_sync_threads_count(!({0})) == 0)", _COUNT_THREADS),
        "sync_threads_or": Template("(int)(tl_sync_threads_count({0}) != 0)", _COUNT_THREADS),
        "sync_grid": Template("tl_sync_grid()", _SYNC_GRID),
        # lanes of a wave execute in step; what they write to memory is ordered by the fence
        "sync_warp": Template('__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront")'),
        "fence_block": _fence("workgroup"),
        "fence_device": _fence("agent"),
        "fence_system": _fence(""),
        "shuffle": _shuffle,
        "ballot": _ballot,
        "any": Template("(tl_ballot({0}, {1}) != 0)", _LANES),
        "all": Template("(tl_ballot({0}, !({1})) == 0)", _LANES),
        "match_any": Template("(uint32_t)tl_match_any({0}, {1})", _MATCH),
        "match_all": Template("(uint32_t)tl_match_all({0}, {1})", _MATCH),
        "active_mask": Template("(uint32_t)TL_BALLOT(true)", _LANES),
        "elect": Template("(tl_lane_index() == (int)TL_FIRST_BIT(tl_ballot({0}, true)))", _LANES),
        "call_extern": _call_extern,
    }
)
