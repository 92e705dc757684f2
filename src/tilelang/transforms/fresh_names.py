"""Fresh names: a copy of a program that can stand beside the program itself.

Takes a statement, gives one in which everything that it defines is new. Invariant: what it uses from outside stays.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter, defined_variables, walk


def with_fresh_names(program: Stmt) -> Stmt:
    """The program with fresh variables and buffers for all that it defines."""
    renamed = _FreshNames(program).visit(program)
    assert renamed is not None
    return renamed


class _FreshNames(Rewriter):
    def __init__(self, program: Stmt) -> None:
        self._vars: dict[Var, Var] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        for stmt in walk(program):
            for var in defined_variables(stmt):
                self._vars[var] = Var(var.name, var.dtype, index=var.index)
            if isinstance(stmt, Alloc):
                view_of = stmt.buffer.view_of
                own = view_of if view_of is None else self._buffers.get(view_of, view_of)
                self._buffers[stmt.buffer] = dataclasses.replace(stmt.buffer, view_of=own)

    def expr(self, node: Expr) -> Expr:
        return self._vars.get(node, node) if isinstance(node, Var) else self.rebuild_expr(node)

    def buffer(self, node: Buffer) -> Buffer:
        return self._buffers.get(node, node)

    def stmt(self, node: Stmt) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        match rebuilt:
            case For(var=var) | Bind(var=var):
                return dataclasses.replace(rebuilt, var=self._vars[var])
            case ParallelLoop(vars=variables):
                return dataclasses.replace(rebuilt, vars=tuple(self._vars[var] for var in variables))
            case CallStmt(result=result) | Atomic(result=result) if result is not None:
                return dataclasses.replace(rebuilt, result=self._vars[result])
        return rebuilt
