"""Lowers tile operators and parallel loops to loops and calls: from tile level to thread level.

Takes the table of lowerings of a target on which one thread executes a block; gives the pass. Parallel loops become
serial ones in row-major order, also those that lowerings emit.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.builder import Builder
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, ForKind, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, substitute_stmt
from tilelang.lowering.lowering import ExpandsTiles, LoweringContext, Lowerings, chosen_lowering
from tilelang.lowering.regions import ZERO
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def lower_tile_ops(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        lower = _Lower(lowerings, LoweringContext(context.target, context.options, threads=1))
        return dataclasses.replace(with_body(func, lower.visit(func.body)), level=Level.THREAD)

    return Pass(
        "lower_tile_ops", run, Level.TILE, Level.THREAD,
        requires=(Property.NO_LIBRARY_OPERATORS, Property.SUBSCRIPTS_AFFINE, Property.LOWERINGS_CHOSEN),
        invalidates=(Property.OPERATORS_UNEXPANDED,),
    )


class _Lower(Rewriter):
    def __init__(self, lowerings: Lowerings, context: LoweringContext) -> None:
        self._lowerings, self._context = lowerings, context

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case TileOp():
                return self._operator(node)
            case ParallelLoop():
                return self._parallel(node)
            case For(kind=ForKind.PIPELINED):
                serial = dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None)
                return self.rebuild_stmt(serial)
        return self.rebuild_stmt(node)

    def _operator(self, op: TileOp) -> Stmt | None:
        row, plan = chosen_lowering(self._lowerings, op)
        build = Builder(op.loc)
        if isinstance(row, ExpandsTiles):
            row.expand(op, build)
        else:
            row.lower(op, plan, self._context, build)
        return self.visit(build.finish())

    def _parallel(self, node: ParallelLoop) -> Stmt:
        """A parallel loop as serial loops in row-major order, but for those of one iteration."""
        body = self.visit(node.body) or Seq((), loc=node.body.loc)
        zeros = {var: ZERO for var, extent in zip(node.vars, node.extents, strict=True) if int_const(extent) == 1}
        body = substitute_stmt(body, zeros) if zeros else body
        for var, extent in zip(reversed(node.vars), reversed(node.extents), strict=True):
            if var in zeros:
                continue
            body = For(var, ZERO, extent, 1, ForKind.SERIAL, body, loc=node.loc)
        return body
