"""Fences: order a thread's memory accesses as seen by its block, by the GPU or by the whole system.

Source: CUDA C++ Programming Guide, "Memory Fence Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.errors import ProgramError
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.simulated import Warp


def _fence(warp: Warp) -> None:
    warp.fence()


def _record(scope: str) -> Instruction:
    source = "CUDA C++ Programming Guide, 'Memory Fence Functions'"
    name = f"fence_{scope}"
    return Instruction(name, {}, {}, _fence, effect=Effect.FENCE, source=source, dialect_key=(name,))


FENCE_BLOCK = _record("block")
"""Orders accesses as the threads of the block see them; called with nothing."""

FENCE_DEVICE = _record("device")
"""Orders accesses as all threads of the GPU see them; called with nothing."""

FENCE_SYSTEM = _record("system")
"""Orders accesses as the host and other GPUs see them too; called with nothing."""


_FENCES = {"block": FENCE_BLOCK, "device": FENCE_DEVICE, "system": FENCE_SYSTEM}


def _check_scope(what: str, scope: str) -> None:
    if scope not in _FENCES:
        raise ProgramError(f"{what}: {scope!r:.40} is no scope", hint="write 'block', 'device' or 'system'")


FUNCTIONS = (
    Function(
        "thread_fence",
        _FENCES.__getitem__,
        "Puts the memory accesses of this thread before it in front of those after it, as others see them.",
        (
            Parameter(
                "scope",
                ParameterKind.WORD,
                'Who sees them in that order: "block", "device" or "system".',
                default="device",
                check=_check_scope,
            ),
        ),
        raises=("ProgramError: There is no such scope.",),
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM)
