"""Launches that overlap (programmatic dependent launch): a kernel that begins before the one in front of it has ended.

Gives `GRID_DEPENDENCY_WAIT` and `GRID_DEPENDENCY_LAUNCH`. Invariant: a kernel that contains the wait is launched so
that it may begin early, and sees what kernels before it wrote from its wait on, and not before.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"; CUDA C++ Programming Guide,
"Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilelang.isa.function import Function
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.simulated import Warp
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement
from tilelang.targets.nvidia.machines import Feature

_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: griddepcontrol'"


def _wait(warp: Warp) -> None:
    warp.join_launches()


def _launch(warp: Warp) -> None:
    """The simulator runs one launch after the other."""


def _record(name: str, operation: str, meaning: Callable[[Warp], None], effect: Effect, comment: str) -> Instruction:
    return ptx_statement(
        name,
        f"griddepcontrol.{operation};",
        (),
        meaning,
        comment,
        effect=effect,
        needs=Feature.CLUSTER,
        optional=True,
        source=_SOURCE,
    )


GRID_DEPENDENCY_WAIT = _record(
    "grid_dependency_wait",
    "wait",
    _wait,
    Effect.FENCE | Effect.JOIN_LAUNCHES,
    "Waits until the grids before this one are complete and their writes are visible.",
)
"""Every thread that touches what launches before this one wrote executes it before; called with nothing."""

GRID_DEPENDENCY_LAUNCH = _record(
    "grid_dependency_launch",
    "launch_dependents",
    _launch,
    Effect.FENCE,
    "Lets the next launch begin once all blocks have come this far or ended.",
)
"""The next launch on the stream may begin, if it waits by itself for what it needs; called with nothing."""


FUNCTIONS = (
    Function(
        "pdl_trigger",
        GRID_DEPENDENCY_LAUNCH,
        """Lets the next launch on the stream begin, once every block has come here or ended (`griddepcontrol`).

        That launch overlaps with this one if its kernel waits for it, by `T.pdl_sync` or because the compiler lets it;
        what this kernel writes afterwards is seen after that wait all the same. Nothing on targets before sm_90.
        """,
    ),
    Function(
        "pdl_sync",
        GRID_DEPENDENCY_WAIT,
        """Waits until all launches before this one have ended and their writes are there (`griddepcontrol`).

        A kernel that calls it is launched so that it may begin before they have ended; before the call it must not
        touch what they write. Most kernels without a call wait as their first statement. Nothing on targets before
        sm_90, where a launch begins when those before it have ended.
        """,
        example="T.pdl_sync()",
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH)
