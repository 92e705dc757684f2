"""Starts copies from global memory earlier in the iteration of a loop, beside what does not need them.

Takes statements whose pipelines are expanded, gives them in another order. Asynchronous copies run beside what is
computed. Short copies to registers stand before copies into shared memory and before waits: loads return in the order
in which they were started, so that what is loaded behind a tile arrives behind all of the tile. Invariant: a copy
passes only statements that leave alone what it reads and what it fills, and asynchronous ones stay apart from each
other, so that each can be awaited alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet

from tilelang.analysis.accesses import accesses
from tilelang.analysis.thread_accesses import hands_over
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, ParallelLoop, Seq, Stmt, Store, TileOp
from tilelang.ir.visit import Rewriter, expressions, walk, walk_expr
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_WAIT
from tilelang.targets.nvidia.passes.asynchronous import is_asynchronous

_FETCHED_BYTES = 64  # per thread, what is loaded to registers ahead of its use; more would be in the way


def advance(body: Stmt, owned: AbstractSet[Stmt], shared_bytes: int, threads: int) -> Stmt:
    """The statements with copies in loops as early as may be.

    Args:
        body: What a block does.
        owned: Copies that stay where they are, since a pipeline counts them.
        shared_bytes: How much shared memory a block may have; tiles are needed longer, and may not share it any more.
        threads: How many threads a block has.
    """
    if any(isinstance(s, Gemm) and s.wait for s in walk(body)):
        return body  # products that are under way read tiles that no statement at hand names
    tiles = [s.buffer for s in walk(body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    if sum(tile.bytes or 0 for tile in tiles if tile.view_of is None) > shared_bytes:
        return body
    return _Advance(owned, _written(body), threads * _FETCHED_BYTES).visit(body) or body


def _written(body: Stmt) -> frozenset[Buffer]:
    return frozenset(access.buffer.storage for access in accesses(body).writes)


class _Advance(Rewriter):
    def __init__(self, owned: AbstractSet[Stmt], written: frozenset[Buffer], fetched: int) -> None:
        self._owned, self._written, self._fetched = owned, written, fetched
        self._in_loop = False

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq) and self._in_loop:
            return self._sequence(node)
        if isinstance(node, For):
            around, self._in_loop = self._in_loop, True
            made = self.rebuild_stmt(node)
            self._in_loop = around
            return made
        return self.rebuild_stmt(node) if isinstance(node, Seq | If) or not isinstance(node, TileOp) else node

    def _sequence(self, node: Seq) -> Stmt:
        made: list[Stmt] = []
        for child in node.body:
            new = self.visit(child)
            if new is None:
                continue
            if isinstance(new, Copy) and self._is_free(new):
                made.insert(self._place(new, made), new)
            elif isinstance(new, Copy) and self._is_fetch(new):
                place = self._first_place(new, made)
                passed = made[place:]
                own = [s for s in passed if _is_allocation_of(new.dst.buffer, s)]
                made[place:] = [*own, new, *(s for s in passed if s not in own)]
            else:
                made.append(new)
        same = len(made) == len(node.body) and all(x is y for x, y in zip(made, node.body, strict=True))
        return node if same else dataclasses.replace(node, body=tuple(made))

    def _is_free(self, stmt: Stmt) -> bool:
        return is_asynchronous(stmt) and isinstance(stmt, Copy) and stmt not in self._owned

    def _is_fetch(self, stmt: Stmt) -> bool:
        """Whether a statement loads a few values to registers that nobody changes, from a place that no tile says."""
        if not isinstance(stmt, Copy) or (stmt.src.buffer.scope, stmt.dst.buffer.scope) != _TO_REGISTERS:
            return False
        read = {access.buffer.storage for access in accesses(stmt).reads}
        changing = any(b in self._written and b.scope in (Scope.GLOBAL, Scope.SHARED) for b in read)
        return not changing and 0 < (stmt.dst.buffer.bytes or 0) <= self._fetched

    def _first_place(self, copy: Copy, before: list[Stmt]) -> int:
        """Where among the statements before it a copy to registers may stand; their allocation goes along."""
        place = at = len(before)
        while at and not self._is_fetch(before[at - 1]):
            stmt = before[at - 1]
            takes_along = _is_allocation_of(copy.dst.buffer, stmt)
            if not takes_along and not _is_of_copies(stmt) and not _may_pass(copy, stmt):
                break
            at -= 1
            if not isinstance(before[at], Bind | Alloc):
                place = at
        return place

    def _place(self, copy: Copy, before: list[Stmt]) -> int:
        """Where among the statements before it a copy may stand."""
        place = at = len(before)
        while at and _may_pass(copy, before[at - 1]):
            at -= 1
            if isinstance(before[at], TileOp | ParallelLoop):  # there is nothing to gain from the others
                place = at
        while place < len(before) and place and self._is_free(before[place - 1]):
            place += 1  # one statement stands between: it closes the group of the other copy
        return place


_TO_REGISTERS = (Scope.GLOBAL, Scope.FRAGMENT)
_WAITS = (CP_ASYNC_COMMIT, CP_ASYNC_WAIT, MBARRIER_WAIT)


def _is_allocation_of(buffer: Buffer, stmt: Stmt) -> bool:
    return isinstance(stmt, Alloc) and stmt.buffer is buffer


def _is_of_copies(stmt: Stmt) -> bool:
    """Whether a statement starts copies into shared memory, or waits for some."""
    match stmt:
        case CallStmt(routine=routine):
            return routine in _WAITS
        case If(then_body=then_body, else_body=None, group=None):
            return _is_of_copies(then_body)
        case Seq(body=body):
            return all(map(_is_of_copies, body))
    return isinstance(stmt, Copy) and is_asynchronous(stmt)


def _may_pass(copy: Copy, stmt: Stmt) -> bool:
    """Whether a copy may start before a statement that stands before it."""
    if not isinstance(stmt, TileOp | ParallelLoop | Store | Bind | Alloc) or is_asynchronous(stmt) or hands_over(stmt):
        return False
    if isinstance(stmt, TileOp) and (stmt.demanded or any(hands_over(s) for s in walk(stmt))):
        return False
    own = accesses(copy)
    source = {a.buffer.storage for a in own.reads}
    target = copy.dst.buffer.storage
    if isinstance(stmt, Alloc):
        return stmt.buffer.storage not in {*source, target} and stmt.buffer not in (copy.src.buffer, copy.dst.buffer)
    used = {e for root in expressions(copy) for e in walk_expr(root) if isinstance(e, Var)}
    if isinstance(stmt, Bind) and stmt.var in used:
        return False
    reads = {e.buffer.storage for root in expressions(copy) for e in walk_expr(root) if isinstance(e, Load)}
    found = accesses(stmt)
    written = {a.buffer.storage for a in found.writes}
    return written.isdisjoint({*source, *reads}) and all(a.buffer.storage is not target for a in found.all)
