"""Gives a name to what mutable scalars hold where loops use them in places of memory, and do not assign them.

    for k:  A[first + k * 256 + lane] = ...
 => first_1 = first
    for k:  A[first_1 + k * 256 + lane] = ...

Takes a thread-level function, gives one in which such places are visibly the same sums in all iterations, so that it
can be seen that these touch different elements. Invariant: the same values; a scalar is read earlier only where it
surely has been assigned.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.thread_accesses import SHARED_BY_THREADS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, Seq, Stmt, Store, While
from tilelang.ir.visit import Rewriter, expressions, walk, walk_expr, written_buffers
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


class _Name(Rewriter):
    """The rewriting; `_assigned` are the scalars that surely have a value where it stands."""

    def __init__(self) -> None:
        self._assigned: frozenset[Buffer] = frozenset()

    def expr(self, node: Expr) -> Expr:
        return node

    def stmt(self, node: Stmt) -> Stmt | None:
        before = self._assigned
        made = self._seq(node) if isinstance(node, Seq) else self.rebuild_stmt(node)
        self._assigned = before
        return made

    def _seq(self, node: Seq) -> Seq:
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, For | While):
                binds, child = self._with_names(child)
                body += binds
            made = self.visit(child)
            body += [] if made is None else [made]
            if isinstance(child, Store) or isinstance(child, Alloc) and child.init is not None:
                self._assigned |= {child.buffer}
        same = len(body) == len(node.body) and all(x is y for x, y in zip(body, node.body, strict=True))
        return node if same else Seq(tuple(body), loc=node.loc)

    def _with_names(self, loop: For | While) -> tuple[list[Bind], For | While]:
        """Names for scalars that a loop uses, and the loop with them."""
        assigned = {buffer for s in walk(loop) for buffer in written_buffers(s)}
        used = dict.fromkeys(buffer for s in walk(loop) for buffer in _in_places(s))
        names = {b: Var(b.name, b.dtype) for b in used if b in self._assigned and b not in assigned}
        if not names:
            return [], loop
        made = _Replace(names).visit(loop)
        assert isinstance(made, For | While)
        return [Bind(var, Load(buffer, (), buffer.dtype), loc=loop.loc) for buffer, var in names.items()], made


class _Replace(Rewriter):
    def __init__(self, names: dict[Buffer, Var]) -> None:
        self._names = names

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._names:
            return self._names[node.buffer]
        return self.rebuild_expr(node)


def _in_places(stmt: Stmt) -> Iterator[Buffer]:
    """The integer scalars in the places that a statement itself touches in memory that threads share."""
    for place in _places(stmt):
        for node in walk_expr(place):
            if isinstance(node, Load) and node.buffer.scope is Scope.VAR and node.dtype.is_int:
                yield node.buffer


def _places(stmt: Stmt) -> Iterator[Expr]:
    if isinstance(stmt, Store | Atomic) and stmt.buffer.scope in SHARED_BY_THREADS:
        yield from stmt.indices
    if isinstance(stmt, CallStmt):
        for region in (*stmt.args, *stmt.reads, *stmt.writes):
            if isinstance(region, Region) and region.buffer.scope in SHARED_BY_THREADS:
                yield from region.start
    for root in expressions(stmt):
        for node in walk_expr(root):
            if isinstance(node, Load) and node.buffer.scope in SHARED_BY_THREADS:
                yield from node.indices


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Name().visit(func.body))


PASS = Pass(
    "name_scalars", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_IN_RANGE,),
    establishes=(Property.PLACES_NAMED,),
)
