"""Gives minima and maxima of a whole kernel the meaning that they have in published TileLang: NaN operands are dropped.

Takes a function and the option `tl.nan_propagate`, gives the same function where that is not False. Invariant: integers
are not concerned; a value held between two bounds, as by `T.clamp`, stays NaN.
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


def drop_nan(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The function as the option wants it."""
    return func if context.options.nan_propagate else with_body(func, _DropNan().visit(func.body))


class _DropNan(Rewriter):
    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op in DROPS_NAN and node.dtype.is_float:
            inner = node.a
            a, b = self.expr(inner), self.expr(node.b)
            made = binary(DROPS_NAN[node.op], a, b)
            is_clamp = node.op is BinaryOp.MIN and isinstance(inner, Binary) and inner.op is BinaryOp.MAX
            if is_clamp and isinstance(inner, Binary):
                held = self.expr(inner.a)
                return select(binary(BinaryOp.NE, held, held), held, made)
            return made
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        return dataclasses.replace(made, nan_propagate=False) if isinstance(made, Reduce) else made


PASS = Pass(
    "drop_nan", drop_nan, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
)
