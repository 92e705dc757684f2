"""Waits of a wave for its memory accesses, by the hardware's counters.

Gives `wait_for_lds`, `wait_for_loads` and `wait_for_stores`, which wait for all, per generation of counters,
`WAIT_FOR_DIRECT_LOADS`, which may leave the newest in flight, and `WAIT_FOR_TRACKED_LOADS`, a helper that compilers
understand. Invariant: waits have exact numbers, since compilers do not agree on which waits they insert themselves, and
no access moves across; more accesses in flight than were counted make a wait stronger, never weaker. Texts are volatile
assembly, but for the built-in in waits for LDS up to gfx11, where its operand is that of the instruction: compilers
track all accesses to LDS, and add no waits of their own behind it.

Source: LLVM, SIInsertWaitcnts.cpp and "User Guide for AMDGPU Backend", "Memory Model"; RDNA 4 Instruction Set
Architecture, "Data Dependency Resolution"; AMD Instinct MI300 and RDNA 3 Instruction Set Architecture, "S_WAITCNT".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tilelang.isa.instruction import AsyncUnit, Completion, Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Warp
from tilelang.targets.amd.machines import Feature
from tilelang.targets.machine import Machine

DIRECT_TO_LDS = AsyncUnit("direct load to LDS", Completion.GROUPS, per_thread=True, per_warp=True)
"""Loads from global memory to LDS, which a wave issues together, and which complete in the order of issue."""

MAX_DIRECT_LOADS = 63
"""The most loads that a wait can leave in flight: the counter has six bits."""

_SOURCE = "LLVM, User Guide for AMDGPU Backend, 'Memory Model'"


class Counters(enum.Enum):
    """The memory counters of a generation."""

    LOADS_AND_STORES = "gfx9"  # vmcnt counts loads and stores of global memory, lgkmcnt accesses to LDS
    SEPARATE_STORES = "gfx10 and gfx11"  # vscnt counts stores of global memory
    ALL_SEPARATE = "gfx12"  # loadcnt, storecnt and dscnt


def counters_of(machine: Machine) -> Counters:
    """The counters of a machine."""
    if machine.has(Feature.SPLIT_COUNTERS):
        return Counters.ALL_SEPARATE
    return Counters.SEPARATE_STORES if machine.has(Feature.STORE_COUNTER) else Counters.LOADS_AND_STORES


def _assembly(instruction: str) -> str:
    return f'asm volatile("{instruction}" ::: "memory")'


def _built_in(operand: int) -> str:
    return f"{_assembly('')}; __builtin_amdgcn_s_waitcnt({operand:#06x}); {_assembly('')}"


_TEXTS = {
    "lds": {  # lgkmcnt(0) alone
        Counters.LOADS_AND_STORES: _built_in(0xC07F),
        Counters.SEPARATE_STORES: _built_in(0xFC07),  # gfx10, which no machine is of, would have another number
        Counters.ALL_SEPARATE: _assembly("s_wait_dscnt 0x0"),
    },
    "loads": {
        Counters.LOADS_AND_STORES: _assembly("s_waitcnt vmcnt(0)"),
        Counters.SEPARATE_STORES: _assembly("s_waitcnt vmcnt(0)"),
        Counters.ALL_SEPARATE: _assembly("s_wait_loadcnt 0x0"),
    },
    "stores": {
        Counters.LOADS_AND_STORES: _assembly("s_waitcnt vmcnt(0)"),
        Counters.SEPARATE_STORES: _assembly("s_waitcnt_vscnt null, 0x0"),
        Counters.ALL_SEPARATE: _assembly("s_wait_storecnt 0x0"),
    },
}


def wait_text(what: str, counters: Counters) -> str:
    """The text that waits for all accesses of a wave to "lds", or its "loads" or "stores" of global memory."""
    return _TEXTS[what][counters]


def _wait(what: str, counters: Counters, simulate: Callable[[Warp], None]) -> Instruction:
    return Instruction(
        f"wait_for_{what}",
        {"hip": wait_text(what, counters)},
        {},
        simulate,
        effect=Effect.FENCE,
        source=_SOURCE,
    )


@cache
def wait_for_lds(counters: Counters) -> Instruction:
    """The wait for all accesses of the wave to LDS; no operands."""
    return _wait("lds", counters, lambda warp: warp.retire("shared"))


@cache
def wait_for_loads(counters: Counters) -> Instruction:
    """The wait for all loads of the wave from global memory; no operands. On gfx9 for its stores, too."""

    def simulate(warp: Warp) -> None:
        warp.wait(DIRECT_TO_LDS, 0)
        warp.retire("global", ("load",))
        if counters is Counters.LOADS_AND_STORES:
            warp.retire("global", ("store",))

    return _wait("loads", counters, simulate)


@cache
def wait_for_stores(counters: Counters) -> Instruction:
    """The wait for all stores of the wave to global memory; no operands. On gfx9 for its loads, too."""

    def simulate(warp: Warp) -> None:
        warp.retire("global", ("store",))
        if counters is Counters.LOADS_AND_STORES:
            warp.wait(DIRECT_TO_LDS, 0)
            warp.retire("global", ("load",))

    return _wait("stores", counters, simulate)


def _wait_for_direct_loads(warp: Warp, pending: Any) -> None:
    warp.wait(DIRECT_TO_LDS, int(pending))


WAIT_FOR_DIRECT_LOADS = Instruction(
    "wait_for_direct_loads",
    {"hip": "tl_wait_for_direct_loads<{0}>()"},
    {
        "hip": Helper(
            "tl_wait_for_direct_loads",
            """\
// Waits until at most N of the loads of this wave from global memory are in flight.
template <int N> __device__ __forceinline__ void tl_wait_for_direct_loads() {
    asm volatile("s_waitcnt vmcnt(%0)" ::"n"(N) : "memory");
}
""",
        )
    },
    _wait_for_direct_loads,
    async_unit=DIRECT_TO_LDS,
    effect=Effect.WAIT,
    needs=Feature.DIRECT_TO_LDS,
    source="AMD Instinct MI300 Instruction Set Architecture, 'S_WAITCNT'",
)
"""Waits until at most N of the wave's newest direct loads are in flight; the operand is N, a constant."""


WAIT_FOR_TRACKED_LOADS = Helper(
    "tl_wait_for_tracked_loads",
    """\
// Before a loop of direct loads, of which the compiler knows nothing: else it would wait in each iteration for what it
// has loaded to registers before, and so for the loads of the iteration. The number is that of vmcnt(0) alone.
__device__ __forceinline__ void tl_wait_for_tracked_loads() { __builtin_amdgcn_s_waitcnt(0x0f70); }
""",
)
"""Waits for all loads, by the built-in: the compiler then inserts no wait of its own for those that it tracks."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield WAIT_FOR_DIRECT_LOADS
    for counters in Counters:
        yield from (wait_for_lds(counters), wait_for_loads(counters), wait_for_stores(counters))
