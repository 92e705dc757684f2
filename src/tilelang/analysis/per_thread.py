"""What a tile-level program says of single threads: values that depend on the thread index, and what stands under them.

Takes a tile-level launch, gives a `PerThread`. Invariant: what is not called per-thread is part of the block's one
sequential program, whose scalars have one value at a time whatever the number of threads. Of what stands in a group
that the compiler made, the same is said of the group: its threads are all there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    If,
    Launch,
    ParallelLoop,
    Print,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import (
    expressions,
    sub_statements,
    touched_buffers,
    variables_of,
    walk,
    walk_expr,
    written_buffers,
)
from tilelang.records import record

_SCALARS = (Scope.LOCAL, Scope.VAR)
_OF_THREAD = (*_SCALARS, Scope.FRAGMENT)  # a tile that scalar code names is held by every thread


@record(slots=True)
class _Place:
    """Where a statement stands: what `PerThread` says of it, the loop around it, and the collective group of each."""

    under: bool = False
    apart: bool = False
    loop: Stmt | None = None
    group: If | None = None
    group_of_loop: If | None = None


def shows_tile(stmt: Stmt) -> bool:
    """Whether a statement prints a tile that all threads of a block have in common."""
    tile = stmt.operand.buffer if isinstance(stmt, Print) and isinstance(stmt.operand, Region) else None
    return tile is not None and tile.scope not in _SCALARS


class PerThread:
    """The answers for one launch.

    Attributes:
        variables: Names whose value belongs to a thread, the thread index among them.
        memory: Scalars and arrays of threads whose contents do.
        under: Statements that only some threads reach, or each at a time of its own.
        apart: Those of them for which that is so within a group of threads, too.
    """

    def __init__(self, launch: Launch) -> None:
        self.variables: set[Var] = set() if launch.thread is None else {launch.thread}
        self.memory: set[Buffer] = set()
        self.under: set[Stmt] = set()
        self.apart: set[Stmt] = set()
        self._loops: set[Stmt] = set()  # that threads leave one by one
        self._homes: dict[Buffer, If | None] = {}  # the collective group in which each is allocated
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.under) + len(self._loops)):
            self._visit(launch.body, _Place())

    def names(self, exprs: Iterable[Expr]) -> bool:
        """Whether an expression depends on the thread."""
        for expr in exprs:
            for node in walk_expr(expr):
                if isinstance(node, Var) and node in self.variables:
                    return True
                if isinstance(node, Load) and node.buffer.storage in self.memory:
                    return True
        return False

    def is_own(self, stmt: Stmt) -> bool:
        """Whether a statement's effect is meant for each thread that reaches it; a group shows a tile together."""
        reached_by_some = self.apart if shows_tile(stmt) else self.under
        return stmt in reached_by_some or self.names(expressions(stmt))

    def does_alone(self, loop: ParallelLoop) -> bool:
        """Whether each thread runs all iterations by itself: they go over an array of its own, by values of its own.

        Such is a `T.copy` of the row of a thread to a local array. Loops that touch fragments are shared out.
        """
        inside, variables = list(walk(loop)), frozenset(loop.vars)
        if any(buffer.scope is Scope.FRAGMENT for s in inside for buffer in touched_buffers(s)):
            return False
        over = [
            buffer.storage
            for s in inside
            for buffer, indices in _elements(s)
            if any(not variables.isdisjoint(variables_of(index)) for index in indices)
        ]
        arrays = {buffer for buffer in over if buffer.scope is Scope.LOCAL and buffer in self._homes}
        if not arrays:
            return False
        return not arrays.isdisjoint(self.memory) or any(self.names(expressions(s)) for s in inside)

    def _visit(self, stmt: Stmt, at: _Place) -> None:
        if at.under:
            self.under.add(stmt)
        if at.apart:
            self.apart.add(stmt)
        self._learn(stmt, at)
        if isinstance(stmt, ParallelLoop):
            return  # what an iteration keeps for itself does not outlive it
        group = stmt.group if isinstance(stmt, If) else None
        if isinstance(stmt, If) and group is not None and group.collective:
            at = dataclasses.replace(at, group=stmt)
        elif self._diverges(stmt):
            at = dataclasses.replace(at, under=True, apart=at.apart or group is None)
        if isinstance(stmt, For | While):
            at = dataclasses.replace(at, loop=stmt, group_of_loop=at.group)
        if isinstance(stmt, For) and stmt in self._loops:
            self.variables.add(stmt.var)
        for child in sub_statements(stmt):
            self._visit(child, at)

    def _learn(self, stmt: Stmt, at: _Place) -> None:
        """What a statement itself makes a thread's own."""
        match stmt:
            case Bind(var=var, value=value):
                if self.names((value,)):
                    self.variables.add(var)
            case Alloc(buffer=buffer, init=init):
                self._homes[buffer] = at.group
                if init is not None and (at.under or self.names((init,))):
                    self.memory.add(buffer.storage)
            case Store(buffer=buffer) if buffer.scope in _OF_THREAD:
                if at.under or self.names(expressions(stmt)) or self._is_foreign(buffer, at.group):
                    self.memory.add(buffer.storage)
            case CallStmt(writes=writes, result=result):
                if result is not None:
                    self.variables.add(result)
                self.memory.update(r.buffer.storage for r in writes if r.buffer.scope in _OF_THREAD)
            case Atomic(result=result) if result is not None:
                if at.under or self.names(expressions(stmt)):
                    self.variables.add(result)
            case Break() | Continue() if at.loop is not None:
                if at.under or at.group is not at.group_of_loop:
                    self._loops.add(at.loop)
            case ParallelLoop():
                written = {b.storage for s in walk(stmt) for b in written_buffers(s) if b.scope in _SCALARS}
                outlive = {b for b in written if b in self._homes}
                own = at.under or self.does_alone(stmt)
                self.memory.update(b for b in outlive if b.sequential or own or self._is_foreign(b, at.group))

    def _is_foreign(self, buffer: Buffer, group: If | None) -> bool:
        """Whether threads that are not in a group have the buffer, too."""
        return self._homes.get(buffer.storage) is not group

    def _diverges(self, stmt: Stmt) -> bool:
        match stmt:
            case If(condition=condition):
                return self.names((condition,))
            case While(condition=condition):
                if self.names((condition,)):
                    self._loops.add(stmt)
            case For(start=start, stop=stop):
                if self.names((start, stop)):
                    self._loops.add(stmt)
        return stmt in self._loops


def _elements(stmt: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """The elements that a statement itself reads or writes."""
    if isinstance(stmt, Store | Atomic):
        yield stmt.buffer, stmt.indices
    for root in expressions(stmt):
        for node in walk_expr(root):
            if isinstance(node, Load):
                yield node.buffer, node.indices
