"""Loads to registers in a branch, else zeros, as loads that select: without the branch.

    if (k < 63)  r[v] = A[k + 1, v]  else  r[v] = 0        =>        r[v] = k < 63 ? A[k + 1, v] : 0

Takes the branch, gives the loads, each of which a buffer load does by an offset beyond its resource. Invariant: the
same values, and the same accesses to memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.analysis.register_accesses import register_accesses
from tilelang.analysis.unrolled_loops import is_unrolled
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Load, Select, conjunction, select
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, If, Stmt, Store
from tilelang.ir.visit import Rewriter


def selected_loads(branch: If, selects: Callable[[Load], bool]) -> Stmt | None:
    """The loads that a branch does, selecting by its condition; None for another branch.

    Args:
        branch: A branch of the program of a thread.
        selects: Whether a load needs no branch of its own where it selects.
    """
    if branch.else_body is None or not _stores(branch.else_body, is_zero):
        return None
    if not _stores(branch.then_body, lambda value: (load := _loaded(value)) is not None and selects(load)):
        return None
    written = _written(branch.then_body)
    if written is None or written != _written(branch.else_body):
        return None
    return _Select(branch.condition).visit(branch.then_body)


def is_zero(value: Expr) -> bool:
    """Whether a value is a constant whose bits are all zero."""
    return isinstance(value, Const) and value.value == 0 and not str(value.value).startswith("-")


def _stores(body: Stmt, of: Callable[[Expr], bool]) -> bool:
    """Whether a body does nothing but store such values to registers."""
    for stmt in flat_statements(body):
        if isinstance(stmt, For) and is_unrolled(stmt):
            if not _stores(stmt.body, of):
                return False
        elif not isinstance(stmt, Store) or stmt.buffer.scope is not Scope.LOCAL or not of(stmt.value):
            return False
    return True


def _loaded(value: Expr) -> Load | None:
    """The load that a value is, or zeros where a condition says so."""
    if isinstance(value, Select) and is_zero(value.b):
        value = value.a
    return value if isinstance(value, Load) else None


def _written(body: Stmt) -> dict[Buffer, frozenset[int]] | None:
    """The registers that a body writes; None if some are not known."""
    written: dict[Buffer, frozenset[int]] = {}
    for access in register_accesses([body]):
        if access.writes:
            if access.elements is None:
                return None
            written[access.buffer] = written.get(access.buffer, frozenset()) | access.elements
    return written


class _Select(Rewriter):
    """Makes values that are stored zeros where a condition is false."""

    def __init__(self, condition: Expr) -> None:
        self._condition = condition

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Store):
            return self.rebuild_stmt(node)
        conditions, value = [self._condition], node.value
        if isinstance(value, Select):
            conditions, value = [*conditions, value.condition], value.a
        return dataclasses.replace(node, value=select(conjunction(conditions), value, Const(0, value.dtype)))
