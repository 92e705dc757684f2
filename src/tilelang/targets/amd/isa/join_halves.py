"""The exchange that gives each lane what both halves of a wave hold, as WMMA of gfx11 takes operands.

Gives `join_halves`: lanes l and l + 16 have eight elements each; both get all sixteen, those of lane l first.

Source: AMD RDNA 3 Instruction Set Architecture, "V_PERMLANEX16_B32".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.targets.amd.machines import RDNA_WAVE, Feature

ELEMENTS = 8  # of a lane
_HALF = RDNA_WAVE // 2
_WORD_BYTES = 4
_LOW = np.arange(RDNA_WAVE) % _HALF  # the lane of the lower half, of each pair

_HELPER = Helper(
    "tl_join_halves",
    """\
// Lanes l and l + 16 have N words each; both get those of lane l, then those of lane l + 16.
template <int N> __device__ __forceinline__ void tl_join_halves(void* joined, const void* own) {
    typedef unsigned words __attribute__((ext_vector_type(N), may_alias));
    const words mine = *(const words*)own;
    words other, low, high;
    const bool upper = __builtin_amdgcn_mbcnt_lo(~0u, 0) & 16;
#pragma unroll
    for (int i = 0; i < N; ++i)  // the old value would be kept for lanes that are off, of which there are none
        other[i] = __builtin_amdgcn_permlanex16(0, mine[i], 0x76543210, 0xfedcba98, false, true);
    asm("" : "+v"(other));  // consecutive registers are in different banks, so that one instruction selects two words
#pragma unroll
    for (int i = 0; i < N; ++i) low[i] = upper ? other[i] : mine[i];
#pragma unroll
    for (int i = 0; i < N; ++i) high[i] = upper ? mine[i] : other[i];
    ((words*)joined)[0] = low;
    ((words*)joined)[1] = high;
}
""",
)


def _simulate(warp: Warp, joined: Pointer, own: Pointer) -> None:
    warp.converge((1 << warp.size) - 1, "join_halves")
    values, defined = warp.read_raw(own, ELEMENTS)
    both, known = (np.concatenate([x[_LOW], x[_LOW + _HALF]], axis=1) for x in (values, defined))
    warp.write(joined, both, defined=known)


@cache
def join_halves(item_bytes: int) -> Instruction:
    """The exchange of elements of a size; its operands are registers of sixteen elements, and of a lane's eight."""
    return Instruction(
        f"join_halves_of_{item_bytes}",
        {"hip": f"tl_join_halves<{ELEMENTS * item_bytes // _WORD_BYTES}>({{0}}, {{1}})"},
        {"hip": _HELPER},
        _simulate,
        execution_scope=ExecutionScope.WARP,
        needs=Feature.WMMA_REPEATED,
        source="AMD RDNA 3 Instruction Set Architecture, 'V_PERMLANEX16_B32'",
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file."""
    for item_bytes in (1, 2):
        yield join_halves(item_bytes)
