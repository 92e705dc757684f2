"""Which values are the same in all threads of a block, and which control flow all of them follow together.

Takes a thread-level launch, gives a `Uniformity`. Invariant: what is called uniform has one value in all threads that
reach it, provided that conflicting accesses are separated by barriers; divergent means unknown. What stands in a group
of threads is looked at as its threads see it, which reach it together.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.buffer import Buffer, Scope
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
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import sub_statements, walk, walk_expr, written_buffers
from tilelang.records import record

_OF_THREAD = (Scope.LOCAL, Scope.VAR, Scope.FRAGMENT)


@record(slots=True)
class _Place:
    """Where a statement stands: whether all threads come, the loop around it, and the group of each."""

    divergent: bool = False
    loop: Stmt | None = None
    group: If | None = None
    group_of_loop: If | None = None


class Uniformity:
    """The answers for one launch.

    Attributes:
        variables: Names whose value may differ between threads, the thread index among them.
        memory: Buffers whose contents may differ between threads, or change under the block's eyes.
        loops: Loops that threads may leave at different times.
    """

    def __init__(self, launch: Launch) -> None:
        self.variables: set[Var] = set() if launch.thread is None else {launch.thread}
        # another block may write what this block also writes, between the reads of two threads
        self.memory: set[Buffer] = {
            buffer.storage for s in walk(launch.body) for buffer in written_buffers(s) if buffer.scope is Scope.GLOBAL
        }
        self.loops: set[Stmt] = set()
        self._known = frozenset(launch.plan.uniform)
        self._homes: dict[Buffer, If | None] = {}  # the group in which each is allocated
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.loops)):
            self._visit(launch.body, _Place())

    def is_uniform(self, expr: Expr) -> bool:
        """Whether all threads that reach the expression compute the same value."""
        for node in walk_expr(expr):
            if isinstance(node, Var) and node in self.variables:
                return False
            if isinstance(node, Load) and node.buffer.storage in self.memory:
                return False
        return True

    def diverges(self, stmt: Stmt) -> bool:
        """Whether threads may go different ways at a branch, as groups do, or leave a loop at different times."""
        match stmt:
            case If(condition=condition, group=group):
                return group is not None or not self.is_uniform(condition)
            case For() | While():
                return stmt in self.loops
        return False

    def _visit(self, stmt: Stmt, at: _Place) -> None:
        self._learn(stmt, at)
        if isinstance(stmt, If) and stmt.group is not None:
            at = dataclasses.replace(at, group=stmt)
        elif self.diverges(stmt):
            at = dataclasses.replace(at, divergent=True)
        if isinstance(stmt, For | While):
            at = dataclasses.replace(at, loop=stmt, group_of_loop=at.group)
        for child in sub_statements(stmt):
            # what all threads meet in a loop, each at its own time, they still do not do together
            self._visit(child, at)

    def _learn(self, stmt: Stmt, at: _Place) -> None:
        """What a statement itself makes different."""
        match stmt:
            case Bind(var=var, value=value):
                if not self.is_uniform(value):
                    self.variables.add(var)
            case Alloc(buffer=buffer, init=init):
                self._homes[buffer] = at.group
                if init is not None and (at.divergent or not self.is_uniform(init)):
                    self._differs(buffer)
            case Store(buffer=buffer, indices=indices, value=value) if buffer.scope in _OF_THREAD:
                foreign = self._homes.get(buffer.storage) is not at.group  # others have it, too, and store nothing
                if at.divergent or foreign or not all(map(self.is_uniform, (*indices, value))):
                    self._differs(buffer)
            case CallStmt(writes=writes, result=result):
                self._result(result)
                self._differs(*(r.buffer for r in writes if r.buffer.scope in _OF_THREAD))
            case Atomic(result=result):
                self._result(result)
            case Break() | Continue() if at.loop is not None:
                if at.divergent or at.group is not at.group_of_loop:
                    self.loops.add(at.loop)
            case For(var=var, start=start, stop=stop):
                if not (self.is_uniform(start) and self.is_uniform(stop)):
                    self.loops.add(stmt)
                if stmt in self.loops:
                    self.variables.add(var)
            case While(condition=condition):
                if not self.is_uniform(condition):
                    self.loops.add(stmt)

    def _differs(self, *buffers: Buffer) -> None:
        """Threads store different values, unless it is known that these come out the same, as those of folds do."""
        self.memory.update(b.storage for b in buffers if b.storage not in self._known)

    def _result(self, result: Var | None) -> None:
        """The values of instructions may depend on the lane."""
        if result is not None:
            self.variables.add(result)
