"""Hoists loop-invariant loads of mutable scalars in subscripts out of loops, as immutable bindings.

    for k:  A[first + k * 256 + lane] = ...
 => first_1 = first
    for k:  A[first_1 + k * 256 + lane] = ...

Later analyses then see that the subscript differs between iterations by a known term, and prove that iterations are
independent. Invariant: the same values; only scalars that are definitely assigned before the loop are hoisted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, Seq, Stmt, Store, While
from tilelang.ir.visit import Rewriter, expressions, loads_of, walk, written_buffers
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


class _HoistScalarLoads(Rewriter):
    """The rewriter; `_assigned` are the scalars that are definitely assigned at the current point."""

    def __init__(self) -> None:
        self._assigned: frozenset[Buffer] = frozenset()

    def expr(self, node: Expr) -> Expr:
        return node

    def stmt(self, node: Stmt) -> Stmt | None:
        before = self._assigned
        rewritten = self._seq(node) if isinstance(node, Seq) else self.rebuild_stmt(node)
        self._assigned = before
        return rewritten

    def _seq(self, node: Seq) -> Seq:
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, For | While):
                binds, child = self._hoisted(child)
                body += binds
            rewritten = self.visit(child)
            body += [] if rewritten is None else [rewritten]
            if isinstance(child, Store) or isinstance(child, Alloc) and child.init is not None:
                self._assigned |= {child.buffer} if child.buffer.scope is Scope.VAR else set()
        return with_statements(node, body)

    def _hoisted(self, loop: For | While) -> tuple[list[Bind], For | While]:
        """Bindings of the scalars that a loop uses in subscripts and does not assign, and the loop using them."""
        if not self._assigned:
            return [], loop
        assigned = {buffer for s in walk(loop) for buffer in written_buffers(s)}
        used = dict.fromkeys(buffer for s in walk(loop) for buffer in _scalars_in_subscripts(s))
        hoisted = {b: Var(b.name, b.dtype) for b in used if b in self._assigned and b not in assigned}
        if not hoisted:
            return [], loop
        replaced = _Replace(hoisted).visit(loop)
        assert isinstance(replaced, For | While)
        return [Bind(var, Load(buffer, (), buffer.dtype), loc=loop.loc) for buffer, var in hoisted.items()], replaced


class _Replace(Rewriter):
    def __init__(self, hoisted: dict[Buffer, Var]) -> None:
        self._vars = hoisted

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._vars:
            return self._vars[node.buffer]
        return self.rebuild_expr(node)


def _scalars_in_subscripts(stmt: Stmt) -> Iterator[Buffer]:
    """The integer scalars in the subscripts of a statement's own accesses to global and shared memory."""
    for subscript in _subscripts(stmt):
        for load in loads_of(subscript):
            if load.buffer.scope is Scope.VAR and load.dtype.is_int:
                yield load.buffer


def _subscripts(stmt: Stmt) -> Iterator[Expr]:
    if isinstance(stmt, Store | Atomic) and stmt.buffer.scope in SHARED_BY_THREADS:
        yield from stmt.indices
    if isinstance(stmt, CallStmt):
        for region in (*stmt.args, *stmt.reads, *stmt.writes):
            if isinstance(region, Region) and region.buffer.scope in SHARED_BY_THREADS:
                yield from region.start
    for root in expressions(stmt):
        for load in loads_of(root):
            if load.buffer.scope in SHARED_BY_THREADS:
                yield from load.indices


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _HoistScalarLoads().visit(func.body))


PASS = Pass(
    "hoist_scalar_loads", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_IN_RANGE,),
    establishes=(Property.SCALAR_LOADS_HOISTED,),
)
