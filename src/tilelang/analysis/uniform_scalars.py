"""Values that are uniform across the threads of a block, so that each partition can recompute them by itself.

Takes the body of a launch, gives `UniformScalars`. A mutable scalar or a local array is uniform if all its values come
from sizes, block indices, global memory that the kernel does not write, and other uniform scalars; the control flow
around its assignments, early exits included, depends on nothing else either. Invariant: threads that execute all
assignments to a uniform scalar in program order, with the same control flow, read the same value at the same place.
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
_Flow = For | While | If  # control flow around an assignment that every thread can execute


@record(slots=True)
class BackwardSlice:
    """Everything that some values depend on, transitively.

    Attributes:
        variables: The variables, also through bindings and mutable scalars.
        buffers: The mutable scalars and local arrays.
        statements: The statements that declare and assign these, and the early exits of the loops around them.
    """

    variables: frozenset[Var]
    buffers: frozenset[Buffer]
    statements: frozenset[Stmt]


class UniformScalars:
    """The uniform scalars of one launch."""

    def __init__(self, launch: Launch) -> None:
        self._values: dict[Var, Expr] = {}
        self._divergent: set[Var] = set() if launch.thread is None else {launch.thread}
        self._written: set[Buffer] = set()
        self._assigned: dict[Buffer, list[tuple[Stmt, tuple[_Flow, ...]]]] = {}
        self._not_uniform: set[Buffer] = set()  # written under divergent control flow, or through a view
        self._visit(launch.body, ())
        self._uniform = set(self._assigned) - self._not_uniform
        while divergent := {b for b in self._uniform if not all(map(self.is_uniform, self._dependences(b)))}:
            self._uniform -= divergent

    def is_uniform(self, expr: Expr) -> bool:
        """Whether a value is uniform."""
        for node in walk_expr(expr):
            if isinstance(node, Load):
                storage = node.buffer.storage
                readable = node.buffer.scope is Scope.GLOBAL and storage not in self._written
                if not readable and storage not in self._uniform:
                    return False
            elif isinstance(node, Var):
                if node in self._divergent or node in self._values and not self.is_uniform(self._values[node]):
                    return False
        return True

    def changes_within(self, expr: Expr, body: Stmt) -> bool:
        """Whether an expression depends on scalars or local arrays that a statement assigns."""
        read = self.backward_slice((expr,)).buffers
        return bool(read) and any(b.storage in read for s in walk(body) for b in _assigned_by(s))

    def backward_slice(self, exprs: Iterable[Expr]) -> BackwardSlice:
        """Everything that values depend on."""
        variables: set[Var] = set()
        buffers: set[Buffer] = set()
        statements: set[Stmt] = set()
        worklist = list(exprs)
        while worklist:
            for node in walk_expr(worklist.pop()):
                if isinstance(node, Var) and node not in variables:
                    variables.add(node)
                    worklist += [self._values[node]] if node in self._values else []
                elif isinstance(node, Load) and node.buffer.scope in _OF_THREAD:
                    storage = node.buffer.storage
                    if storage not in buffers:
                        buffers.add(storage)
                        statements |= self._statements(storage)
                        worklist += self._dependences(storage)
        return BackwardSlice(frozenset(variables), frozenset(buffers), frozenset(statements))

    def _visit(self, stmt: Stmt, around: tuple[_Flow, ...] | None) -> None:
        """Records assignments in a statement; `around` is its control flow, None where not every thread executes it."""
        match stmt:
            case Bind(var=var, value=value):
                self._values[var] = value
            case CallStmt(result=result) | Atomic(result=result) if result is not None:
                self._divergent.add(result)
            case Alloc(buffer=buffer) if buffer.view_of is not None:
                self._not_uniform.add(buffer.storage)
        for buffer in _assigned_by(stmt):
            self._written.add(buffer.storage)
            if buffer.scope not in _OF_THREAD:
                continue
            self._assigned.setdefault(buffer.storage, []).append((stmt, around or ()))
            if around is None or not isinstance(stmt, Store | Alloc):
                self._not_uniform.add(buffer.storage)
        inside = around
        if not isinstance(stmt, Seq):
            is_flow = isinstance(stmt, _Flow) and not (isinstance(stmt, If) and stmt.group is not None)
            inside = (*around, stmt) if around is not None and is_flow and isinstance(stmt, _Flow) else None
        for child in sub_statements(stmt):
            self._visit(child, inside)

    def _dependences(self, storage: Buffer) -> list[Expr]:
        """The expressions that the contents of a scalar or local array directly depend on."""
        found: dict[Expr, None] = {}
        for stmt, around in self._assigned.get(storage, ()):
            if isinstance(stmt, Store):
                found.update(dict.fromkeys((*stmt.indices, stmt.value)))
            elif isinstance(stmt, Alloc) and stmt.init is not None:
                found[stmt.init] = None
            for construct in around:
                found.update(dict.fromkeys(_control_operands(construct)))
        return list(found)

    def _statements(self, storage: Buffer) -> set[Stmt]:
        """The statements that compute the contents of a scalar or local array."""
        statements: set[Stmt] = set()
        for stmt, around in self._assigned.get(storage, ()):
            statements.add(stmt)
            loops = (construct for construct in around if isinstance(construct, For | While))
            statements.update(*(_jumps_of(loop.body) for loop in loops))
        return statements


def _assigned_by(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement itself may write, and the scalars and local arrays that it declares."""
    if isinstance(stmt, Alloc):
        return (stmt.buffer,) if stmt.buffer.scope in _OF_THREAD and stmt.buffer.view_of is None else ()
    return written_buffers(stmt)


def _control_operands(construct: _Flow) -> Iterator[Expr]:
    """The expressions that decide whether, and how often, the body of a branch or loop runs."""
    if isinstance(construct, For):
        yield from (construct.start, construct.stop)
    else:
        yield construct.condition
    if isinstance(construct, For | While):
        for stmt in _jumps_and_enclosing(construct.body):
            if isinstance(stmt, If):
                yield stmt.condition


def _jumps_and_enclosing(stmt: Stmt) -> Iterator[Stmt]:
    """`break` and `continue` statements, and all statements around them."""
    if jumps(stmt):
        yield stmt
        yield from itertools.chain.from_iterable(map(_jumps_and_enclosing, sub_statements(stmt)))


def _jumps_of(body: Stmt) -> Iterator[Stmt]:
    """The `break` and `continue` statements of a loop's body."""
    return (stmt for stmt in _jumps_and_enclosing(body) if isinstance(stmt, Break | Continue))
