"""Fences: order a thread's memory accesses as seen by its block, by the GPU, or by the whole system.

Source: CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "membar, fence".
"""

from __future__ import annotations

from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.machine import Warp


def _fence(warp: Warp) -> None:
    warp.fence()


def _record(scope: str, text: str) -> Instruction:
    return Instruction(
        f"fence_{scope}",
        {"cuda": text},
        {},
        _fence,
        effect=Effect.FENCE,
        source="CUDA C++ Programming Guide, 'Memory Fence Functions'",
    )


FENCE_BLOCK = _record("block", "__threadfence_block()")
"""Orders accesses as the threads of the block see them; called with nothing."""

FENCE_DEVICE = _record("device", "__threadfence()")
"""Orders accesses as all threads of the GPU see them; called with nothing."""

FENCE_SYSTEM = _record("system", "__threadfence_system()")
"""Orders accesses as the host and other GPUs see them too; called with nothing."""
