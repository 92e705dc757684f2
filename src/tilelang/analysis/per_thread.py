"""What a tile-level program says of single threads: values that depend on the thread index, and what stands under them.

Takes a tile-level launch, gives a `PerThread`. Invariant: what is not called per-thread is part of the block's one
sequential program, whose scalars have one value at a time whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    ParallelLoop,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import expressions, sub_statements, walk_expr

_OF_THREAD = (Scope.LOCAL, Scope.VAR)


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
        size = -1
        while size != (size := len(self.variables) + len(self.memory) + len(self.under) + len(self._loops)):
            self._visit(launch.body, under=False, apart=False, loop=None)

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
        """Whether a statement's effect is meant for each thread that reaches it."""
        return stmt in self.under or self.names(expressions(stmt))

    def _visit(self, stmt: Stmt, *, under: bool, apart: bool, loop: Stmt | None) -> None:
        if under:
            self.under.add(stmt)
        if apart:
            self.apart.add(stmt)
        match stmt:
            case Bind(var=var, value=value):
                if self.names((value,)):
                    self.variables.add(var)
            case Alloc(buffer=buffer, init=init):
                if init is not None and (under or self.names((init,))):
                    self.memory.add(buffer.storage)
            case Store(buffer=buffer) if buffer.scope in _OF_THREAD:
                if under or self.names(expressions(stmt)):
                    self.memory.add(buffer.storage)
            case CallStmt(writes=writes, result=result):
                if result is not None:
                    self.variables.add(result)
                self.memory.update(r.buffer.storage for r in writes if r.buffer.scope in _OF_THREAD)
            case Atomic(result=result) if result is not None:
                if under or self.names(expressions(stmt)):
                    self.variables.add(result)
            case Break() | Continue() if under and loop is not None:
                self._loops.add(loop)
            case ParallelLoop():
                return  # what an iteration keeps for itself does not outlive it
        diverges = self._diverges(stmt)
        under = under or diverges
        apart = apart or diverges and not (isinstance(stmt, If) and stmt.group)
        inner = stmt if isinstance(stmt, For | While) else loop
        if isinstance(stmt, For) and stmt in self._loops:
            self.variables.add(stmt.var)
        for child in sub_statements(stmt):
            self._visit(child, under=under, apart=apart, loop=inner)

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
