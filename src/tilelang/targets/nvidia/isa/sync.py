"""Barriers: of the grid, of the block, of some of its warps, and of the lanes of a warp.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier", "bar.warp.sync"; CUDA C++
Programming Guide, "Synchronization Functions", "Grid Synchronization".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import SimulationError
from tilelang.isa.instruction import Effect, Group, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.nvidia.isa.lanes import LANES, integers, participants, spread, uniform
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement, register
from tilelang.targets.target import Feature

BARRIERS = 16  # of a block; number 0 is the one that all threads use. Source: PTX ISA, "bar", "Description"
_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: bar, barrier'"


def _sync_threads(warp: Warp) -> Iterator[Wait]:
    yield from warp.meet()


def _sync_grid(warp: Warp) -> Iterator[Wait]:
    yield from warp.meet()
    yield from warp.meet_grid()


def _named(warp: Warp, barrier: Any, count: Any, what: str) -> tuple[int, int]:
    number, threads = uniform(warp, barrier, what), uniform(warp, count, what)
    if not 0 <= number < BARRIERS:
        raise SimulationError(
            f"{what}: barrier {number} does not exist", hint=f"a block has barriers 0 to {BARRIERS - 1}"
        )
    if threads <= 0 or threads % LANES:
        raise SimulationError(f"{what}: {threads} threads are no whole number of warps of {LANES}")
    return number, threads


def _bar_sync(warp: Warp, barrier: Any, count: Any) -> Iterator[Wait]:
    number, threads = _named(warp, barrier, count, "bar.sync")
    yield from warp.meet(number, threads)


def _bar_arrive(warp: Warp, barrier: Any, count: Any) -> None:
    number, threads = _named(warp, barrier, count, "bar.arrive")
    warp.arrive(number, threads)


def _sync_warp(warp: Warp, mask: Any) -> Iterator[Wait]:
    participants(warp, mask, "__syncwarp")
    yield from warp.meet_lanes(integers(mask))


SYNC_THREADS = Instruction(
    "sync_threads",
    {"cuda": "__syncthreads()"},
    {},
    _sync_threads,
    group=Group.BLOCK,
    effect=Effect.SYNC_BLOCK,
    source="CUDA C++ Programming Guide, 'Synchronization Functions'",
)
"""All threads of the block meet; called with nothing."""

def _sync_threads_answer(name: str, text: str, answer: Callable[[int, int], int]) -> Instruction:
    """A barrier of the block that takes a predicate; `answer` gets for how many threads it holds, and how many came."""

    def simulate(warp: Warp, predicate: Any) -> Generator[Wait, None, np.ndarray]:
        tallies = warp.state("sync_threads_answer", list)
        if not tallies:
            tallies.append([0, 0])
        tally = tallies[-1]
        tally[0] += int((spread(predicate).astype(bool) & warp.active).sum())
        tally[1] += int(warp.active.sum())
        yield from warp.meet()
        if tallies[-1] is tally:  # nobody counts on it any more, all have come
            tallies[:] = [[0, 0]]
        return np.full(LANES, answer(*tally), np.int32)

    return Instruction(
        name,
        {"cuda": text},
        {},
        simulate,
        group=Group.BLOCK,
        result=INT32,
        effect=Effect.SYNC_BLOCK,
        source="CUDA C++ Programming Guide, 'Synchronization Functions'",
    )


SYNC_THREADS_COUNT = _sync_threads_answer("sync_threads_count", "__syncthreads_count({0})", lambda yes, all_: yes)
"""All threads of the block meet, and learn for how many of them the predicate holds; called with the predicate."""

SYNC_THREADS_AND = _sync_threads_answer(
    "sync_threads_and", "(int)(__syncthreads_and({0}) != 0)", lambda yes, all_: int(yes == all_)
)
"""Whether it holds for all threads, as 1 or 0; called as `SYNC_THREADS_COUNT`."""

SYNC_THREADS_OR = _sync_threads_answer(
    "sync_threads_or", "(int)(__syncthreads_or({0}) != 0)", lambda yes, all_: int(yes > 0)
)
"""Whether it holds for any thread, as 1 or 0; called as `SYNC_THREADS_COUNT`."""

SYNC_GRID = Instruction(
    "sync_grid",
    {"cuda": "tl_sync_grid()"},
    {
        "cuda": Helper(
            "tl_sync_grid",
            """\
// All threads of all blocks meet. The driver gives every cooperative launch a word of its own for that: its upper bit
// turns over when all blocks have arrived, and the bits below count them and are zero again then.
__device__ __forceinline__ void tl_sync_grid() {
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned low, high, before, now;
        asm("mov.u32 %0, %%envreg2; mov.u32 %1, %%envreg1;" : "=r"(low), "=r"(high));
        const unsigned long long word = ((unsigned long long)high << 32 | low) + 4;
        const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
        const bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        __threadfence();
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(word), "r"(first ? 0x80000000u - others : 1u)
                     : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
        __threadfence();
    }
    __syncthreads();
}
""",
        )
    },
    _sync_grid,
    group=Group.BLOCK,
    effect=Effect.SYNC_BLOCK | Effect.SYNC_GRID,
    source="CUDA C++ Programming Guide, 'Grid Synchronization'; CUDA Toolkit, cooperative_groups/details/driver_abi.h",
)
"""All threads of all blocks meet; called with nothing, in a cooperative launch, whose blocks run at the same time."""

def _of_warps(name: str, operation: str, simulate: Callable[..., Any], comment: str) -> Instruction:
    return ptx_statement(
        name,
        f"{operation} %0, %1;",
        (register("int", "barrier"), register("int", "threads")),
        simulate,
        comment,
        group=Group.WARP,
        effect=Effect.SYNC_SOME,
        needs=Feature.NONE,
        source=_SOURCE,
    )


BAR_SYNC = _of_warps("bar_sync", "bar.sync", _bar_sync, "Meets other warps at a barrier of the block.")
"""Some warps meet; called with the barrier's number, 0 to 15, and how many threads arrive, a multiple of 32."""

BAR_ARRIVE = _of_warps("bar_arrive", "bar.arrive", _bar_arrive, "Arrives at a barrier that other warps wait at.")
"""Arrives at a barrier that others wait at; called as `BAR_SYNC`."""

SYNC_WARP = Instruction(
    "sync_warp",
    {"cuda": "__syncwarp({0})"},
    {},
    _sync_warp,
    group=Group.WARP,
    effect=Effect.SYNC_WARP,
    source="PTX ISA, 'Parallel Synchronization and Communication Instructions: bar.warp.sync'",
)
"""The lanes of a mask meet and see each other's writes; called with the mask."""
