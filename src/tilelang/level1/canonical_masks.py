"""Canonicalizes masks: a select between a value and a literal has the value first.

`where((a < b) | c, -inf, x)` becomes `where(a >= b and not c, x, -inf)`, the form that `loop_bounds.py` and
`visited_tiles.py` match. Comparisons of floats are not negated, since the negation differs for NaN.
"""

from __future__ import annotations

import dataclasses

from tilelang.arith.interval import NEGATED
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Unary, binary, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import Rewriter
from tilelang.level1.fused import FusedKernel

_LOGICAL = {BinaryOp.BITAND: BinaryOp.AND, BinaryOp.BITOR: BinaryOp.OR}
_DUAL = {BinaryOp.AND: BinaryOp.OR, BinaryOp.OR: BinaryOp.AND}


def with_canonical_masks(kernel: FusedKernel) -> FusedKernel:
    """The kernel with the masks of its reductions in canonical form."""
    form = _Canonicalizer()
    return dataclasses.replace(
        kernel, reductions=tuple(dataclasses.replace(each, body=form.expr(each.body)) for each in kernel.reductions)
    )


class _Canonicalizer(Rewriter):
    def expr(self, node: Expr) -> Expr:
        node = self.rebuild_expr(node)
        match node:
            case Binary(op=op, a=a, b=b) if node.dtype.is_bool and op in _LOGICAL:
                return binary(_LOGICAL[op], a, b)
            case Select(condition=condition, a=Const() as literal, b=value) if not isinstance(value, Const):
                negated = _negated(condition)
                return node if negated is None else select(negated, value, literal)
        return node


def _negated(condition: Expr) -> Expr | None:
    """The negation of a comparison of integers, or of a bool in memory; None of other conditions."""
    match condition:
        case Unary(op=UnaryOp.NOT, a=a):
            return a
        case Binary(op=op, a=a, b=b) if op in _DUAL:
            x, y = _negated(a), _negated(b)
            return None if x is None or y is None else binary(_DUAL[op], x, y)
        case Binary(op=op, a=a, b=b) if op in NEGATED and a.dtype.is_int:
            return binary(NEGATED[op], a, b)
        case Load() if condition.dtype.is_bool:
            return unary(UnaryOp.NOT, condition)
    return None
