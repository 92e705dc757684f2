"""Makes pipelined loops serial ones, for machines where nothing copies while threads go on.

Takes a tile-level function, gives one without pipelined loops, whose iterations run one after another.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, ForKind, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


class _InOrder(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        if isinstance(rebuilt, For) and rebuilt.kind is ForKind.PIPELINED:
            return dataclasses.replace(rebuilt, kind=ForKind.SERIAL, pipeline=None)
        return rebuilt


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _InOrder().visit(func.body))


PASS = Pass(
    "run_in_order", _run, Level.TILE, Level.TILE,
    requires=(Property.LOWERINGS_CHOSEN,),
    establishes=(Property.NO_PIPELINED_LOOPS,),
)
