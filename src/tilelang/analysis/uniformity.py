"""Uniformity analysis of a thread-level program: values equal in all threads of a block, and convergent control flow.

Takes a thread-level launch, gives a `Uniformity`. Invariant: a uniform value is the same in all threads that reach it,
provided that conflicting accesses are separated by barriers; divergent means unknown. Statements in a thread group are
analyzed from the view of its threads: a scalar that several groups assign, each its own copy, is uniform if it is
uniform within each group that reads it.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.analysis.thread_groups import contains
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var
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
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import expressions, loads_of, sub_statements, variables_of, walk, written_buffers
from tilelang.isa.instruction import Instruction
from tilelang.records import record

_OF_THREAD = (Scope.LOCAL, Scope.VAR, Scope.FRAGMENT)


@record(slots=True)
class _Position:
    """The position of a statement: whether its control flow is divergent, and the loop around it."""

    divergent: bool = False
    loop: Stmt | None = None


class _Values:
    """The values that may differ between threads.

    Args:
        launch: The launch.
        written: The global memory that it writes.

    Attributes:
        variables: Variables whose value may differ between threads, with the thread index.
        memory: Buffers whose contents may differ between threads, or be written by other blocks.
        loops: Loops with divergent trip counts.
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
        """Whether a branch may be divergent, as between groups, or a loop may have a divergent trip count."""
        match stmt:
            case If(condition=condition, group=group):
                return group is not None or not self.is_uniform(condition)
            case For() | While():
                return stmt in self.loops
        return False


class Uniformity(_Values):
    """The uniformity of one launch, from the view of the innermost thread group around a statement."""

    def __init__(self, launch: Launch) -> None:
        written = (buffer for s in walk(launch.body) for buffer in written_buffers(s))
        of_all_blocks = frozenset(buffer.storage for buffer in written if buffer.scope is Scope.GLOBAL)
        super().__init__(launch, of_all_blocks)
        block = Group(0, launch.num_threads)
        of_group: dict[tuple[int, int], _GroupValues] = {}
        readers: dict[Var | Buffer, set[tuple[int, int]]] = {}
        loops: list[tuple[Stmt, tuple[int, int]]] = []
        left: list[tuple[Stmt, Group]] = [(launch.body, block)]  # in reverse program order
        while left:
            stmt, group = left.pop()
            threads = (group.first, group.count)
            if threads not in of_group:
                of_group[threads] = _GroupValues(launch, group, of_all_blocks)
            for root in expressions(stmt):
                names: list[Var | Buffer] = [*variables_of(root), *(load.buffer.storage for load in loads_of(root))]
                for name in names:
                    readers.setdefault(name, set()).add(threads)
            if isinstance(stmt, For | While):
                loops.append((stmt, threads))
            if isinstance(stmt, If) and stmt.group is not None:
                group = stmt.group
            left += [(child, group) for child in reversed(sub_statements(stmt))]
        for threads, values in of_group.items():  # values without readers are divergent if they are for any group
            self.variables.update(v for v in values.variables if threads in readers.get(v, of_group))
            self.memory.update(b for b in values.memory if threads in readers.get(b, of_group))
        self.loops.update(loop for loop, threads in loops if loop in of_group[threads].loops)


def uniformity(launch: Launch) -> Uniformity:
    """The uniformity of a launch, memoized on its body."""
    inputs = (launch.thread, launch.threads, launch.plan.uniform)
    return memoized_on_sequence(launch.body, "_uniformity", inputs, lambda: Uniformity(launch))


class _GroupValues(_Values):
    """The values that differ between the threads of one group; other groups run concurrently."""

    def __init__(self, launch: Launch, group: Group, written: Set[Buffer]) -> None:
        super().__init__(launch, written)
        self._group = group
        self._assumed_uniform = frozenset(launch.plan.uniform)
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.loops)):
            self._visit(launch.body, _Position())

    def _visit(self, stmt: Stmt, at: _Position) -> None:
        self._mark(stmt, at)
        if isinstance(stmt, If) and stmt.group is not None:
            if not stmt.group.overlaps(self._group):
                return  # other groups assign their own copies
            if not at.divergent and not contains(stmt.group, self._group):
                at = _Position(divergent=True, loop=at.loop)
        elif not at.divergent and self.diverges(stmt):
            at = _Position(divergent=True, loop=at.loop)
        if isinstance(stmt, For | While):
            at = _Position(at.divergent, stmt)
        for child in sub_statements(stmt):
            # in a loop with a divergent trip count, threads are not convergent
            self._visit(child, at)

    def _mark(self, stmt: Stmt, at: _Position) -> None:
        """Marks the values that a statement makes divergent."""
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
            case CallStmt(routine=routine, writes=writes, result=result):
                is_uniform = isinstance(routine, Instruction) and routine.is_uniform
                keeps_uniform = isinstance(routine, Instruction) and routine.keeps_uniform
                if not (is_uniform or keeps_uniform and all(map(self.is_uniform, expressions(stmt)))):
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
        """Marks buffers as divergent, unless they are known to be uniform, as results of reductions are."""
        self.memory.update(b.storage for b in buffers if b.storage not in self._assumed_uniform)

    def _result(self, result: Var | None) -> None:
        """Marks the result of an instruction as divergent: it may depend on the lane."""
        if result is not None:
            self.variables.add(result)
