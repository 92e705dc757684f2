"""Binds what an inner loop of a nest would compute in each iteration, in the loop around it.

    for w:                                            for w:
        for v:                                   =>       alpha = exp2(old[w] - new[w])
            O[w * 8 + v] *= exp2(old[w] - new[w])         for v:
                                                              O[w * 8 + v] *= alpha

A compiler of GPU code does this only after it has unrolled the loops, with a copy of the expression for each element,
which takes time; and of inline PTX all copies remain. Invariant: the same results; only operations that have one for
all operands are taken out of the selections around them.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, loads_of, variables_of, walk_expr

_NAME = "row_value"
_PARTIAL = frozenset(
    {BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD, BinaryOp.SHL, BinaryOp.SHR}
)


def bind_invariants(nest: Stmt) -> Stmt:
    """The nest with bindings in the outermost loop, if it is loops around one store."""
    loops: list[For] = []
    inner = nest
    while isinstance(inner, For):
        loops.append(inner)
        inner = inner.body
    if len(loops) < 2 or not isinstance(inner, Store):
        return nest
    bindings = _Bindings(frozenset(loop.var for loop in loops[1:]), inner)
    body: Stmt = dataclasses.replace(inner, value=bindings.expr(inner.value))
    if not bindings.found:
        return nest
    for loop in reversed(loops[1:]):
        body = dataclasses.replace(loop, body=body)
    return dataclasses.replace(loops[0], body=Seq((*bindings.found.values(), body), loc=nest.loc))


class _Bindings(Rewriter):
    """Replaces the invariant parts of the value of a store by variables.

    Attributes:
        found: Their bindings, by structure.
    """

    def __init__(self, inner: frozenset[Var], store: Store) -> None:
        self._inner, self._store = inner, store
        self.found: dict[ExprKey, Bind] = {}

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Const | Var | Load):
            return node
        if not self._is_invariant(node):
            return self.rebuild_expr(node)
        key = expr_key(node)
        if key not in self.found:
            self.found[key] = Bind(Var(_NAME, node.dtype), node, loc=self._store.loc)
        return self.found[key].var

    def _is_invariant(self, node: Expr) -> bool:
        if not self._inner.isdisjoint(variables_of(node)):
            return False
        if any(load.buffer.storage is self._store.buffer.storage for load in loads_of(node)):
            return False
        return not any(isinstance(e, Binary) and e.op in _PARTIAL for e in walk_expr(node))
