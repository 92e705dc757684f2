"""Hoists bounds assertions out of loops, so that the loops can be vectorized.

Takes a loop whose body has `Check`s, the assertions of `check_subscripts`; gives the loop after checks of all its
iterations: invariant checks are hoisted, and the others of an innermost loop are evaluated in a separate loop that
records whether one failed. Invariant: where all checks hold, the same effects happen in the same order; where one
fails, the launch stops with the same message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tilelang.analysis.accesses import negation
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, Load, Var, binary, cast, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Assert, Bind, For, ForKind, If, Seq, Stmt, Store
from tilelang.ir.visit import (
    defined_variables,
    jumps,
    substitute,
    variables_of,
    walk,
    walk_expr,
    without,
    written_buffers,
)
from tilelang.records import record

_OF_LANES = (Seq, Bind, Alloc, Store, If)  # statements of vectorizable innermost loops


@record(eq=False)
class Check(Assert):
    """An assertion that an index of on-chip memory is in bounds."""


def check_ahead(loop: For, domain: Domain) -> Stmt:
    """The loop, after those of its checks that can be evaluated before it.

    Args:
        loop: The loop.
        domain: Facts that hold around it.
    """
    if loop.step <= 0 or jumps(loop.body) or not any(isinstance(s, Check) for s in walk(loop.body)):
        return loop
    found = list(_ahead(loop.body, None, _LoopBody(loop)))
    fixed = [(check, condition) for check, condition in found if loop.var not in variables_of(condition)]
    varying = [pair for pair in found if pair not in fixed]
    moved = {check for check, _ in fixed}
    rest = without(loop.body, moved | {check for check, _ in varying})
    if all(isinstance(s, _OF_LANES) for s in walk(rest)):
        moved |= {check for check, _ in varying}
    else:
        rest, varying = without(loop.body, moved), []
    if not moved:
        return loop
    before: list[Stmt] = []
    empty = None if proves(loop.start < loop.stop, domain) else loop.start >= loop.stop
    for check, condition in fixed:
        whole = condition if empty is None else binary(BinaryOp.OR, empty, condition)
        before.append(dataclasses.replace(check, condition=whole))
    return Seq((*before, *_in_a_loop(loop, varying), dataclasses.replace(loop, body=rest)), loc=loop.loc)


class _LoopBody:
    """The variables and buffers that a loop's body changes; conditions on them cannot be hoisted."""

    def __init__(self, loop: For) -> None:
        inside = list(walk(loop.body))
        self._written = {buffer.storage for stmt in inside for buffer in written_buffers(stmt)}
        self._written |= {stmt.buffer.storage for stmt in inside if isinstance(stmt, Alloc)}
        self._defined = {var for stmt in inside for var in defined_variables(stmt)}

    def is_invariant(self, condition: Expr) -> bool:
        """Whether a condition is loop-invariant and can be evaluated before the loop."""
        for expr in walk_expr(condition):
            if expr in self._defined:
                return False
            if isinstance(expr, Load):
                inner = (e for index in expr.indices for e in walk_expr(index))
                if expr.buffer.storage in self._written or any(isinstance(e, Load) for e in inner):
                    return False  # a loaded index has its own check, which has to come first
        return True


def _ahead(node: Stmt, predicate: Expr | None, inside: _LoopBody) -> Iterator[tuple[Check, Expr]]:
    """Checks that can be evaluated before the loop, with their conditions there; none after the user's assertions."""
    for stmt in statements_of(node):
        match stmt:
            case Check(condition=condition) if inside.is_invariant(condition):
                yield stmt, condition if predicate is None else binary(BinaryOp.OR, negation(predicate), condition)
            case If(condition=condition, then_body=then, else_body=other) if inside.is_invariant(condition):
                yield from _ahead(then, _both(predicate, condition), inside)
                if other is not None:
                    yield from _ahead(other, _both(predicate, negation(condition)), inside)
        if any(isinstance(s, Assert) and not isinstance(s, Check) for s in walk(stmt)):
            return


def _in_a_loop(loop: For, checks: Sequence[tuple[Check, Expr]]) -> Iterator[Stmt]:
    """A loop that evaluates checks of all iterations, and their assertions."""
    var = Var(loop.var.name, loop.var.dtype, index=loop.var.index)
    flags, body = [], []
    for check, condition in checks:
        flag = Buffer("outside", (), INT32, Scope.VAR)
        fails = cast(negation(substitute(condition, {loop.var: var})), INT32)
        body.append(Store(flag, (), binary(BinaryOp.BITOR, Load(flag, (), INT32), fails), loc=check.loc))
        flags.append(flag)
        yield Alloc(flag, const(0, INT32), loc=check.loc)
    if checks:
        together = as_body(body, loop.loc)
        yield For(var, loop.start, loop.stop, loop.step, ForKind.SERIAL, together, loc=loop.loc)
    for (check, _), flag in zip(checks, flags, strict=True):
        yield dataclasses.replace(check, condition=binary(BinaryOp.EQ, Load(flag, (), INT32), 0))


def _both(predicate: Expr | None, condition: Expr) -> Expr:
    return condition if predicate is None else binary(BinaryOp.AND, predicate, condition)
