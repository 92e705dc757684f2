"""Divergence analysis of a tile-level program: values that depend on the thread index, and divergent control flow.

Takes a tile-level launch, gives a `Divergence`. Invariant: everything that is not per-thread belongs to the sequential
program of the block, whose scalars have one value at a time for all threads. Within a group of threads that the
compiler made, the same holds for the group. Divergence within a group depends on assignments in that group only: each
group has its own copies of the block's scalars.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tilelang.analysis.thread_groups import contains
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.ir.memoize import memoized
from tilelang.ir.sequences import memoized_on_sequence
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
    ParallelLoop,
    Print,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import (
    accessed_buffers,
    expressions,
    loads_of,
    sub_statements,
    variables_of,
    walk,
    written_buffers,
)
from tilelang.isa.instruction import Instruction
from tilelang.records import record

_SCALARS = (Scope.LOCAL, Scope.VAR)
_OF_THREAD = (*_SCALARS, Scope.FRAGMENT)  # a fragment that scalar code accesses is replicated in every thread


@record(slots=True)
class _Position:
    """The position of a statement: whether control flow is divergent, the loop around it, and the groups of both."""

    divergent: bool = False
    loop: Stmt | None = None
    group: If | None = None
    group_of_loop: If | None = None


def shows_tile(stmt: Stmt) -> bool:
    """Whether a statement prints a tile of the block, not of a thread."""
    tile = stmt.operand.buffer if isinstance(stmt, Print) and isinstance(stmt.operand, Region) else None
    return tile is not None and tile.scope not in _SCALARS


class _Values:
    """The per-thread values, and the statements in divergent control flow."""

    def __init__(self, launch: Launch) -> None:
        self.variables: set[Var] = set() if launch.thread is None else {launch.thread}
        self.memory: set[Buffer] = set()
        self.divergent: set[Stmt] = set()
        self._loops: set[Stmt] = set()  # loops with divergent trip counts
        self._group_of_allocation: dict[Buffer, If | None] = {}  # the collective group of each allocation

    def _find(self, body: Stmt) -> None:
        """Visits a launch's body until a fixed point."""
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.divergent) + len(self._loops)):
            self._visit(body, _Position())

    def depends_on_thread(self, exprs: Iterable[Expr]) -> bool:
        """Whether any of the expressions depends on the thread."""
        for expr in exprs:
            if not self.variables.isdisjoint(variables_of(expr)):
                return True
            if any(load.buffer.storage in self.memory for load in loads_of(expr)):
                return True
        return False

    def runs_per_thread(self, loop: ParallelLoop) -> bool:
        """Whether every thread executes all iterations: they index per-thread arrays that differ between threads.

        An example is a `T.copy` of a thread's row to a local array. Loops that access fragments are distributed.
        """
        arrays = {buffer for buffer in _indexed_arrays(loop) if buffer in self._group_of_allocation}
        if not arrays:
            return False
        return not arrays.isdisjoint(self.memory) or any(self.depends_on_thread(expressions(s)) for s in walk(loop))

    def _visit(self, stmt: Stmt, at: _Position) -> None:
        if at.divergent:
            self.divergent.add(stmt)
        self._mark(stmt, at)
        if isinstance(stmt, ParallelLoop):
            return  # values local to an iteration do not outlive it
        entered = self._enter(stmt, at)
        if entered is None:
            return
        at = entered
        if isinstance(stmt, For | While):
            at = dataclasses.replace(at, loop=stmt, group_of_loop=at.group)
        if isinstance(stmt, For) and stmt in self._loops:
            self.variables.add(stmt.var)
        for child in sub_statements(stmt):
            self._visit(child, at)

    def _enter(self, stmt: Stmt, at: _Position) -> _Position | None:
        """The position of the sub-statements of a statement; None if no thread of interest executes them."""
        if isinstance(stmt, If) and stmt.group is not None and stmt.group.collective:
            return dataclasses.replace(at, group=stmt)
        return dataclasses.replace(at, divergent=True) if self.diverges(stmt) and not at.divergent else at

    def _mark(self, stmt: Stmt, at: _Position) -> None:
        """Marks the values that a statement makes per-thread."""
        match stmt:
            case Bind(var=var, value=value):
                if self.depends_on_thread((value,)):
                    self.variables.add(var)
            case Alloc(buffer=buffer, init=init):
                self._group_of_allocation[buffer] = at.group
                if init is not None and (at.divergent or self.depends_on_thread((init,))):
                    self.memory.add(buffer.storage)
            case Store(buffer=buffer) if buffer.scope in _OF_THREAD:
                per_thread = at.divergent or self.depends_on_thread(expressions(stmt))
                if per_thread or self._is_outside_group(buffer, at.group):
                    self.memory.add(buffer.storage)
            case CallStmt(routine=routine, writes=writes, result=result):
                keeps_uniform = isinstance(routine, Instruction) and routine.keeps_uniform
                if result is not None and not (keeps_uniform and not self.depends_on_thread(expressions(stmt))):
                    self.variables.add(result)
                self.memory.update(r.buffer.storage for r in writes if r.buffer.scope in _OF_THREAD)
            case Atomic(result=result) if result is not None:
                if self._executed_by_each_thread(stmt, at) or self.depends_on_thread(expressions(stmt)):
                    self.variables.add(result)
            case Break() | Continue() if at.loop is not None:
                if at.divergent or at.group is not at.group_of_loop:
                    self._loops.add(at.loop)
            case ParallelLoop():
                written = {b.storage for s in walk(stmt) for b in written_buffers(s) if b.scope in _SCALARS}
                live_out = {b for b in written if b in self._group_of_allocation}
                # a distributed loop leaves its result in all threads
                own = at.divergent or self.runs_per_thread(stmt)
                self.memory.update(b for b in live_out if b.sequential or own or self._is_outside_group(b, at.group))

    def _executed_by_each_thread(self, stmt: Stmt, at: _Position) -> bool:
        """Whether each thread executes the effect of a statement."""
        return at.divergent

    def _is_outside_group(self, buffer: Buffer, group: If | None) -> bool:
        """Whether the buffer is allocated outside of a group, so that other threads have it, too."""
        return self._group_of_allocation.get(buffer.storage) is not group

    def diverges(self, stmt: Stmt) -> bool:
        """Whether a branch is divergent, or a loop has a divergent trip count."""
        match stmt:
            case If(condition=condition):
                return self.depends_on_thread((condition,))
            case While(condition=condition):
                if self.depends_on_thread((condition,)):
                    self._loops.add(stmt)
            case For(start=start, stop=stop):
                if self.depends_on_thread((start, stop)):
                    self._loops.add(stmt)
        return stmt in self._loops


class Divergence(_Values):
    """Divergence analysis of one launch.

    Attributes:
        variables: Variables whose value differs between threads, including the thread index.
        memory: Per-thread scalars and arrays whose contents differ between threads.
        divergent: Statements in divergent control flow: only some threads reach them, or at different times.
        divergent_in_group: Statements that are divergent within their group of threads, too.
    """

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.divergent_in_group: set[Stmt] = set()
        self._find(launch.body)
        self._find_divergent_in_group(launch.body, launch, {}, self, divergent_in_group=False)

    def is_uniform(self, expr: Expr) -> bool:
        """Whether a value does not depend on the thread."""
        return not self.depends_on_thread((expr,))

    def is_own(self, stmt: Stmt) -> bool:
        """Whether each thread that reaches a statement executes its effect; tiles are printed once per group."""
        reached_by_some = self.divergent_in_group if shows_tile(stmt) else self.divergent
        return stmt in reached_by_some or self.depends_on_thread(expressions(stmt))

    def _find_divergent_in_group(
        self,
        stmt: Stmt,
        launch: Launch,
        groups: dict[tuple[int, int], _Values],
        seen: _Values,
        *,
        divergent_in_group: bool,
    ) -> None:
        """Finds the statements that only some threads of the enclosing group reach.

        Args:
            stmt: A statement, with those inside of it.
            launch: The launch.
            groups: The values of the groups that were entered so far.
            seen: The values that differ between the threads of that group.
            divergent_in_group: Whether only some of them reach the statement.
        """
        if divergent_in_group:
            self.divergent_in_group.add(stmt)
        if isinstance(stmt, ParallelLoop):
            return
        if isinstance(stmt, If) and stmt.group is not None:
            group = (stmt.group.first, stmt.group.count)
            if group not in groups:
                groups[group] = _InGroup(launch, stmt.group, self.divergent)
            seen = groups[group]
        else:
            divergent_in_group = divergent_in_group or seen.diverges(stmt)
        for child in sub_statements(stmt):
            self._find_divergent_in_group(child, launch, groups, seen, divergent_in_group=divergent_in_group)


def divergence(launch: Launch) -> Divergence:
    """The analysis of a launch, cached on its body."""
    return memoized_on_sequence(launch.body, "_divergence", (launch.thread,), lambda: Divergence(launch))


class _InGroup(_Values):
    """The values that differ between the threads of one group.

    Args:
        launch: The launch with the group.
        group: The threads.
        divergent: Statements that are divergent in the block.
    """

    def __init__(self, launch: Launch, group: Group, divergent: set[Stmt]) -> None:
        super().__init__(launch)
        self._group, self._under_in_block = group, divergent
        self._find(launch.body)

    def _enter(self, stmt: Stmt, at: _Position) -> _Position | None:
        if not isinstance(stmt, If) or stmt.group is None:
            return super()._enter(stmt, at)
        if not stmt.group.overlaps(self._group):
            return None  # other groups assign their own copies
        return at if contains(stmt.group, self._group) else dataclasses.replace(at, divergent=True)

    def _executed_by_each_thread(self, stmt: Stmt, at: _Position) -> bool:
        return at.divergent or stmt in self._under_in_block

    def _is_outside_group(self, buffer: Buffer, group: If | None) -> bool:
        return False  # a group that some of the threads looked at are not in counts as a branch


def _indexed_arrays(loop: ParallelLoop) -> frozenset[Buffer]:
    """The arrays of a thread that a loop indexes by its variables; none if it accesses fragments. Kept on the loop."""

    def compute() -> frozenset[Buffer]:
        inside, variables = list(walk(loop)), frozenset(loop.vars)
        if any(buffer.scope is Scope.FRAGMENT for s in inside for buffer in accessed_buffers(s)):
            return frozenset()
        return frozenset(
            buffer.storage
            for s in inside
            for buffer, indices in _elements(s)
            if buffer.storage.scope is Scope.LOCAL
            and any(not variables.isdisjoint(variables_of(index)) for index in indices)
        )

    return memoized(loop, "_indexed_arrays", (), compute)


def _elements(stmt: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """The elements that a statement itself reads or writes."""
    if isinstance(stmt, Store | Atomic):
        yield stmt.buffer, stmt.indices
    for root in expressions(stmt):
        yield from ((load.buffer, load.indices) for load in loads_of(root))
