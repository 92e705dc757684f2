"""Proxy fences: order writes of a thread before accesses by the async proxy.

Copy engine and matrix units access memory through the async proxy: what a thread wrote is visible there only after a
proxy fence of this thread.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence".
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.errors import ProgramError
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "leave it out: it orders what the copy engine does"


def _proxy(name: str, what: str, space: str) -> Instruction:
    def simulate(warp: Warp) -> None:
        warp.fence_proxy(what)

    return ptx_statement(
        f"fence_{name}",
        f"fence.proxy.async.{space};",
        (),
        simulate,
        f"Makes this thread's writes to {what} memory visible to the async proxy.",
        effect=Effect.FENCE,
        needs=Feature.TMA,
        instead=_INSTEAD,
        source="PTX ISA, 'Parallel Synchronization and Communication Instructions: membar, fence'",
    )


FENCE_PROXY_ASYNC = _proxy("proxy_async", "shared", "shared::cta")
"""Makes the thread's writes to shared memory visible to the async proxy; called with nothing."""

FENCE_PROXY_ASYNC_GLOBAL = _proxy("proxy_async_global", "global", "global")
"""The same for global memory."""


_FENCES = {"shared": FENCE_PROXY_ASYNC, "global": FENCE_PROXY_ASYNC_GLOBAL}


def _check_space(what: str, space: str) -> None:
    if space not in _FENCES:
        raise ProgramError(f"{what}: {space!r:.40} is no memory", hint="write 'shared' or 'global'")


FUNCTIONS = (
    Function(
        "fence_proxy_async",
        _FENCES.__getitem__,
        """Makes the thread's writes visible to the async proxy: the copy engine and the matrix units.

        TMA and wgmma access memory through the async proxy, which is not ordered with threads. Between tile
        operators the compiler puts this fence where it is needed. It does not for `T.tma_copy` of global memory that
        threads have written in the same launch: there, execute it with "global" in the thread that issues the TMA copy,
        after the operation that synchronizes with the writer, such as an atomic with acquire.
        """,
        (
            Parameter(
                "space",
                ParameterKind.WORD,
                '"shared" or "global": the memory that the thread has written.',
                default="shared",
                check=_check_space,
            ),
        ),
        raises=("ProgramError: There is no such memory.",),
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_GLOBAL)
