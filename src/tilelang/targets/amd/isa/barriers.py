"""Barriers of a work-group: those that wait for no memory access, and one that waits for accesses to LDS.

Gives `S_BARRIER`, `BARRIER_SIGNAL`, `BARRIER_WAIT` and `lds_barrier`. Invariant: an access is ordered by such a barrier
only if its wave waited for it before. The fences of a wave around a barrier emit no instruction; they keep the compiler
from moving accesses across it, and do not make it wait for loads to LDS, as fences of the work-group would.

Source: LLVM, "User Guide for AMDGPU Backend", "Memory Model"; RDNA 4 Instruction Set Architecture,
"Work-group barriers".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.amd.isa.wait_counters import Counters, wait_text
from tilelang.targets.amd.machines import Feature

_SOURCE = "LLVM, User Guide for AMDGPU Backend, 'Memory Model'"
_SPLIT_SOURCE = "RDNA 4 Instruction Set Architecture, 'Work-group barriers'"
_BEFORE = '    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");\n'
_AFTER = '    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");\n'


def _helper(name: str, comment: str, *lines: str) -> Helper:
    return Helper(name, f"// {comment}\n__device__ __forceinline__ void {name}() {{\n{''.join(lines)}}}\n")


def _join(warp: Warp) -> Iterator[Wait]:
    yield from warp.barrier_join()


def _signal(warp: Warp) -> None:
    warp.barrier_signal()


def _wait(warp: Warp) -> Iterator[Wait]:
    yield from warp.barrier_wait()


S_BARRIER = Instruction(
    "s_barrier",
    {"hip": "tl_s_barrier()"},
    {
        "hip": _helper(
            "tl_s_barrier",
            "All waves of the block meet; accesses to memory may be in flight.",
            _BEFORE,
            "    __builtin_amdgcn_s_barrier();\n",
            _AFTER,
        )
    },
    _join,
    execution_scope=ExecutionScope.BLOCK,
    effect=Effect.JOIN_BLOCK,
    source=_SOURCE,
)
"""Barrier of the block that waits for no memory access; no operands."""

BARRIER_SIGNAL = Instruction(
    "barrier_signal",
    {"hip": "tl_barrier_signal()"},
    {
        "hip": _helper(
            "tl_barrier_signal",
            "Arrives at the barrier of the block; accesses to memory may be in flight.",
            _BEFORE,
            '    asm volatile("s_barrier_signal -1" ::: "memory");\n',
        )
    },
    _signal,
    execution_scope=ExecutionScope.BLOCK,
    effect=Effect.JOIN_BLOCK,
    needs=Feature.SPLIT_BARRIER,
    source=_SPLIT_SOURCE,
)
"""Arrives at the barrier of the block without waiting; no operands."""

BARRIER_WAIT = Instruction(
    "barrier_wait",
    {"hip": "tl_barrier_wait()"},
    {
        "hip": _helper(
            "tl_barrier_wait",
            "Waits until all waves of the block have arrived at its barrier.",
            '    asm volatile("s_barrier_wait -1" ::: "memory");\n',
            _AFTER,
        )
    },
    _wait,
    execution_scope=ExecutionScope.BLOCK,
    effect=Effect.JOIN_BLOCK,
    needs=Feature.SPLIT_BARRIER,
    source=_SPLIT_SOURCE,
)
"""Waits for the other arrivals of `BARRIER_SIGNAL`; no operands."""


@cache
def lds_barrier(counters: Counters) -> Instruction:
    """The barrier of the block that orders accesses to LDS, and not those to global memory; no operands."""

    def simulate(warp: Warp) -> Iterator[Wait]:
        warp.retire("shared")
        yield from warp.barrier_join()

    return Instruction(
        "lds_barrier",
        {"hip": "tl_lds_barrier()"},
        {
            "hip": _helper(
                "tl_lds_barrier",
                "All waves of the block meet and see what each wrote to LDS; global memory is not waited for.",
                f"    {wait_text('lds', counters)};\n",
                _BEFORE,
                "    __builtin_amdgcn_s_barrier();\n",
                _AFTER,
            )
        },
        simulate,
        execution_scope=ExecutionScope.BLOCK,
        effect=Effect.JOIN_BLOCK,
        source=_SOURCE,
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (S_BARRIER, BARRIER_SIGNAL, BARRIER_WAIT, *(lds_barrier(counters) for counters in Counters))
