"""What is known where a statement stands: ranges, the values of names, and conditions.

Takes statements in program order, gives an `Around` for each place. Invariant: the same for a place in every walk over
a program; what is told of names and conditions holds in all threads, and is index arithmetic that reads no memory.
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
class Around:
    """What is known at a place.

    Attributes:
        domain: Ranges and facts.
        values: Of names of index arithmetic.
        conditions: Of the branches around and promises before, as far as they are plain.
    """

    domain: Domain
    values: Mapping[Var, Expr]
    conditions: tuple[Expr, ...]


class Surroundings:
    """Goes from place to place, and remembers what it found."""

    def __init__(self) -> None:
        self._known: dict[tuple[Stmt, bool], Around] = {}

    def behind(self, stmt: Stmt, around: Around) -> Around:
        """After a statement."""
        if isinstance(stmt, Assume):
            return self._knowing((stmt, False), exactly(stmt.value), around)
        if not isinstance(stmt, Bind) or not stmt.var.index or not stmt.value.is_index:
            return around
        if (known := self._known.get((stmt, False))) is None:
            value = plain(stmt.value, around.values)
            values = around.values if value is None else {**around.values, stmt.var: value}
            known = self._known[stmt, False] = dataclasses.replace(around, values=values)
        return known

    def inside(self, loop: For | While, around: Around) -> Around:
        """In the body of a loop."""
        if not isinstance(loop, For):
            return around
        if (known := self._known.get((loop, True))) is None:
            domain = around.domain.with_loop(loop.var, loop.start, loop.stop, loop.step)
            known = self._known[loop, True] = dataclasses.replace(around, domain=domain)
        return known

    def under(self, branch: If, around: Around, *, holds: bool) -> Around:
        """Where the condition of a branch holds, or where it does not."""
        condition = branch.condition if holds else unary(UnaryOp.NOT, branch.condition)
        return self._knowing((branch, holds), condition, around)

    def _knowing(self, place: tuple[Stmt, bool], condition: Expr, around: Around) -> Around:
        if (known := self._known.get(place)) is None:
            value = plain(condition, around.values)
            known = around
            if value is not None:
                known = Around(around.domain.assume(value), around.values, (*around.conditions, value))
            self._known[place] = known
        return known
