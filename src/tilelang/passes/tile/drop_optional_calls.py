"""Drops calls of optional instructions that the target lacks, such as those of programmatic dependent launch.

Takes a tile-level function as written. Invariant: the results are unchanged; instructions that are not optional remain,
and are refused later if the target lacks them.
"""

from __future__ import annotations

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.target import Target


class _Drop(Rewriter):
    def __init__(self, target: Target) -> None:
        self._target = target

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, CallStmt) or not isinstance(node.routine, Instruction) or not node.routine.optional:
            return self.rebuild_stmt(node)
        texts = node.routine.texts  # of one vendor; those of several have none
        has_text = not texts or self._target.kind in texts
        return node if self._target.is_gpu and self._target.has(node.routine.needs) and has_text else None


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_body(func, _Drop(context.target).visit(func.body))


PASS = Pass(
    "drop_optional_calls", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
    establishes=(Property.NO_OPTIONAL_CALLS,),
)
