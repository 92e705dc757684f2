"""What each thread of a block can compute for itself: values that are the same whoever computes them.

Takes the body of a launch, gives `Scalars`. A mutable scalar or an array of each thread is known if all its values come
from what every thread can read: sizes, block indices, global memory that the kernel does not write, and other known
scalars; the branches and loops around its assignments, and what leaves these loops early, depend on nothing else
either. Invariant: threads that execute all assignments to a known scalar, in the order of the program and with the same
control flow, find the same value in it at the same place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

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
    Seq,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import jumps, sub_statements, walk, walk_expr, written_buffers
from tilelang.records import record

_OF_THREAD = (Scope.VAR, Scope.LOCAL)
_Flow = For | While | If  # what may stand around an assignment that every thread can execute


@record(slots=True)
class Origins:
    """What some values come from.

    Attributes:
        variables: The variables that they depend on, also by way of names and of scalars.
        buffers: The memory of threads that is read on the way.
        statements: What declares it, assigns it, and leaves the loops around that early.
    """

    variables: frozenset[Var]
    buffers: frozenset[Buffer]
    statements: frozenset[Stmt]


class Scalars:
    """The answers for one launch."""

    def __init__(self, launch: Launch) -> None:
        self._values: dict[Var, Expr] = {}
        self._unknown: set[Var] = set() if launch.thread is None else {launch.thread}
        self._written: set[Buffer] = set()
        self._assigned: dict[Buffer, list[tuple[Stmt, tuple[_Flow, ...]]]] = {}
        self._excluded: set[Buffer] = set()  # written by what only some threads, or others, do
        self._visit(launch.body, ())
        self._known = set(self._assigned) - self._excluded
        while unknown := {buffer for buffer in self._known if not all(map(self.is_known, self._deciding(buffer)))}:
            self._known -= unknown

    def is_known(self, expr: Expr) -> bool:
        """Whether every thread can tell a value for itself."""
        for node in walk_expr(expr):
            if isinstance(node, Load):
                storage = node.buffer.storage
                readable = node.buffer.scope is Scope.GLOBAL and storage not in self._written
                if not readable and storage not in self._known:
                    return False
            elif isinstance(node, Var):
                if node in self._unknown or node in self._values and not self.is_known(self._values[node]):
                    return False
        return True

    def changes_within(self, expr: Expr, body: Stmt) -> bool:
        """Whether an expression reads memory of threads that a statement assigns."""
        read = self.origins((expr,)).buffers
        return bool(read) and any(b.storage in read for s in walk(body) for b in _assigned_by(s))

    def origins(self, exprs: Iterable[Expr]) -> Origins:
        """What values come from, to the very beginning."""
        variables: set[Var] = set()
        buffers: set[Buffer] = set()
        statements: set[Stmt] = set()
        left = list(exprs)
        while left:
            for node in walk_expr(left.pop()):
                if isinstance(node, Var) and node not in variables:
                    variables.add(node)
                    left += [self._values[node]] if node in self._values else []
                elif isinstance(node, Load) and node.buffer.scope in _OF_THREAD:
                    storage = node.buffer.storage
                    if storage not in buffers:
                        buffers.add(storage)
                        statements |= self._statements(storage)
                        left += self._deciding(storage)
        return Origins(frozenset(variables), frozenset(buffers), frozenset(statements))

    def _visit(self, stmt: Stmt, around: tuple[_Flow, ...] | None) -> None:
        """Notes what a statement and those below it do; `around` is None where not every thread executes it."""
        match stmt:
            case Bind(var=var, value=value):
                self._values[var] = value
            case CallStmt(result=result) | Atomic(result=result) if result is not None:
                self._unknown.add(result)
            case Alloc(buffer=buffer) if buffer.view_of is not None:
                self._excluded.add(buffer.storage)
        for buffer in _assigned_by(stmt):
            self._written.add(buffer.storage)
            if buffer.scope not in _OF_THREAD:
                continue
            self._assigned.setdefault(buffer.storage, []).append((stmt, around or ()))
            if around is None or not isinstance(stmt, Store | Alloc):
                self._excluded.add(buffer.storage)
        inside = around
        if not isinstance(stmt, Seq):
            is_flow = isinstance(stmt, _Flow) and not (isinstance(stmt, If) and stmt.group is not None)
            inside = (*around, stmt) if around is not None and is_flow and isinstance(stmt, _Flow) else None
        for child in sub_statements(stmt):
            self._visit(child, inside)

    def _deciding(self, storage: Buffer) -> list[Expr]:
        """What the contents of memory of threads depend on."""
        found: dict[Expr, None] = {}
        for stmt, around in self._assigned.get(storage, ()):
            if isinstance(stmt, Store):
                found.update(dict.fromkeys((*stmt.indices, stmt.value)))
            elif isinstance(stmt, Alloc) and stmt.init is not None:
                found[stmt.init] = None
            for step in around:
                found.update(dict.fromkeys(_decisions(step)))
        return list(found)

    def _statements(self, storage: Buffer) -> set[Stmt]:
        """What has to be executed for the contents of memory of threads."""
        made: set[Stmt] = set()
        for stmt, around in self._assigned.get(storage, ()):
            made.add(stmt)
            made.update(*(_jumps_of(step.body) for step in around if isinstance(step, For | While)))
        return made


def _assigned_by(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement itself may write, or declares in memory of threads."""
    if isinstance(stmt, Alloc):
        return (stmt.buffer,) if stmt.buffer.scope in _OF_THREAD and stmt.buffer.view_of is None else ()
    return written_buffers(stmt)


def _decisions(step: _Flow) -> Iterator[Expr]:
    """What decides whether, and how often, something inside of a branch or loop happens."""
    if isinstance(step, For):
        yield from (step.start, step.stop)
    else:
        yield step.condition
    if isinstance(step, For | While):
        for stmt in _around_jumps(step.body):
            if isinstance(stmt, If):
                yield stmt.condition


def _around_jumps(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that leave a loop early, or go on with its next iteration, and what stands around them."""
    if jumps(stmt):
        yield stmt
        yield from itertools.chain.from_iterable(map(_around_jumps, sub_statements(stmt)))


def _jumps_of(body: Stmt) -> Iterator[Stmt]:
    """The statements of a loop's body that leave it early, or go on with its next iteration."""
    return (stmt for stmt in _around_jumps(body) if isinstance(stmt, Break | Continue))
