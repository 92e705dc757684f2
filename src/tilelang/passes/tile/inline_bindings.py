"""Inlines bindings of index arithmetic, so that subscripts are affine expressions of loop variables.

Only bindings of index arithmetic without loads are inlined: their value is the same at every use.
"""

from __future__ import annotations

from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Bind, Stmt
from tilelang.ir.visit import Rewriter, loads_of
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


class _Inline(Rewriter):
    def __init__(self) -> None:
        self._values: dict[Var, Expr] = {}

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Var):
            return self._values.get(node, node)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Bind) and node.var.index and node.value.is_index:
            value = self.expr(node.value)
            if not loads_of(value):
                self._values[node.var] = value
                return None
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Inline().visit(func.body))


PASS = Pass(
    "inline_bindings", _run, Level.TILE, Level.TILE,
    requires=(Property.NO_LIBRARY_OPERATORS,),
    establishes=(Property.SUBSCRIPTS_AFFINE,),
)
