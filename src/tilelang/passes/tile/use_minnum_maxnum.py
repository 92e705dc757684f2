"""Replaces min and max by minNum and maxNum, which drop NaN operands, if `tl.nan_propagate` is False.

That is the meaning of min and max in published TileLang. Invariant: integers are unchanged; `T.clamp` and other
`min(max(x, a), b)` of a NaN stay NaN.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.expr import Binary, Expr, binary, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import DROPS_NAN, BinaryOp
from tilelang.ir.stmt import Stmt
from tilelang.ir.visit import Rewriter
from tilelang.ops.reduce import Reduce
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def use_minnum_maxnum(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The function, rewritten unless `nan_propagate` is set."""
    return func if context.options.nan_propagate else with_body(func, _UseMinNum().visit(func.body))


class _UseMinNum(Rewriter):
    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op in DROPS_NAN and node.dtype.is_float:
            inner = node.a
            a, b = self.expr(inner), self.expr(node.b)
            dropping_nan = binary(DROPS_NAN[node.op], a, b)
            is_clamp = node.op is BinaryOp.MIN and isinstance(inner, Binary) and inner.op is BinaryOp.MAX
            if is_clamp and isinstance(inner, Binary):
                clamped = self.expr(inner.a)
                return select(binary(BinaryOp.NE, clamped, clamped), clamped, dropping_nan)
            return dropping_nan
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        return dataclasses.replace(rebuilt, nan_propagate=False) if isinstance(rebuilt, Reduce) else rebuilt


PASS = Pass(
    "use_minnum_maxnum", use_minnum_maxnum, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
)
