"""`Pass`: a named, pure function from `PrimFunc` to `PrimFunc`; `PassContext`: its other inputs.

`with_body` and `with_launches` build a pass's result.
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
    """Inputs of a pass besides the function.

    Attributes:
        options: Compile options of the user.
        target: The target to compile for.
        prefetch_loops: Whether software pipelines may prefetch by parallel loops that copy, with a version of
            their tiles per stage.
        conversion_bytes: Shared memory of a block that a schedule leaves for conversions of layouts, and for values
            that threads exchange.
    """

    options: CompileOptions = CompileOptions()
    target: Target = Target("cpu")
    prefetch_loops: bool = True
    conversion_bytes: int = 0


@record(slots=True)
class Pass:
    """One pass of a pipeline.

    Attributes:
        name: As shown by `kernel.show_ir()`; equals the module's name.
        run: The function of the pass; pure.
        reads: Level of its input.
        writes: Level of its result.
        requires: Properties of its input, checked by `properties.build_pipeline`.
        establishes: Properties of its result.
        invalidates: Properties that its result may lack; all others are preserved.
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
        """The first sentence of its module's docstring, without the full stop."""
        text = " ".join((sys.modules[self.run.__module__].__doc__ or "").split("\n\n")[0].split())
        return text.removesuffix(".")


def with_body(func: PrimFunc, body: Stmt | None) -> PrimFunc:
    """The function with another body, None for an empty one; the same object if the body is the same."""
    body = body or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


def with_launches(func: PrimFunc, step: Callable[[Launch], Stmt | None]) -> PrimFunc:
    """The function with each launch replaced by `step(launch)`; the same object if no launch changes."""
    return with_body(func, _Launches(step).visit(func.body))


class _Launches(Rewriter):
    def __init__(self, step: Callable[[Launch], Stmt | None]) -> None:
        self._step = step

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._step(node) if isinstance(node, Launch) else self.rebuild_stmt(node)
