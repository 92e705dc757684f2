"""Which elements of a thread's own arrays statements touch, and whether two pieces of a program touch the same.

Takes statements of a thread-level program; gives the elements that they may read and write. Invariant: elements are
exact where indices follow from loops of constant extents; otherwise all elements of an array count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.stmt import Atomic, CallStmt, For, Stmt, Store
from tilelang.ir.visit import expressions, sub_statements, variables_of, walk_expr
from tilelang.records import record

_OF_THREAD = (Scope.LOCAL, Scope.VAR)
_MOST_ELEMENTS = 1 << 16  # looked at for one access

Loops = Mapping[Var, range]


@record(slots=True)
class Touched:
    """An access to an array.

    Attributes:
        buffer: The array.
        elements: Which; None for all of them.
        writes: Whether they may be written.
    """

    buffer: Buffer
    elements: frozenset[int] | None
    writes: bool

    def clashes(self, other: Touched) -> bool:
        """Whether the two accesses may not change places."""
        if self.buffer.storage is not other.buffer.storage or not (self.writes or other.writes):
            return False
        if self.elements is None or other.elements is None or self.buffer is not other.buffer:
            return True
        return not self.elements.isdisjoint(other.elements)


def registers_touched(statements: Iterable[Stmt]) -> list[Touched]:
    """Everything that statements, and those below them, touch of arrays and scalars of the thread."""
    return [touched for stmt in statements for touched in _of(stmt, {})]


def clash(some: Iterable[Touched], others: Iterable[Touched]) -> bool:
    """Whether two pieces of a program may not change places, as far as arrays of the thread go."""
    others = list(others)
    return any(a.clashes(b) for a in some for b in others)


def _of(stmt: Stmt, loops: Loops) -> Iterator[Touched]:
    for root in expressions(stmt):
        for e in walk_expr(root):
            if isinstance(e, Load) and e.buffer.scope in _OF_THREAD:
                yield Touched(e.buffer, _elements(e.buffer, e.indices, e.dtype.lanes, loops), writes=False)
    if isinstance(stmt, Store | Atomic) and stmt.buffer.scope in _OF_THREAD:
        lanes = 1 if stmt.value is None else stmt.value.dtype.lanes
        yield Touched(stmt.buffer, _elements(stmt.buffer, stmt.indices, lanes, loops), writes=True)
    if isinstance(stmt, CallStmt):
        for regions, writes in ((stmt.reads, False), (stmt.writes, True)):
            for region in regions:
                if region.buffer.scope in _OF_THREAD:
                    yield Touched(region.buffer, _of_region(region, loops), writes)
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
    if len(indices) != 1 or not indices[0].is_index or any(isinstance(e, Load) for e in walk_expr(indices[0])):
        return None
    names = sorted(variables_of(indices[0]), key=lambda var: var.name)
    if any(var not in loops for var in names):
        return None
    points = np.prod([len(loops[var]) for var in names], dtype=np.int64) * count
    if points > _MOST_ELEMENTS:
        return None
    grid = np.meshgrid(*[np.asarray(loops[var], np.int64) for var in names], indexing="ij")
    first = np.asarray(evaluate(indices[0], dict(zip(names, grid, strict=True)), exact=True))
    return frozenset(np.add.outer(first, np.arange(count)).ravel().tolist())
