"""What a pass is: a named, pure step from one function to the next, and what it may know besides the function.

Gives `Pass`, `PassContext`, and how most passes give the next function: `with_body` and `with_launches`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.options import CompileOptions
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.target import Target


@record
class PassContext:
    """What passes may ask about beside the program.

    Attributes:
        options: What the user asked for.
        target: What is compiled for.
        prefetch_loops: Whether parallel loops that copy may run ahead in pipelines, with more versions of their tiles.
    """

    options: CompileOptions = CompileOptions()
    target: Target = Target("cpu")
    prefetch_loops: bool = True


@record(slots=True)
class Pass:
    """One step of a pipeline.

    Attributes:
        name: As shown by `kernel.show_ir()`; equals the module's name.
        run: The step itself; pure.
        reads: Level of the functions it takes.
        writes: Level of the functions it gives.
        requires: What must hold of the functions it takes; `properties.in_order` checks it when a pipeline is built.
        establishes: What holds of the functions it gives.
        invalidates: What need not hold of them any more; everything else stays as it was.
    """

    name: str
    run: Callable[[PrimFunc, PassContext], PrimFunc]
    reads: Level
    writes: Level
    requires: tuple[Property, ...] = ()
    establishes: tuple[Property, ...] = ()
    invalidates: tuple[Property, ...] = ()

    @property
    def summary(self) -> str:
        """What it does: the first sentence of its module's documentation, without the full stop."""
        text = " ".join((sys.modules[self.run.__module__].__doc__ or "").split("\n\n")[0].split())
        return text.removesuffix(".")


def with_body(func: PrimFunc, body: Stmt | None) -> PrimFunc:
    """The function with another body, of which nothing may be left; the same function if that is the same body."""
    body = body or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


def with_launches(func: PrimFunc, step: Callable[[Launch], Stmt | None]) -> PrimFunc:
    """The function with what a step makes of each launch; the same function if no launch changes."""
    return with_body(func, _Launches(step).visit(func.body))


class _Launches(Rewriter):
    def __init__(self, step: Callable[[Launch], Stmt | None]) -> None:
        self._step = step

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._step(node) if isinstance(node, Launch) else self.rebuild_stmt(node)
