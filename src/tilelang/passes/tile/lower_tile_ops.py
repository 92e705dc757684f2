"""Replaces tile operators and parallel loops by the loops and calls that do them: from tile level to thread level.

Takes the table of lowerings of a target; whatever it has no row for is an error that names the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import INT32
from tilelang.errors import NoLowering
from tilelang.ir.builder import Builder
from tilelang.ir.expr import const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, ForKind, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property

# A lowering takes an instance of its key's class; Python's types cannot say so of a mapping
Lowerings = Mapping[type[TileOp], Callable[[Any, Builder], None]]


def lower_tile_ops(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, _: PassContext) -> PrimFunc:
        body = _Lower(lowerings).visit(func.body) or Seq((), loc=func.body.loc)
        return dataclasses.replace(func, body=body, level=Level.THREAD)

    return Pass(
        "lower_tile_ops", run, Level.TILE, Level.THREAD,
        requires=(Property.NO_LIBRARY_OPERATORS, Property.INDICES_INLINED, Property.TENSORS_DIRECT),
        invalidates=(Property.OPERATORS_WHOLE,),
    )


class _Lower(Rewriter):
    def __init__(self, lowerings: Lowerings) -> None:
        self._lowerings = lowerings

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case TileOp():
                lowering = self._lowerings.get(type(node))
                if lowering is None:
                    raise NoLowering(f"{node.name}: this target has no way to do it")
                build = Builder(node.loc)
                lowering(node, build)
                return build.finish()
            case ParallelLoop():
                return self._parallel(node)
            case For(kind=ForKind.PIPELINED):
                serial = dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None)
                return self.rebuild_stmt(serial)
        return self.rebuild_stmt(node)

    def _parallel(self, node: ParallelLoop) -> Stmt:
        """A nest in row-major order, which is the order that the iterations seem to have."""
        body = self.visit(node.body) or Seq((), loc=node.body.loc)
        for var, extent in zip(reversed(node.vars), reversed(node.extents), strict=True):
            body = For(var, const(0, INT32), extent, 1, ForKind.SERIAL, body, loc=node.loc)
        return body
