"""Drops loops without iterations, such as `for i in T.serial(0)`.

Takes a tile-level function. Invariant: what the program computes is the same. Later passes prove facts about the bodies
of loops from the ranges of their variables, and of a variable without values everything can be proven.
"""

from __future__ import annotations

from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


class _Drop(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        return None if _is_empty(node) else self.rebuild_stmt(node)


def _is_empty(stmt: Stmt) -> bool:
    match stmt:
        case For(start=start, stop=stop, step=step):
            first, last = int_const(start), int_const(stop)
            return first is not None and last is not None and not range(first, last, step)
        case ParallelLoop(extents=extents):
            return any(extent is not None and extent <= 0 for extent in map(int_const, extents))
    return False


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Drop().visit(func.body))


PASS = Pass(
    "drop_empty_loops", _run, Level.TILE, Level.TILE,
    requires=(Property.SUBSCRIPTS_AFFINE,),
)
