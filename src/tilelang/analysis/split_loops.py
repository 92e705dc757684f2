"""Loop splitting (index set splitting): where to split a loop so that checks on its variable hold in the middle part.

Takes a loop and comparisons found in its body, gives a `Split`. Invariant: in `[begin, end)` every check of the split
holds; splitting never changes the order of iterations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from tilelang.analysis.strides import coefficient
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Break, CallStmt, For, Print
from tilelang.ir.visit import defined_variables, jumps, substitute, walk, walk_expr
from tilelang.records import record

_MAX_STATEMENTS = 24  # longer bodies are not duplicated
_FLIPPED = {BinaryOp.LT: BinaryOp.GT, BinaryOp.GT: BinaryOp.LT, BinaryOp.LE: BinaryOp.GE, BinaryOp.GE: BinaryOp.LE}


@record(frozen=False)
class Split:
    """The bounds that checks in a loop's body imply for its variable.

    Attributes:
        invariant: Checks that do not depend on the variable.
        lower: Lower bounds, each with the checks that imply it.
        upper: Upper bounds, each with the checks that imply it.
    """

    invariant: list[Expr] = field(default_factory=list)
    lower: dict[ExprKey, tuple[Expr, list[Expr]]] = field(default_factory=dict)
    upper: dict[ExprKey, tuple[Expr, list[Expr]]] = field(default_factory=dict)

    @property
    def varying(self) -> list[Expr]:
        """The checks that hold between the bounds."""
        return [test for _, tests in (*self.lower.values(), *self.upper.values()) for test in tests]


def plan_split(loop: For, tests: Iterable[Expr]) -> Split:
    """The checks that a loop can be split at, as bounds; others are left out."""
    split = Split()
    if loop.step != 1 or not _is_splittable(loop):
        return split
    defined = {var for stmt in walk(loop.body) for var in defined_variables(stmt)}
    for test in tests:
        if not isinstance(test, Binary) or test.op not in _FLIPPED or not (test.a.is_index and test.b.is_index):
            continue
        if any(isinstance(e, Load) or isinstance(e, Var) and e in defined for e in walk_expr(test)):
            continue
        _add_bound(split, test, loop.var)
    return split


def _add_bound(split: Split, test: Binary, var: Var) -> None:
    a, b = coefficient(test.a, var), coefficient(test.b, var)
    if a is None or b is None:
        return
    factor, op = a - b, test.op
    if factor == 0:
        split.invariant.append(test)
        return
    zero = {var: const(0, var.dtype)}
    limit = substitute(test.b, zero) - substitute(test.a, zero)  # factor * var op limit
    if factor < 0:
        factor, op, limit = -factor, _FLIPPED[op], -limit
    if op in (BinaryOp.LE, BinaryOp.GT):
        limit = limit + 1  # v <= r is v < r + 1, and v > r is v >= r + 1
    bound = limit if factor == 1 else (limit + (factor - 1)) // factor
    bounds = split.upper if op in (BinaryOp.LT, BinaryOp.LE) else split.lower
    bounds.setdefault(expr_key(bound), (bound, []))[1].append(test)


def _is_splittable(loop: For) -> bool:
    statements = list(walk(loop.body))
    if len(statements) > _MAX_STATEMENTS or any(isinstance(s, CallStmt | Print) for s in statements):
        return False
    return not jumps(loop.body, Break)
