"""Barriers for two groups of waves that ping-pong, one a phase behind the other; see `schedule.ping_pong`.

Gives, per generation of counters, `end_phase`, `begin_ping_pong` and `end_ping_pong`. The hardware counts the arrivals
of waves at its barrier, wherever they are in the program. Invariant: all waves arrive equally often: those
of the late group once more before the loop, the others once more after it. Before it arrives, a wave waits for its
accesses to LDS. Compilers move nothing across: neither matrix instructions, which access no memory, nor loads.

Source: AMD Instinct MI300 Instruction Set Architecture, "S_BARRIER"; LLVM, "User Guide for AMDGPU Backend",
`llvm.amdgcn.sched.barrier`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.amd.isa.wait_counters import Counters, wait_text

_FUNCTION = "__device__ __forceinline__ void"


def _end_phase(warp: Warp) -> Iterator[Wait]:
    warp.retire("shared")
    yield from warp.barrier_join()


def _is_late(warp: Warp, late: Any) -> bool:
    """Whether a wave is of the late group; `late` is the same in all its lanes."""
    return bool(np.broadcast_to(late, warp.active.shape)[warp.active].all())


@cache
def end_phase(counters: Counters) -> Instruction:
    """Ends a phase: what the other group did in its own has been done, too; no operands."""
    return _instruction("end_phase", "", _end_phase, _phase_end_text(counters))


@cache
def begin_ping_pong(counters: Counters) -> Instruction:
    """All waves meet, then those of the late group wait for one phase; the operand says which these are."""

    def simulate(warp: Warp, late: Any) -> Iterator[Wait]:
        yield from _end_phase(warp)
        if _is_late(warp, late):
            yield from _end_phase(warp)

    text = f"""\
// All waves of the block meet; those of the late group then wait for the first phase of the others.
{_FUNCTION} tl_begin_ping_pong(bool late) {{
    tl_end_phase();
    if (__builtin_amdgcn_readfirstlane(late)) tl_end_phase();
}}
"""
    helper = Helper("tl_begin_ping_pong", text, (_phase_end_text(counters),))
    return _instruction("begin_ping_pong", "{0}", simulate, helper)


@cache
def end_ping_pong(counters: Counters) -> Instruction:
    """The other group waits for the last phase of the late one; the operand is that of `begin_ping_pong`."""

    def simulate(warp: Warp, late: Any) -> Iterator[Wait]:
        if not _is_late(warp, late):
            yield from _end_phase(warp)

    text = f"""\
// The waves that are not of the late group wait for its last phase.
{_FUNCTION} tl_end_ping_pong(bool late) {{
    if (!__builtin_amdgcn_readfirstlane(late)) tl_end_phase();
}}
"""
    helper = Helper("tl_end_ping_pong", text, (_phase_end_text(counters),))
    return _instruction("end_ping_pong", "{0}", simulate, helper)


def _phase_end_text(counters: Counters) -> Helper:
    return Helper(
        "tl_end_phase",
        f"""\
// All waves of the block meet and see what each wrote to LDS; compilers move no instruction across.
{_FUNCTION} tl_end_phase() {{
    {wait_text("lds", counters)};
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    __builtin_amdgcn_sched_barrier(0);
}}
""",
    )


def _instruction(name: str, operands: str, simulate: Any, helper: Helper) -> Instruction:
    return Instruction(
        name,
        {"hip": f"tl_{name}({operands})"},
        {"hip": helper},
        simulate,
        execution_scope=ExecutionScope.BLOCK,
        effect=Effect.SYNC_BLOCK,
        source="AMD Instinct MI300 Instruction Set Architecture, 'S_BARRIER'",
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    for counters in Counters:
        yield from (end_phase(counters), begin_ping_pong(counters), end_ping_pong(counters))
