"""Barriers of some warps of a block, which have numbers.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import SimulationError
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.gpu.isa.lanes import uniform
from tilelang.targets.gpu.isa.sync import answers, any_thread
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement, register
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "write T.sync_threads() for all threads, or T.sync_warp() for those of a warp"
BARRIERS = 16  # of a block; number 0 is the one that all threads use. Source: PTX ISA, "bar", "Description"
_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: bar, barrier'"


def _named(warp: Warp, barrier: Any, count: Any, what: str) -> tuple[int, int]:
    number, threads = uniform(warp, barrier, what), uniform(warp, count, what)
    if not 0 <= number < BARRIERS:
        raise SimulationError(
            f"{what}: barrier {number} does not exist", hint=f"a block has barriers 0 to {BARRIERS - 1}"
        )
    if threads <= 0 or threads % warp.size:
        raise SimulationError(f"{what}: {threads} threads are no whole number of warps of {warp.size}")
    return number, threads


def _bar_sync(warp: Warp, barrier: Any, count: Any) -> Iterator[Wait]:
    number, threads = _named(warp, barrier, count, "bar.sync")
    yield from warp.barrier_sync(number, threads)


def _bar_sync_or(warp: Warp, barrier: Any, count: Any, predicate: Any) -> Generator[Wait, None, np.ndarray]:
    number, threads = _named(warp, barrier, count, "bar.red.or")
    arrival = warp.barrier_sync(number, threads)
    return (yield from answers(warp, predicate, arrival, any_thread, f"bar_sync_or_{number}"))


def _bar_arrive(warp: Warp, barrier: Any, count: Any) -> None:
    number, threads = _named(warp, barrier, count, "bar.arrive")
    warp.arrive(number, threads)


def _named_barrier(
    name: str, operation: str, simulate: Callable[..., Any], comment: str, effect: Effect = Effect.SYNC_SOME
) -> Instruction:
    return ptx_statement(
        name,
        f"{operation} %0, %1;",
        (register("int", "barrier"), register("int", "threads")),
        simulate,
        comment,
        execution_scope=ExecutionScope.WARP,
        effect=effect,
        needs=Feature.NONE,
        instead=_INSTEAD,
        source=_SOURCE,
    )


BAR_SYNC = _named_barrier(
    "bar_sync", "bar.sync", _bar_sync, "Synchronizes a number of threads of the block at a named barrier."
)
"""A barrier of some warps; called with its number, 0 to 15, and how many threads arrive, a multiple of 32."""

BAR_ARRIVE = _named_barrier(
    "bar_arrive", "bar.arrive", _bar_arrive, "Arrives at a barrier that other warps wait at.",
    Effect.SYNC_SOME | Effect.ARRIVE,
)
"""Arrives at a barrier that others wait at; called as `BAR_SYNC`."""

BAR_SYNC_OR = Instruction(
    "bar_sync_or",
    {"cuda": "tl_bar_sync_or({0}, {1}, {2})"},
    {
        "cuda": Helper(
            "tl_bar_sync_or",
            """\
// Synchronizes a number of threads at a named barrier, and tells whether the predicate is true in any of them.
__device__ __forceinline__ int tl_bar_sync_or(int barrier, int threads, bool predicate) {
    int any;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; bar.red.or.pred p, %1, %2, p; selp.s32 %0, 1, 0, p; }"
                 : "=r"(any)
                 : "r"(barrier), "r"(threads), "r"((int)predicate)
                 : "memory");
    return any;
}
""",
        )
    },
    _bar_sync_or,
    execution_scope=ExecutionScope.WARP,
    result=INT32,
    effect=Effect.SYNC_SOME,
    is_uniform=True,
    needs=Feature.NONE,
    instead=_INSTEAD,
    source=_SOURCE,
)
"""`BAR_SYNC` with a predicate behind its operands, that returns whether that is true in any thread, as 1 or 0."""


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (BAR_SYNC, BAR_ARRIVE, BAR_SYNC_OR)
