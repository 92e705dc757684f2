"""Runs passes in order, and records a snapshot of the function after each.

With `TILELANG_CHECK=1` in the environment (the tests set it), `ir.verify` checks the function after every pass that
changes it; the error names the pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.call_stack import reserve_frames
from tilelang.environment import environment_flag
from tilelang.errors import CompilerBug, ResourceError, TileLangError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.passes.base import Pass, PassContext
from tilelang.records import record


@record(slots=True)
class Snapshot:
    """The function after a pass; the first one, named "input", is the function before all passes."""

    name: str
    func: PrimFunc

    @property
    def text(self) -> str:
        """The program as TileLang-looking text."""
        return to_text(self.func)


@reserve_frames
def run_passes(
    func: PrimFunc,
    passes: Sequence[Pass],
    context: PassContext | None = None,
    *,
    snapshots: list[Snapshot] | None = None,
) -> PrimFunc:
    """Runs all passes; where shared memory does not suffice, again with fewer versions of tiles.

    Args:
        func: The input of the first pass.
        passes: In order.
        context: Options and target; defaults if None.
        snapshots: A list to which the input and the result of each pass are appended.
    """
    context = context or PassContext()
    shots: list[Snapshot] = []
    try:
        _run(func, passes, context, shots)
    except ResourceError as error:
        smaller = _with_fewer_versions(context, shots)
        if smaller is None:
            raise
        failed, shots[:] = list(shots), []
        try:
            _run(func, passes, smaller, shots)
        except ResourceError:
            if smaller.prefetch_loops is context.prefetch_loops:  # what the user asked for does not fit
                shots[:] = failed
                raise error from None
            raise
    finally:
        if snapshots is not None:
            snapshots += shots
    return shots[-1].func


def _run(func: PrimFunc, passes: Sequence[Pass], context: PassContext, shots: list[Snapshot]) -> None:
    checking = environment_flag("TILELANG_CHECK")
    shots.append(Snapshot("input", func))
    for step in passes:
        if func.level is not step.reads:
            raise CompilerBug(f"pass {step.name}: reads {step.reads.value} level, got {func.level.value} level")
        before = func
        with func.loc:
            func = step.run(func, context)
        if checking:
            _check_level(func, step)
            if func is not before:
                _verify(func, step, context)
        shots.append(Snapshot(step.name, func))


def _with_fewer_versions(context: PassContext, shots: Sequence[Snapshot]) -> PassContext | None:
    """The context in which fewer versions of tiles are the compiler's choice; None if it has chosen none.

    Stages of copies that a user asks for are kept, but not versions of tiles of parallel loops, nor the stages of a
    schedule, which is chosen before layouts are known: conversions between them, and threads that exchange values, take
    shared memory, too.
    """
    launches = _launches(shots[-1].func)
    if any(launch.plan.prefetch_loops for launch in launches):
        return dataclasses.replace(context, prefetch_loops=False)
    of_block = next(shot.func for shot in reversed(shots) if shot.func.level is Level.TILE)
    tiles = {tile for launch in _launches(of_block) for tile in _shared_tiles(launch)}
    needed = [
        launch.plan.conversion_bytes + sum(tile.bytes or 0 for tile in _shared_tiles(launch) if tile not in tiles)
        for launch in launches
        if launch.plan.schedule is not None
    ]
    return dataclasses.replace(context, conversion_bytes=max(needed)) if any(needed) else None


def _launches(func: PrimFunc) -> list[Launch]:
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]


def _shared_tiles(launch: Launch) -> list[Buffer]:
    allocated = (stmt.buffer for stmt in walk(launch.body) if isinstance(stmt, Alloc))
    return [buffer for buffer in allocated if buffer.scope is Scope.SHARED and buffer.view_of is None]


def _check_level(func: PrimFunc, step: Pass) -> None:
    if func.level is not step.writes:
        raise CompilerBug(f"pass {step.name}: writes {step.writes.value} level, but gave {func.level.value} level")


def _verify(func: PrimFunc, step: Pass, context: PassContext) -> None:
    try:
        verify(func, warp_size=context.target.machine.warp_size)
    except TileLangError as error:
        raise CompilerBug(f"after pass {step.name}: {error.message}", loc=error.loc) from error
