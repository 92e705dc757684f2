"""Where to split a loop so that tests on its variable hold throughout the middle part.

Takes a loop and comparisons found in its body, gives a `Split`. Invariant: in `[begin, end)` every test of the split
holds; splitting never changes the order of iterations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from tilelang.analysis.strides import coefficient
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Atomic, Bind, Break, CallStmt, For, Print, Stmt
from tilelang.ir.visit import jumps, substitute, walk, walk_expr
from tilelang.records import record

_MOST_STATEMENTS = 24  # a longer body is not worth having two or three times
_FLIPPED = {BinaryOp.LT: BinaryOp.GT, BinaryOp.GT: BinaryOp.LT, BinaryOp.LE: BinaryOp.GE, BinaryOp.GE: BinaryOp.LE}


@record(frozen=False)
class Split:
    """What the tests in a loop's body say about its variable.

    Attributes:
        invariant: Tests that do not depend on the variable.
        lower: Ends of the range from below, each with the tests that ask for it.
        upper: Ends of the range from above.
    """

    invariant: list[Expr] = field(default_factory=list)
    lower: dict[ExprKey, tuple[Expr, list[Expr]]] = field(default_factory=dict)
    upper: dict[ExprKey, tuple[Expr, list[Expr]]] = field(default_factory=dict)

    @property
    def varying(self) -> list[Expr]:
        """The tests that hold between the ends."""
        return [test for _, tests in (*self.lower.values(), *self.upper.values()) for test in tests]


def plan_split(loop: For, tests: Iterable[Expr]) -> Split:
    """Sorts the tests that a loop can be split at; leaves out those that it cannot."""
    split = Split()
    if loop.step != 1 or not _is_splittable(loop):
        return split
    defined = _defined(loop.body)
    for test in tests:
        if not isinstance(test, Binary) or test.op not in _FLIPPED or not (test.a.is_index and test.b.is_index):
            continue
        if any(isinstance(e, Load) or isinstance(e, Var) and e in defined for e in walk_expr(test)):
            continue
        _sort(split, test, loop.var)
    return split


def _sort(split: Split, test: Binary, var: Var) -> None:
    a, b = coefficient(test.a, var), coefficient(test.b, var)
    if a is None or b is None:
        return
    factor, op = a - b, test.op
    if factor == 0:
        split.invariant.append(test)
        return
    zero = {var: const(0, var.dtype)}
    room = substitute(test.b, zero) - substitute(test.a, zero)  # factor * var op room
    if factor < 0:
        factor, op, room = -factor, _FLIPPED[op], -room
    if op in (BinaryOp.LE, BinaryOp.GT):
        room = room + 1  # v <= r is v < r + 1, and v > r is v >= r + 1
    end = room if factor == 1 else (room + (factor - 1)) // factor
    ends = split.upper if op in (BinaryOp.LT, BinaryOp.LE) else split.lower
    ends.setdefault(expr_key(end), (end, []))[1].append(test)


def _is_splittable(loop: For) -> bool:
    statements = list(walk(loop.body))
    if len(statements) > _MOST_STATEMENTS or any(isinstance(s, CallStmt | Print) for s in statements):
        return False
    return not jumps(loop.body, Break)


def _defined(body: Stmt) -> set[Var]:
    found: set[Var] = set()
    for stmt in walk(body):
        if isinstance(stmt, For | Bind):
            found.add(stmt.var)
        elif isinstance(stmt, Atomic) and stmt.result is not None:
            found.add(stmt.result)
    return found
