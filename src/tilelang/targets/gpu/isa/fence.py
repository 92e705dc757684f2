"""Fences: order a thread's memory accesses as seen by its block, by the GPU or by the whole system.

Source: CUDA C++ Programming Guide, "Memory Fence Functions".
"""

from __future__ import annotations

from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.simulated import Warp


def _fence(warp: Warp) -> None:
    warp.fence()


def _record(scope: str) -> Instruction:
    source = "CUDA C++ Programming Guide, 'Memory Fence Functions'"
    name = f"fence_{scope}"
    return Instruction(name, {}, {}, _fence, effect=Effect.FENCE, source=source, form=(name,))


FENCE_BLOCK = _record("block")
"""Orders accesses as the threads of the block see them; called with nothing."""

FENCE_DEVICE = _record("device")
"""Orders accesses as all threads of the GPU see them; called with nothing."""

FENCE_SYSTEM = _record("system")
"""Orders accesses as the host and other GPUs see them too; called with nothing."""
