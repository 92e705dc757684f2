"""Finds comparisons that are the same for all lanes of a vectorized loop, because they change between vectors only.

    for w in vectorized(8):                       for w in vectorized(8):
        s[i * 8 + w] = x[..] if i * 8 + w < 64    =>    s[i * 8 + w] = x[..] if i * 8 < 64

Takes the body of a loop, gives one with the same meaning in which these comparisons are loop-invariant.
"""

from __future__ import annotations

from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.expr import Binary, Expr, Var, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Stmt
from tilelang.ir.visit import Rewriter, substitute, variables_of

_ORDERINGS = frozenset({BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})


def with_uniform_conditions(body: Stmt, lane: Var, lanes: int, domain: Domain) -> Stmt:
    """The body of a loop over lanes with loop-invariant comparisons in place of those that are the same for all lanes.

    Args:
        body: The body.
        lane: The loop's variable, from 0.
        lanes: The number of iterations.
        domain: What holds around the loop.
    """
    return _Uniform(lane, lanes, domain).stmt(body) or body


class _Uniform(Rewriter):
    def __init__(self, lane: Var, lanes: int, domain: Domain) -> None:
        self._lane, self._lanes, self._domain = lane, lanes, domain

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op in _ORDERINGS and node.a.is_index and node.b.is_index:
            if self._lane in variables_of(node) and self._is_uniform(node):
                return substitute(node, {self._lane: const(0, self._lane.dtype)})
            return node
        return self.rebuild_expr(node)

    def _is_uniform(self, node: Binary) -> bool:
        """Whether a comparison `difference < 0` is the same for all lanes.

        With a multiple m of the number of lanes, so are `m + lane < 0` and `m - 1 - lane < 0`.
        """
        a, b = (node.a, node.b) if node.op in (BinaryOp.LT, BinaryOp.LE) else (node.b, node.a)
        difference = a - b if node.op in (BinaryOp.LT, BinaryOp.GT) else a - b - 1
        linear = analysis_of(self._domain).sum(difference)
        others = dict(linear.terms)
        slope = others.pop((KeyedExpr(self._lane),), 0)
        if slope not in (1, -1) or any(self._lane in variables_of(key.expr) for term in others for key in term):
            return False
        constant = linear.constant if slope == 1 else linear.constant + 1
        return not any(value % self._lanes for value in (constant, *others.values()))
