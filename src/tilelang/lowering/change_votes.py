"""Votes on whether a reduction has changed its results, which the statements after it need not repeat.

    for i in T.Parallel(M): r[i] = f(s[i])
    for i, j in T.Parallel(M, N): r[i] = max(r[i], x[i, j])      warps vote whether some x exceeds r
    for i in T.Parallel(M):
        if r[i] > f(s[i]): ...                                    holds for no row of a warp that voted no

Takes the statements of a sequence while they are lowered. Invariant: a vote is known only in the sequence that holds
the reduction, and only as long as no tile is written on which that depends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.analysis.defer_reductions import scaling_of
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import ParallelLoop, Stmt, Store
from tilelang.ir.visit import loads_of, substitute, variables_of, walk, written_buffers
from tilelang.records import record

_DIFFER = (BinaryOp.GT, BinaryOp.LT, BinaryOp.NE)


@record(slots=True, eq=False)
class _Value:
    """The value that each element of a tile holds.

    Attributes:
        tile: The tile.
        at: Variables, its subscripts.
        value: The value, in these variables.
    """

    tile: Buffer
    at: tuple[Var, ...]
    value: Expr

    def is_of(self, element: Expr, value: Expr) -> bool:
        """Whether this says that an element of the tile holds a value."""
        if not isinstance(element, Load) or element.buffer is not self.tile or len(element.indices) != len(self.at):
            return False
        return same_expr(substitute(self.value, dict(zip(self.at, element.indices, strict=True))), value)

    @property
    def storages(self) -> set[Buffer]:
        """The memory on which it depends."""
        return {self.tile.storage, *(load.buffer.storage for load in loads_of(self.value))}


class ChangeVotes:
    """The votes that are known to the statement that is being lowered."""

    def __init__(self) -> None:
        self._values: list[_Value] = []
        self._votes: list[tuple[_Value, Var]] = []  # values that elements may differ from only where the vote is true
        self._new: tuple[Buffer, Var] | None = None

    @contextmanager
    def sequence(self) -> Iterator[None]:
        """A sequence of statements, in which nothing is known at first."""
        around = self._values, self._votes
        self._values, self._votes = [], []
        yield
        self._values, self._votes = around

    def add(self, result: Buffer, vote: Var) -> None:
        """Notes the vote of the reduction that is being lowered: false only if it changes no result in this warp."""
        self._new = result, vote

    def follow(self, stmt: Stmt) -> bool:
        """Records what a statement changed; tells whether statements after it may use a vote that it took."""
        found: list[tuple[_Value, Var]] = []
        if self._new is not None and isinstance(stmt, ParallelLoop):
            result, vote = self._new
            found = [(each, vote) for each in self._values if each.tile is result]
        self._new = None
        written = {buffer.storage for part in walk(stmt) for buffer in written_buffers(part)}
        self._votes = [(each, v) for each, v in self._votes if written.isdisjoint(each.storages)]
        self._votes += found
        self._values = [each for each in self._values if written.isdisjoint(each.storages)]
        if (value := _stored(stmt)) is not None:
            self._values.append(value)
        return bool(found)

    def needed_by(self, loop: ParallelLoop) -> Var | None:
        """A vote that is true where a loop multiplies some element by anything but 1."""
        scaling = scaling_of(loop)
        match None if scaling is None else scaling.factor:
            case Select(condition=condition, b=Const(value=1)):
                return self.implied_by(condition)
        return None

    def implied_by(self, condition: Expr) -> Var | None:
        """A vote that is true in each warp in which a condition holds for some row."""
        if not isinstance(condition, Binary):
            return None
        a, b = condition.a, condition.b
        if condition.op is BinaryOp.AND:
            first = self.implied_by(a)
            return self.implied_by(b) if first is None else first
        if condition.op not in _DIFFER:
            return None
        return next((vote for each, vote in self._votes if each.is_of(a, b) or each.is_of(b, a)), None)


def _stored(stmt: Stmt) -> _Value | None:
    """Return the value that a parallel loop stores to a whole tile, if computed from elements at the same place."""
    if not isinstance(stmt, ParallelLoop) or not isinstance(store := stmt.body, Store):
        return None
    if len(store.indices) != len(stmt.vars) or any(a is not b for a, b in zip(store.indices, stmt.vars, strict=True)):
        return None
    if not all(map(same_expr, store.buffer.shape, stmt.extents)) or not variables_of(store.value) <= set(stmt.vars):
        return None
    value = _Value(store.buffer, stmt.vars, store.value)
    reads_itself = any(load.buffer.storage is store.buffer.storage for load in loads_of(store.value))
    return None if reads_itself else value
