"""Accesses of statements to per-thread arrays and scalars, and whether two sequences of statements may be reordered.

Takes statements of a thread-level program; gives the elements that they may read and write. Invariant: elements are
exact where indices depend on loops of constant extents only; otherwise an access covers the whole array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.stmt import Atomic, CallStmt, For, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, sub_statements, variables_of, walk_expr
from tilelang.records import record

_OF_THREAD = (Scope.LOCAL, Scope.VAR)
_MAX_ELEMENTS = 1 << 16  # enumerated for one access

Loops = Mapping[Var, range]


@record(slots=True)
class RegisterAccess:
    """An access to an array.

    Attributes:
        buffer: The array.
        elements: The elements; None for all of them.
        writes: Whether it may write them.
    """

    buffer: Buffer
    elements: frozenset[int] | None
    writes: bool

    def conflicts_with(self, other: RegisterAccess) -> bool:
        """Whether the two accesses must not be reordered."""
        if self.buffer.storage is not other.buffer.storage or not (self.writes or other.writes):
            return False
        if self.elements is None or other.elements is None or self.buffer is not other.buffer:
            return True
        return not self.elements.isdisjoint(other.elements)


def register_accesses(statements: Iterable[Stmt]) -> list[RegisterAccess]:
    """All accesses of statements and their sub-statements to per-thread arrays and scalars."""
    return [access for stmt in statements for access in _of(stmt, {})]


def conflict(some: Iterable[RegisterAccess], others: Iterable[RegisterAccess]) -> bool:
    """Whether per-thread arrays forbid reordering two sequences of statements."""
    others = list(others)
    return any(a.conflicts_with(b) for a in some for b in others)


def _of(stmt: Stmt, loops: Loops) -> Iterator[RegisterAccess]:
    for root in expressions(stmt):
        for e in walk_expr(root):
            if isinstance(e, Load) and e.buffer.scope in _OF_THREAD:
                yield RegisterAccess(e.buffer, _elements(e.buffer, e.indices, e.dtype.lanes, loops), writes=False)
    if isinstance(stmt, Store | Atomic) and stmt.buffer.scope in _OF_THREAD:
        lanes = 1 if stmt.value is None else stmt.value.dtype.lanes
        yield RegisterAccess(stmt.buffer, _elements(stmt.buffer, stmt.indices, lanes, loops), writes=True)
    if isinstance(stmt, CallStmt):
        for regions, writes in ((stmt.reads, False), (stmt.writes, True)):
            for region in regions:
                if region.buffer.scope in _OF_THREAD:
                    yield RegisterAccess(region.buffer, _of_region(region, loops), writes)
    if isinstance(stmt, For):
        start, stop = int_const(stmt.start), int_const(stmt.stop)
        if start is not None and stop is not None:
            loops = {**loops, stmt.var: range(start, stop, stmt.step)}
    for child in sub_statements(stmt):
        yield from _of(child, loops)


def _of_region(region: Region, loops: Loops) -> frozenset[int] | None:
    extent = region.static_extent
    return None if extent is None or len(extent) != 1 else _elements(region.buffer, region.start, extent[0], loops)


def _elements(buffer: Buffer, indices: tuple[Expr, ...], count: int, loops: Loops) -> frozenset[int] | None:
    if len(indices) != 1 or not indices[0].is_index or loads_of(indices[0]):
        return None
    names = sorted(variables_of(indices[0]), key=lambda var: var.name)
    if any(var not in loops for var in names):
        return None
    points = np.prod([len(loops[var]) for var in names], dtype=np.int64) * count
    if points > _MAX_ELEMENTS:
        return None
    grid = np.meshgrid(*[np.asarray(loops[var], np.int64) for var in names], indexing="ij")
    first = np.asarray(evaluate(indices[0], dict(zip(names, grid, strict=True)), exact=True))
    return frozenset(np.add.outer(first, np.arange(count)).ravel().tolist())
