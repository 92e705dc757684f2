"""Names for what an expression computes or reads more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tilelang.arith.simplify import cost
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.visit import Rewriter, children
from tilelang.records import record

_WORTH = 4  # of `arith.simplify.cost`, from which on a repeated expression gets a name


@record(eq=False)
class Binding:
    """`var = value`."""

    var: Var
    value: Expr


def with_bindings(expr: Expr) -> tuple[list[Binding], Expr]:
    """Bindings of the repeated parts of an expression, in order, and the expression over them."""
    bindings: list[Binding] = []  # the innermost last: each may be used by those before it
    roots = [expr]
    while (repeated := _largest_repeated(roots)) is not None:
        name = f"{repeated.expr.buffer.name}_value" if isinstance(repeated.expr, Load) else "value"
        var = Var(name, repeated.expr.dtype)
        replace = _Replace({repeated: var})
        roots = [*(replace.expr(root) for root in roots), repeated.expr]
        bindings.append(Binding(var, repeated.expr))
    values = roots[1:]
    return [Binding(each.var, value) for each, value in zip(bindings, values, strict=True)][::-1], roots[0]


def _largest_repeated(roots: Sequence[Expr]) -> ExprKey | None:
    counts: Counter[ExprKey] = Counter(expr_key(node) for root in roots for node in _nodes(root))
    repeated = [key for key, count in counts.items() if count > 1]
    return max(repeated, key=lambda key: cost(key.expr), default=None)


def _nodes(expr: Expr) -> Iterator[Expr]:
    """The parts of an expression that are worth a name; indices are not."""
    if expr.is_index or expr.dtype.is_bool:
        return
    if cost(expr) >= _WORTH and not (isinstance(expr, Load) and expr.buffer.scope.on_chip):
        yield expr
    if not isinstance(expr, Load):
        for child in children(expr):
            yield from _nodes(child)


class _Replace(Rewriter):
    def __init__(self, values: dict[ExprKey, Var]) -> None:
        self._values = values

    def expr(self, node: Expr) -> Expr:
        known = self._values.get(expr_key(node))
        return self.rebuild_expr(node) if known is None else known
