"""Runs a tuple of passes in order, and keeps the program after each of them for whoever asked to see it.

Invariant: with `TILELANG_CHECK=1` in the environment (the tests set it) every pass leaves a function that
`ir.verify` accepts; a pass that does not is named in the error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.errors import CompilerBug, ResourceError, TileLangError
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Launch
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.options import environment_flag
from tilelang.passes.base import Pass, PassContext
from tilelang.records import record


@record(slots=True)
class Snapshot:
    """The program as it left a pass; the first one, named "input", is what the user wrote."""

    name: str
    func: PrimFunc

    @property
    def text(self) -> str:
        """The program as TileLang-looking text."""
        return to_text(self.func)


def run_passes(
    func: PrimFunc,
    passes: Sequence[Pass],
    context: PassContext | None = None,
    *,
    snapshots: list[Snapshot] | None = None,
) -> PrimFunc:
    """The function after all passes; a second time with less shared memory where the first attempt takes too much.

    Args:
        func: What the first pass reads.
        passes: In order.
        context: Options; none by default.
        snapshots: A list that receives the input and the result of each pass.
    """
    context = context or PassContext()
    shots: list[Snapshot] = []
    try:
        _run(func, passes, context, shots)
    except ResourceError:
        # the user asked for the stages of copies, but it was the compiler that made copies of parallel loops
        if not _loops_ahead(shots[-1].func):
            raise
        shots.clear()
        _run(func, passes, dataclasses.replace(context, prefetch_loops=False), shots)
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
        with func.loc:
            func = step.run(func, context)
        if checking:
            _verify(func, step, context)
        shots.append(Snapshot(step.name, func))


def _loops_ahead(func: PrimFunc) -> bool:
    """Whether parallel loops run ahead in pipelines."""
    return any(isinstance(s, Launch) and s.plan.prefetch_loops for s in walk(func.body))


def _verify(func: PrimFunc, step: Pass, context: PassContext) -> None:
    if func.level is not step.writes:
        raise CompilerBug(f"pass {step.name}: promised {step.writes.value} level, left {func.level.value} level")
    try:
        verify(func, warp_size=context.target.machine.warp_size)
    except TileLangError as error:
        raise CompilerBug(f"after pass {step.name}: {error.message}", loc=error.loc) from error
