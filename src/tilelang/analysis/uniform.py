"""Which values are the same in all threads of a block, and which control flow all of them follow together.

Takes a thread-level launch, gives a `Uniformity`. Invariant: what is called uniform has one value in all threads that
reach it, provided that conflicting accesses are separated by barriers; divergent means unknown. What stands in a group
of threads is looked at as its threads see it, which reach it together: a scalar that several groups assign, each its
copies, is uniform if each group that reads it finds one value in its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from tilelang.analysis.thread_groups import contains
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.ir.kept import kept
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    Group,
    If,
    Launch,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import expressions, loads_of, sub_statements, variables_of, walk, written_buffers
from tilelang.records import record

_OF_THREAD = (Scope.LOCAL, Scope.VAR, Scope.FRAGMENT)


@record(slots=True)
class _Place:
    """Where a statement stands: whether all threads come, and the loop around it."""

    divergent: bool = False
    loop: Stmt | None = None


class _Values:
    """What differs between some threads.

    Args:
        launch: The launch.
        written: The global memory that it writes.

    Attributes:
        variables: Names whose value may differ between threads, the thread index among them.
        memory: Buffers whose contents may differ between threads, or change under the block's eyes.
        loops: Loops that threads may leave at different times.
    """

    def __init__(self, launch: Launch, written: Set[Buffer]) -> None:
        self.variables: set[Var] = set() if launch.thread is None else {launch.thread}
        # another block may write what this block also writes, between the reads of two threads
        self.memory: set[Buffer] = set(written)
        self.loops: set[Stmt] = set()

    def is_uniform(self, expr: Expr) -> bool:
        """Whether all threads that reach the expression compute the same value."""
        if not self.variables.isdisjoint(variables_of(expr)):
            return False
        return all(load.buffer.storage not in self.memory for load in loads_of(expr))

    def diverges(self, stmt: Stmt) -> bool:
        """Whether threads may go different ways at a branch, as groups do, or leave a loop at different times."""
        match stmt:
            case If(condition=condition, group=group):
                return group is not None or not self.is_uniform(condition)
            case For() | While():
                return stmt in self.loops
        return False


class Uniformity(_Values):
    """The answers for one launch, each given as the threads that ask see it: those of the group, or the block's."""

    def __init__(self, launch: Launch) -> None:
        written = (buffer for s in walk(launch.body) for buffer in written_buffers(s))
        of_all_blocks = frozenset(buffer.storage for buffer in written if buffer.scope is Scope.GLOBAL)
        super().__init__(launch, of_all_blocks)
        block = Group(0, launch.num_threads)
        views: dict[tuple[int, int], _View] = {}
        readers: dict[Var | Buffer, set[tuple[int, int]]] = {}
        loops: list[tuple[Stmt, tuple[int, int]]] = []

        def look(stmt: Stmt, group: Group) -> None:
            threads = (group.first, group.count)
            if threads not in views:
                views[threads] = _View(launch, group, of_all_blocks)
            for root in expressions(stmt):
                for name in (*variables_of(root), *(load.buffer.storage for load in loads_of(root))):
                    readers.setdefault(name, set()).add(threads)
            if isinstance(stmt, For | While):
                loops.append((stmt, threads))
            if isinstance(stmt, If) and stmt.group is not None:
                group = stmt.group
            for child in sub_statements(stmt):
                look(child, group)

        look(launch.body, block)
        for threads, view in views.items():  # what nobody reads differs where it does for anyone
            self.variables.update(v for v in view.variables if threads in readers.get(v, views))
            self.memory.update(b for b in view.memory if threads in readers.get(b, views))
        self.loops.update(loop for loop, threads in loops if loop in views[threads].loops)


def uniformity(launch: Launch) -> Uniformity:
    """The answers for a launch; kept on its body."""
    inputs = (launch.thread, launch.threads, launch.plan.uniform)
    return kept(launch.body, "_uniformity", inputs, lambda: Uniformity(launch))


class _View(_Values):
    """What differs between the threads of one group, which need not come together to what other groups do."""

    def __init__(self, launch: Launch, group: Group, written: Set[Buffer]) -> None:
        super().__init__(launch, written)
        self._group = group
        self._known = frozenset(launch.plan.uniform)
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.loops)):
            self._visit(launch.body, _Place())

    def _visit(self, stmt: Stmt, at: _Place) -> None:
        self._learn(stmt, at)
        if isinstance(stmt, If) and stmt.group is not None:
            if not stmt.group.overlaps(self._group):
                return  # others assign copies of their own there
            if not contains(stmt.group, self._group):
                at = dataclasses.replace(at, divergent=True)
        elif self.diverges(stmt):
            at = dataclasses.replace(at, divergent=True)
        if isinstance(stmt, For | While):
            at = dataclasses.replace(at, loop=stmt)
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
                if init is not None and (at.divergent or not self.is_uniform(init)):
                    self._differs(buffer)
            case Store(buffer=buffer, indices=indices, value=value) if buffer.scope in _OF_THREAD:
                if at.divergent or not all(map(self.is_uniform, (*indices, value))):
                    self._differs(buffer)
            case CallStmt(writes=writes, result=result):
                self._result(result)
                self._differs(*(r.buffer for r in writes if r.buffer.scope in _OF_THREAD))
            case Atomic(result=result):
                self._result(result)
            case Break() | Continue() if at.loop is not None:
                if at.divergent:
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
