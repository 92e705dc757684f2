"""Eliminates common subexpressions: what an expression computes or loads more than once is assigned to a variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tilelang.arith.simplify import cost
from tilelang.ir.compare import ExprKey, KeyedExpr, expr_key
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.visit import Rewriter, children
from tilelang.records import record

_MIN_COST = 4  # by `arith.simplify.cost`, of a repeated expression that gets a variable


@record(eq=False)
class Assignment:
    """`var = value`."""

    var: Var
    value: Expr


def hoist_common_subexpressions(expr: Expr) -> tuple[list[Assignment], Expr]:
    """Assignments of the repeated parts of an expression, in order, and the expression over their variables."""
    assignments: list[Assignment] = []  # innermost last: earlier ones may use later ones
    roots = [expr]
    while (repeated := _largest_repeated(roots)) is not None:
        name = f"{repeated.expr.buffer.name}_value" if isinstance(repeated.expr, Load) else "value"
        var = Var(name, repeated.expr.dtype)
        replace = ReplaceExprs({repeated: var})
        roots = [*(replace.expr(root) for root in roots), repeated.expr]
        assignments.append(Assignment(var, repeated.expr))
    values = roots[1:]
    return [Assignment(each.var, value) for each, value in zip(assignments, values, strict=True)][::-1], roots[0]


def _largest_repeated(roots: Sequence[Expr]) -> KeyedExpr | None:
    counts: Counter[KeyedExpr] = Counter(KeyedExpr(node) for root in roots for node in _nodes(root))
    repeated = [key for key, count in counts.items() if count > 1]
    return max(repeated, key=lambda key: cost(key.expr), default=None)


def _nodes(expr: Expr) -> Iterator[Expr]:
    """The candidate subexpressions; indices and conditions are none."""
    if expr.is_index or expr.dtype.is_bool:
        return
    if cost(expr) >= _MIN_COST and not (isinstance(expr, Load) and expr.buffer.scope.on_chip):
        yield expr
    if not isinstance(expr, Load):
        for child in children(expr):
            yield from _nodes(child)


class ReplaceExprs(Rewriter):
    """Replaces expressions, found by their structure."""

    def __init__(self, replacements: Mapping[ExprKey, Expr]) -> None:
        self._replacements = replacements

    def expr(self, node: Expr) -> Expr:
        """An expression with parts replaced."""
        found = self._replacements.get(expr_key(node))
        return self.rebuild_expr(node) if found is None else found
