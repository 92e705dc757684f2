"""Inserts commits and waits for cp.async copies outside of pipelines: a wait right before the first use.

Takes tile-level statements whose pipelines are expanded, gives them with commits and waits. Invariant: a statement that
accesses the destination of such a copy runs after a wait for it; no copy is in flight at the end of a loop's body or
before a jump out of it. Commit groups complete in order, so that the wait at the beginning of a pipelined loop's
iterations also covers copies before the loop. Copies right before an arrival that tracks them (`cp.async.mbarrier`) are
waited for at that barrier; but where the async proxy reads their tiles, the copying thread itself waits, since it has
to execute a proxy fence afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.analysis.thread_conflicts import of_other_versions
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import CallStmt, For, If, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, jumps, walk
from tilelang.isa.instruction import Instruction
from tilelang.lowering.regions import may_overlap, shared_storages
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_CP_ASYNC_ARRIVE, MBARRIER_CP_ASYNC_ARRIVE_NOINC
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
from tilelang.targets.nvidia.passes.async_copies import is_asynchronous
from tilelang.targets.nvidia.requests import COPY_TMA_STORE


def insert_async_waits(body: Stmt, owned: AbstractSet[Stmt]) -> Stmt:
    """The statements with every asynchronous copy committed, and waited for before its first use.

    Args:
        body: The body of a launch.
        owned: Copies that a pipeline commits and waits for.
    """
    if all(s in owned for s in walk(body) if is_asynchronous(s)):
        return body
    return _InsertWaits(owned, _read_by_async_proxy(body)).visit(body) or body


@record(frozen=False, slots=True)
class _Group:
    """A commit group.

    Attributes:
        copies: Its copies.
        newer: Groups committed since; None if that is not known.
    """

    copies: list[Copy]
    newer: int | None = 0

    @property
    def targets(self) -> set[Buffer]:
        """The buffers that they fill."""
        return {copy.dst.buffer.storage for copy in self.copies}


class _InsertWaits(Rewriter):
    def __init__(self, owned: AbstractSet[Stmt], by_async_proxy: AbstractSet[Buffer]) -> None:
        self.owned, self.by_async_proxy = owned, by_async_proxy

    def is_free(self, stmt: Stmt) -> bool:
        """Whether a statement is an asynchronous copy outside of all pipelines."""
        return is_asynchronous(stmt) and stmt not in self.owned

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq | If) or self.is_free(node):
            return _Sequence(self).with_waits(node, leave_pending=False)
        return self.rebuild_stmt(node)


class _Sequence:
    """Rewrites one sequence and tracks the groups in flight.

    Attributes:
        groups: The groups in flight, oldest first.
    """

    def __init__(self, insert_async_waits: _InsertWaits) -> None:
        self._pass = insert_async_waits
        self._made: list[Stmt] = []
        self._uncommitted: list[Copy] = []
        self.groups: list[_Group] = []

    def with_waits(self, node: Stmt, *, leave_pending: bool) -> Stmt:
        """The statements with commits and waits.

        Args:
            node: A sequence, or a statement that stands for one.
            leave_pending: Leave groups in flight at the end to the statements after them.
        """
        for child in flat_statements(node):
            if isinstance(child, Copy) and self._pass.is_free(child):
                self._start(child)
                continue
            filled = {copy.dst.buffer.storage for copy in self._uncommitted}
            if _signals_barrier(child) and not filled & self._pass.by_async_proxy:
                self._uncommitted = []
            self._commit(child)
            self._await(self.groups if _needs_all(child) else self._touched(child), child)
            new = self._branch(child) if isinstance(child, If) else self._pass.visit(child)
            if new is not None:
                self._made.append(new)
            self._update(child)
        self._commit(node)
        if not leave_pending:
            self._await(self.groups, node)
        return as_body(self._made, node.loc)

    def _branch(self, node: If) -> Stmt:
        """A branch may leave copies in flight: where it is not taken, the later wait has nothing to wait for.

        A group of threads waits for its own copies, since other threads cannot.
        """
        then = _Sequence(self._pass)
        then_body = then.with_waits(node.then_body, leave_pending=node.group is None)
        otherwise = _Sequence(self._pass)
        else_body = None if node.else_body is None else otherwise.with_waits(node.else_body, leave_pending=True)
        left = [*then.groups, *otherwise.groups]
        if left:
            self._age(None)
            self.groups += left
        return dataclasses.replace(node, then_body=then_body, else_body=else_body)

    def _start(self, copy: Copy) -> None:
        """Adds a copy; where it reads or overwrites the destination of one in flight, after a wait."""
        reads = {s for s in shared_storages(copy) if s is not copy.dst.buffer.storage}
        if any(c.dst.buffer.storage in reads or may_overlap(c.dst, copy.dst) for c in self._uncommitted):
            self._commit(copy)
        self._await(
            [g for g in self.groups if g.targets & reads or any(may_overlap(c.dst, copy.dst) for c in g.copies)], copy
        )
        self._uncommitted.append(copy)
        self._made.append(copy)

    def _commit(self, at: Stmt) -> None:
        """Commits the copies since the last group."""
        if self._uncommitted:
            self._made.append(CallStmt(CP_ASYNC_COMMIT, (), loc=at.loc))
            self._age(1)
            self.groups.append(_Group(self._uncommitted))
            self._uncommitted = []

    def _age(self, count: int | None) -> None:
        for group in self.groups:
            group.newer = None if count is None or group.newer is None else group.newer + count

    def _await(self, groups: list[_Group], at: Stmt) -> None:
        """Waits for the newest of these groups, and so for all before it."""
        if groups:
            left = groups[-1].newer or 0
            self._made.append(CallStmt(CP_ASYNC_WAIT, (const(left, INT32),), loc=at.loc))
            self.groups = self.groups[self.groups.index(groups[-1]) + 1 :] if left else []

    def _touched(self, stmt: Stmt) -> list[_Group]:
        """The groups that must be complete before a statement."""
        first = _first_wait(stmt)
        covered = [g for g in self.groups if first is not None and g.newer is not None and g.newer >= first]
        in_flight = [group for group in self.groups if group not in covered]
        found = accesses(stmt).all if in_flight else ()
        return [g for g in in_flight if any(_overlaps(access, copy.dst) for access in found for copy in g.copies)]

    def _update(self, stmt: Stmt) -> None:
        """Updates the groups in flight for the commits and waits in a statement."""
        if _surely_runs(stmt):
            first = _first_wait(stmt)
            self.groups = [g for g in self.groups if first is None or g.newer is None or g.newer < first]
        if isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT:
            self._age(1)
        elif any(_commits(inner, self._pass) for inner in walk(stmt)) and not isinstance(stmt, If):
            self._age(None)
        elif isinstance(stmt, If) and any(_commits(inner, None) for inner in walk(stmt)):
            self._age(None)


def _signals_barrier(stmt: Stmt) -> bool:
    """Whether a statement makes a barrier track the copies before it."""
    return isinstance(stmt, CallStmt) and stmt.routine in (MBARRIER_CP_ASYNC_ARRIVE_NOINC, MBARRIER_CP_ASYNC_ARRIVE)


def _read_by_async_proxy(body: Stmt) -> set[Buffer]:
    """The tiles that TMA stores or wgmma read."""
    found: set[Buffer] = set()
    for stmt in walk(body):
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        by_hand = isinstance(routine, Instruction) and routine.reads_asynchronously
        if by_hand or isinstance(stmt, TileOp) and stmt.choice in (GemmWgmma.name, COPY_TMA_STORE):
            found.update(shared_storages(stmt))
    return found


def _needs_all(stmt: Stmt) -> bool:
    """Whether all copies must complete before a statement: a jump, or a transfer of ownership to other threads."""
    return jumps(stmt) or any(transfers_ownership(s) for s in walk(stmt))


def _overlaps(access: Access, target: Region) -> bool:
    """Whether an access may overlap the destination of a copy."""
    if access.buffer.storage is not target.buffer.storage:
        return False
    if access.buffer is not target.buffer:
        return True
    ones = tuple(const(1, INT32) for _ in access.start)
    if not may_overlap(Region(access.buffer, access.start, access.extent or ones), target):
        return False
    lengths = zip(access.extent or ones, target.extent, strict=True)
    single = [int_const(a) == int_const(b) == 1 for a, b in lengths]
    places = zip(single, access.start, target.start, strict=True)
    return not any(alone and of_other_versions(a, b) for alone, a, b in places)


def _commits(stmt: Stmt, insert_async_waits: _InsertWaits | None) -> bool:
    """Whether a statement is a commit, or a copy that gets one."""
    free = insert_async_waits is not None and insert_async_waits.is_free(stmt)
    return free or isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT


def _first_wait(stmt: Stmt) -> int | None:
    """The groups that may be in flight after the wait at the beginning of a pipelined loop's iterations."""
    if not isinstance(stmt, For) or not isinstance(stmt.body, Seq) or not stmt.body.body:
        return None
    first = stmt.body.body[0]
    if not isinstance(first, CallStmt) or first.routine is not CP_ASYNC_WAIT or not isinstance(first.args[0], Expr):
        return None
    return int_const(first.args[0])


def _surely_runs(stmt: Stmt) -> bool:
    if not isinstance(stmt, For):
        return False
    start, stop = int_const(stmt.start), int_const(stmt.stop)
    return start is not None and stop is not None and len(range(start, stop, stmt.step)) > 0
