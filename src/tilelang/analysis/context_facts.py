"""Facts that hold at a program point: ranges, values of bound variables, and conditions.

Takes statements in program order, gives the `ContextFacts` at each program point. Invariant: every walk over a program
gets the same object for the same point; values and conditions hold in all threads and read no memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.analysis.thread_accesses import plain
from tilelang.arith.domain import Domain
from tilelang.arith.exact import exactly
from tilelang.ir.assumption import Assume
from tilelang.ir.expr import Expr, Var, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Bind, For, If, Stmt, While
from tilelang.records import record


@record(slots=True)
class ContextFacts:
    """Facts that hold at a program point.

    Attributes:
        domain: Ranges and proven facts.
        values: Values of bound index variables.
        conditions: Conditions of enclosing branches and of preceding `T.assume`, where they read no memory.
    """

    domain: Domain
    values: Mapping[Var, Expr]
    conditions: tuple[Expr, ...]


class FactPropagation:
    """Derives the facts at a program point from those at its predecessor, with a cache."""

    def __init__(self) -> None:
        self._known: dict[tuple[Stmt, bool], ContextFacts] = {}

    def after(self, stmt: Stmt, facts: ContextFacts) -> ContextFacts:
        """The facts after a statement."""
        if isinstance(stmt, Assume):
            return self._assuming((stmt, False), exactly(stmt.value), facts)
        if not isinstance(stmt, Bind) or not stmt.var.index or not stmt.value.is_index:
            return facts
        if (cached := self._known.get((stmt, False))) is None:
            value = plain(stmt.value, facts.values)
            values = facts.values if value is None else {**facts.values, stmt.var: value}
            cached = self._known[stmt, False] = dataclasses.replace(facts, values=values)
        return cached

    def in_body(self, loop: For | While, facts: ContextFacts) -> ContextFacts:
        """The facts in the body of a loop."""
        if not isinstance(loop, For):
            return facts
        if (cached := self._known.get((loop, True))) is None:
            domain = facts.domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
            cached = self._known[loop, True] = dataclasses.replace(facts, domain=domain)
        return cached

    def in_branch(self, branch: If, facts: ContextFacts, *, holds: bool) -> ContextFacts:
        """The facts where the condition of a branch holds, or where it does not."""
        condition = branch.condition if holds else unary(UnaryOp.NOT, branch.condition)
        return self._assuming((branch, holds), condition, facts)

    def _assuming(self, key: tuple[Stmt, bool], condition: Expr, facts: ContextFacts) -> ContextFacts:
        if (cached := self._known.get(key)) is None:
            value = plain(condition, facts.values)
            cached = facts
            if value is not None:
                cached = ContextFacts(facts.domain.assume(value), facts.values, (*facts.conditions, value))
            self._known[key] = cached
        return cached
