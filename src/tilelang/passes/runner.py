"""Runs a tuple of passes in order, and keeps the program after each of them for whoever asked to see it.

Invariant: with `TILELANG_CHECK=1` in the environment (the tests set it) every pass leaves a function that
`ir.verify` accepts; a pass that does not is named in the error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import CompilerBug, TileLangError
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.verify import verify
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
    """The function after all passes.

    Args:
        func: What the first pass reads.
        passes: In order.
        context: Options; none by default.
        snapshots: A list that receives the input and the result of each pass.
    """
    context = context or PassContext()
    checking = environment_flag("TILELANG_CHECK")
    if snapshots is not None:
        snapshots.append(Snapshot("input", func))
    for step in passes:
        if func.level is not step.reads:
            raise CompilerBug(f"pass {step.name}: reads {step.reads.value} level, got {func.level.value} level")
        with func.loc:
            func = step.run(func, context)
        if checking:
            _verify(func, step)
        if snapshots is not None:
            snapshots.append(Snapshot(step.name, func))
    return func


def _verify(func: PrimFunc, step: Pass) -> None:
    if func.level is not step.writes:
        raise CompilerBug(f"pass {step.name}: promised {step.writes.value} level, left {func.level.value} level")
    try:
        verify(func)
    except TileLangError as error:
        raise CompilerBug(f"after pass {step.name}: {error.message}", loc=error.loc) from error
