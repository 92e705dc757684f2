"""Hoists copies from global memory within the iteration of a loop, above statements that do not depend on them.

Takes statements whose pipelines are expanded, gives them in another order. Asynchronous copies overlap computation.
Small copies to registers move above copies into shared memory and above waits: loads return in issue order, so that a
load issued after a tile's copy arrives after all of it. Invariant: a copy passes only statements that neither write its
source nor access its destination; asynchronous copies keep a statement between each other, so that each has a commit
group of its own.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tilelang.analysis.accesses import accesses, storages
from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var
from tilelang.ir.pipeline import Acquire, OrderWait, Wait
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, ParallelLoop, Seq, Stmt, Store, TileOp
from tilelang.ir.visit import Rewriter, expressions, loads_of, walk, walk_expr
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.async_copies import is_asynchronous
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_WAIT

_PREFETCH_BYTES = 64  # per thread, of a copy to registers that is hoisted; larger ones cost too many registers


def hoist_async_copies(body: Stmt, owned: AbstractSet[Stmt], shared_bytes: int, threads: int) -> Stmt:
    """The statements with the copies in loops hoisted as far as possible.

    Args:
        body: The body of a launch.
        owned: Copies of pipelines, which stay in place.
        shared_bytes: Shared memory of a block; hoisting extends live ranges, so that tiles may no longer share memory.
        threads: Threads of a block.
    """
    if any(isinstance(s, Gemm) and s.wait for s in walk(body)):
        return body  # a gemm in flight reads tiles after its statement
    tiles = [s.buffer for s in walk(body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    if sum(tile.bytes or 0 for tile in tiles if tile.view_of is None) > shared_bytes:
        return body
    return _HoistCopies(owned, _written(body), threads * _PREFETCH_BYTES).visit(body) or body


def _written(body: Stmt) -> frozenset[Buffer]:
    return storages(body).written


class _HoistCopies(Rewriter):
    def __init__(self, owned: AbstractSet[Stmt], written: frozenset[Buffer], prefetch_bytes: int) -> None:
        self._owned, self._written, self._prefetch_bytes = owned, written, prefetch_bytes
        self._in_loop = False

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq) and self._in_loop:
            return self._sequence(node)
        if isinstance(node, For):
            around, self._in_loop = self._in_loop, True
            rebuilt = self.rebuild_stmt(node)
            self._in_loop = around
            return rebuilt
        return self.rebuild_stmt(node) if isinstance(node, Seq | If) or not isinstance(node, TileOp) else node

    def _sequence(self, node: Seq) -> Stmt:
        statements: list[Stmt] = []
        for child in node.body:
            new = self.visit(child)
            if new is None:
                continue
            if isinstance(new, Copy) and self._is_movable_copy(new):
                statements.insert(self._copy_position(new, statements), new)
            elif isinstance(new, Copy) and self._is_prefetch(new):
                position = self._prefetch_position(new, statements)
                passed = statements[position:]
                allocation = [s for s in passed if _is_allocation_of(new.dst.buffer, s)]
                statements[position:] = [*allocation, new, *(s for s in passed if s not in allocation)]
            else:
                statements.append(new)
        return with_statements(node, statements)

    def _is_movable_copy(self, stmt: Stmt) -> bool:
        return is_asynchronous(stmt) and isinstance(stmt, Copy) and stmt not in self._owned

    def _is_prefetch(self, stmt: Stmt) -> bool:
        """Whether a statement copies a small tile, of a tensor that the launch does not write, to registers."""
        if not isinstance(stmt, Copy) or (stmt.src.buffer.scope, stmt.dst.buffer.scope) != _TO_REGISTERS:
            return False
        read = storages(stmt).read
        is_written = any(b in self._written and b.scope in (Scope.GLOBAL, Scope.SHARED) for b in read)
        return not is_written and 0 < (stmt.dst.buffer.bytes or 0) <= self._prefetch_bytes

    def _prefetch_position(self, copy: Copy, before: list[Stmt]) -> int:
        """The first position for a copy to registers among the statements before it; its allocation moves along."""
        position = at = len(before)
        while at and not self._is_prefetch(before[at - 1]):
            stmt = before[at - 1]
            moves_along = _is_allocation_of(copy.dst.buffer, stmt)
            if not moves_along and not _is_async_copy_or_wait(stmt) and not _may_pass(copy, stmt):
                break
            at -= 1
            if not isinstance(before[at], Bind | Alloc):
                position = at
        return position

    def _copy_position(self, copy: Copy, before: list[Stmt]) -> int:
        """The first position for an asynchronous copy among the statements before it."""
        position = at = len(before)
        while at and _may_pass(copy, before[at - 1]):
            at -= 1
            if isinstance(before[at], TileOp | ParallelLoop):  # passing other statements gains nothing
                position = at
        while position < len(before) and position and self._is_movable_copy(before[position - 1]):
            position += 1  # keep a statement between two copies
        return position


_TO_REGISTERS = (Scope.GLOBAL, Scope.FRAGMENT)
_WAITS = (CP_ASYNC_COMMIT, CP_ASYNC_WAIT, MBARRIER_WAIT)


def _is_allocation_of(buffer: Buffer, stmt: Stmt) -> bool:
    return isinstance(stmt, Alloc) and stmt.buffer is buffer


def _is_async_copy_or_wait(stmt: Stmt) -> bool:
    """Whether a statement only issues asynchronous copies, or waits for some."""
    match stmt:
        case CallStmt(routine=routine):
            return routine in _WAITS
        case Acquire() | Wait() | OrderWait():
            return True
        case If(then_body=then_body, else_body=None, group=None):
            return _is_async_copy_or_wait(then_body)
        case Seq(body=body):
            return all(map(_is_async_copy_or_wait, body))
    return isinstance(stmt, Copy) and is_asynchronous(stmt)


def _may_pass(copy: Copy, stmt: Stmt) -> bool:
    """Whether a copy may be hoisted above a statement."""
    if not isinstance(stmt, TileOp | ParallelLoop | Store | Bind | Alloc):
        return False
    if is_asynchronous(stmt) or transfers_ownership(stmt):
        return False
    if isinstance(stmt, TileOp) and (stmt.required_lowering or any(transfers_ownership(s) for s in walk(stmt))):
        return False
    source = storages(copy).read
    target = copy.dst.buffer.storage
    if isinstance(stmt, Alloc):
        return stmt.buffer.storage not in {*source, target} and stmt.buffer not in (copy.src.buffer, copy.dst.buffer)
    used = {e for root in expressions(copy) for e in walk_expr(root) if isinstance(e, Var)}
    if isinstance(stmt, Bind) and stmt.var in used:
        return False
    reads = {e.buffer.storage for root in expressions(copy) for e in loads_of(root)}
    found = accesses(stmt)
    written = {a.buffer.storage for a in found.writes}
    return written.isdisjoint({*source, *reads}) and all(a.buffer.storage is not target for a in found.all)
