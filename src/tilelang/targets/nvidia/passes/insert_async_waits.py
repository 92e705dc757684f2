"""Inserts commits and waits for cp.async copies outside of pipelines: a wait right before the first use.

Takes tile-level statements whose pipelines are expanded, gives them with commits and waits. Invariant: a statement that
accesses the destination of such a copy, or writes its source, runs after a wait for it; no copy is in flight at the end
of a loop's body or before a jump out of it. Commit groups complete in order, so that the wait at the beginning of a
pipelined loop's iterations also covers copies before the loop. Copies right before an arrival that tracks them
(`cp.async.mbarrier`) are waited for at that barrier; but where the async proxy reads their tiles, the copying thread
itself waits, since it has to execute a proxy fence afterwards.
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
from tilelang.schedule.async_copies import is_asynchronous
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_CP_ASYNC_ARRIVE, MBARRIER_CP_ASYNC_ARRIVE_NOINC
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
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
        later_groups: Groups committed since; None if their number is not known.
    """

    copies: list[Copy]
    later_groups: int | None = 0

    @property
    def targets(self) -> set[Buffer]:
        """The buffers that its copies fill."""
        return {copy.dst.buffer.storage for copy in self.copies}


class _InsertWaits(Rewriter):
    def __init__(self, owned: AbstractSet[Stmt], by_async_proxy: AbstractSet[Buffer]) -> None:
        self.owned, self.by_async_proxy = owned, by_async_proxy

    def is_unpipelined(self, stmt: Stmt) -> bool:
        """Whether a statement is an asynchronous copy outside of all pipelines."""
        return is_asynchronous(stmt) and stmt not in self.owned

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq | If) or self.is_unpipelined(node):
            return _Sequence(self).with_waits(node, leave_pending=False)
        return self.rebuild_stmt(node)


class _Sequence:
    """Rewrites one sequence and tracks the groups in flight.

    Attributes:
        groups: The groups in flight, oldest first.
    """

    def __init__(self, rewriter: _InsertWaits) -> None:
        self._rewriter = rewriter
        self._statements: list[Stmt] = []
        self._uncommitted: list[Copy] = []
        self.groups: list[_Group] = []

    def with_waits(self, node: Stmt, *, leave_pending: bool) -> Stmt:
        """The statements with commits and waits.

        Args:
            node: A sequence, or a statement that stands for one.
            leave_pending: Leave groups in flight at the end to the statements after them.
        """
        for child in flat_statements(node):
            if isinstance(child, Copy) and self._rewriter.is_unpipelined(child):
                self._start(child)
                continue
            filled = {copy.dst.buffer.storage for copy in self._uncommitted}
            if _signals_barrier(child) and not filled & self._rewriter.by_async_proxy:
                self._uncommitted = []
            self._commit(child)
            self._wait_for(self.groups if _needs_all_complete(child) else self._accessed(child), child)
            new = self._branch(child) if isinstance(child, If) else self._rewriter.visit(child)
            if new is not None:
                self._statements.append(new)
            self._wait_for(self._unawaited(child), child)
            self._update(child)
        self._commit(node)
        if not leave_pending:
            self._wait_for(self.groups, node)
        return as_body(self._statements, node.loc)

    def _branch(self, node: If) -> Stmt:
        """A branch may leave copies in flight: where it is not taken, the later wait has nothing to wait for.

        A group of threads waits for its own copies, since other threads cannot.
        """
        then = _Sequence(self._rewriter)
        then_body = then.with_waits(node.then_body, leave_pending=node.group is None)
        otherwise = _Sequence(self._rewriter)
        else_body = None if node.else_body is None else otherwise.with_waits(node.else_body, leave_pending=True)
        pending = [*then.groups, *otherwise.groups]
        if pending:
            self._count_later_groups(None)
            self.groups += pending
        return dataclasses.replace(node, then_body=then_body, else_body=else_body)

    def _start(self, copy: Copy) -> None:
        """Adds a copy; where it reads or overwrites the destination of one in flight, after a wait."""
        reads = {s for s in shared_storages(copy) if s is not copy.dst.buffer.storage}
        if any(c.dst.buffer.storage in reads or may_overlap(c.dst, copy.dst) for c in self._uncommitted):
            self._commit(copy)
        self._wait_for(
            [g for g in self.groups if g.targets & reads or any(may_overlap(c.dst, copy.dst) for c in g.copies)], copy
        )
        self._uncommitted.append(copy)
        self._statements.append(copy)

    def _commit(self, at: Stmt) -> None:
        """Commits the copies since the last group."""
        if self._uncommitted:
            self._statements.append(CallStmt(CP_ASYNC_COMMIT, (), loc=at.loc))
            self._count_later_groups(1)
            self.groups.append(_Group(self._uncommitted))
            self._uncommitted = []

    def _count_later_groups(self, count: int | None) -> None:
        """Counts commits after the groups in flight; None for an unknown number."""
        for group in self.groups:
            group.later_groups = None if count is None or group.later_groups is None else group.later_groups + count

    def _wait_for(self, groups: list[_Group], at: Stmt) -> None:
        """Waits for the latest of these groups, and so for all before it."""
        if groups:
            pending = groups[-1].later_groups or 0
            self._statements.append(CallStmt(CP_ASYNC_WAIT, (const(pending, INT32),), loc=at.loc))
            self.groups = self.groups[self.groups.index(groups[-1]) + 1 :] if pending else []

    def _accessed(self, stmt: Stmt) -> list[_Group]:
        """The groups that must be complete before a statement."""
        covered = self._covered(stmt)
        return _accessed_by(stmt, [group for group in self.groups if group not in covered])

    def _unawaited(self, stmt: Stmt) -> list[_Group]:
        """The groups for which only iterations of a loop wait: after it, memory of its tiles may be reused."""
        return [] if _has_iterations(stmt) else _accessed_by(stmt, self._covered(stmt))

    def _covered(self, stmt: Stmt) -> list[_Group]:
        """The groups for which the iterations of a pipelined loop wait at their beginning."""
        first = _first_wait(stmt)
        return [g for g in self.groups if first is not None and g.later_groups is not None and g.later_groups >= first]

    def _update(self, stmt: Stmt) -> None:
        """Updates the groups in flight for the commits and waits in a statement."""
        if _has_iterations(stmt):
            first = _first_wait(stmt)
            self.groups = [g for g in self.groups if first is None or g.later_groups is None or g.later_groups < first]
        if isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT:
            self._count_later_groups(1)
        elif any(_commits(inner, self._rewriter) for inner in walk(stmt)) and not isinstance(stmt, If):
            self._count_later_groups(None)
        elif isinstance(stmt, If) and any(_commits(inner, None) for inner in walk(stmt)):
            self._count_later_groups(None)


def _signals_barrier(stmt: Stmt) -> bool:
    """Whether a statement makes a barrier track the copies before it."""
    return isinstance(stmt, CallStmt) and stmt.routine in (MBARRIER_CP_ASYNC_ARRIVE_NOINC, MBARRIER_CP_ASYNC_ARRIVE)


def _read_by_async_proxy(body: Stmt) -> set[Buffer]:
    """The tiles that TMA stores or wgmma read."""
    found: set[Buffer] = set()
    for stmt in walk(body):
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        is_async_call = isinstance(routine, Instruction) and routine.reads_asynchronously
        if is_async_call or isinstance(stmt, TileOp) and stmt.choice in (GemmWgmma.name, COPY_TMA_STORE):
            found.update(shared_storages(stmt))
    return found


def _needs_all_complete(stmt: Stmt) -> bool:
    """Whether all copies must complete before a statement: a jump, or a transfer of ownership to other threads."""
    return jumps(stmt) or any(transfers_ownership(s) for s in walk(stmt))


def _accessed_by(stmt: Stmt, groups: list[_Group]) -> list[_Group]:
    """The groups whose destinations a statement may access, or whose sources it may write."""
    found = accesses(stmt).all if groups else ()
    return [g for g in groups if any(_conflicts(access, copy) for access in found for copy in g.copies)]


def _conflicts(access: Access, copy: Copy) -> bool:
    """Whether an access has to wait for a copy in flight."""
    return _overlaps(access, copy.dst) or access.write and _overlaps(access, copy.src)


def _overlaps(access: Access, region: Region) -> bool:
    """Whether an access may overlap a region of a copy."""
    if access.buffer.storage is not region.buffer.storage:
        return False
    if access.buffer is not region.buffer:
        return True
    ones = tuple(const(1, INT32) for _ in access.start)
    if not may_overlap(Region(access.buffer, access.start, access.extent or ones), region):
        return False
    lengths = zip(access.extent or ones, region.extent, strict=True)
    single = [int_const(a) == int_const(b) == 1 for a, b in lengths]
    starts = zip(single, access.start, region.start, strict=True)
    return not any(is_single and of_other_versions(a, b) for is_single, a, b in starts)


def _commits(stmt: Stmt, rewriter: _InsertWaits | None) -> bool:
    """Whether a statement is a commit, or a copy that gets one."""
    gets_commit = rewriter is not None and rewriter.is_unpipelined(stmt)
    return gets_commit or isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT


def _first_wait(stmt: Stmt) -> int | None:
    """The groups that may be in flight after the wait at the beginning of a pipelined loop's iterations."""
    if not isinstance(stmt, For) or not isinstance(stmt.body, Seq) or not stmt.body.body:
        return None
    first = stmt.body.body[0]
    if not isinstance(first, CallStmt) or first.routine is not CP_ASYNC_WAIT or not isinstance(first.args[0], Expr):
        return None
    return int_const(first.args[0])


def _has_iterations(stmt: Stmt) -> bool:
    if not isinstance(stmt, For):
        return False
    start, stop = int_const(stmt.start), int_const(stmt.stop)
    return start is not None and stop is not None and len(range(start, stop, stmt.step)) > 0
