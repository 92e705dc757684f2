"""Closes and awaits asynchronous copies that no pipeline takes care of: a wait right before the first use.

Takes tile-level statements whose pipelines are expanded, gives them with commits and waits. Invariant: whatever
statement touches what such a copy fills runs after a wait that covers it; no copy is left under way at the end of a
loop's body or before a jump out of it. Groups complete in the order in which they were closed, so that the wait at the
beginning of a pipelined loop's iterations also covers what was copied before the loop. Copies right before a statement
that lets a barrier wait for them are awaited there, by whoever uses what they bring; but what an engine beside the
threads reads is awaited by the thread that copied it, which must let the engine see it by a fence of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.thread_accesses import hands_over
from tilelang.analysis.thread_conflicts import of_other_versions
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.stmt import CallStmt, For, If, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, jumps, walk
from tilelang.isa.instruction import Instruction
from tilelang.lowering.regions import may_overlap, shared_storages
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_CP_ASYNC_ARRIVE, MBARRIER_CP_ASYNC_ARRIVE_BESIDE
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
from tilelang.targets.nvidia.passes.asynchronous import is_asynchronous
from tilelang.targets.nvidia.requests import COPY_TMA_STORE


def settle(body: Stmt, owned: AbstractSet[Stmt]) -> Stmt:
    """The statements with every asynchronous copy in a group, and waited for before its first use.

    Args:
        body: What a block does.
        owned: Copies that a pipeline closes and awaits.
    """
    if all(s in owned for s in walk(body) if is_asynchronous(s)):
        return body
    return _Settle(owned, _read_by_engines(body)).visit(body) or body


@record(frozen=False, slots=True)
class _Group:
    """Copies closed together.

    Attributes:
        copies: The copies.
        newer: Groups closed since; None if that is not known.
    """

    copies: list[Copy]
    newer: int | None = 0

    @property
    def targets(self) -> set[Buffer]:
        """What they fill."""
        return {copy.dst.buffer.storage for copy in self.copies}


class _Settle(Rewriter):
    def __init__(self, owned: AbstractSet[Stmt], by_engines: AbstractSet[Buffer]) -> None:
        self.owned, self.by_engines = owned, by_engines

    def is_free(self, stmt: Stmt) -> bool:
        """Whether a statement is an asynchronous copy that nobody takes care of."""
        return is_asynchronous(stmt) and stmt not in self.owned

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq | If) or self.is_free(node):
            return _Sequence(self).settled(node, leave=False)
        return self.rebuild_stmt(node)


class _Sequence:
    """One sequence: knows what is under way from statement to statement.

    Attributes:
        groups: What is under way, oldest first.
    """

    def __init__(self, settle: _Settle) -> None:
        self._settle = settle
        self._made: list[Stmt] = []
        self._open: list[Copy] = []
        self.groups: list[_Group] = []

    def settled(self, node: Stmt, *, leave: bool) -> Stmt:
        """The statements with commits and waits.

        Args:
            node: A sequence, or a statement that stands for one.
            leave: Leave what is under way at the end to whoever comes after.
        """
        for child in _inlined(node):
            if isinstance(child, Copy) and self._settle.is_free(child):
                self._start(child)
                continue
            filled = {copy.dst.buffer.storage for copy in self._open}
            if _lets_barrier_wait(child) and not filled & self._settle.by_engines:
                self._open = []
            self._close(child)
            self._await(self.groups if _ends_all(child) else self._touched(child), child)
            new = self._branch(child) if isinstance(child, If) else self._settle.visit(child)
            if new is not None:
                self._made.append(new)
            self._count(child)
        self._close(node)
        if not leave:
            self._await(self.groups, node)
        return self._made[0] if len(self._made) == 1 else Seq(tuple(self._made), loc=node.loc)

    def _branch(self, node: If) -> Stmt:
        """A branch may leave copies under way: if it is not taken, there is nothing to wait for.

        A group of threads settles its own, since nobody else knows when these are done.
        """
        then = _Sequence(self._settle)
        then_body = then.settled(node.then_body, leave=node.group is None)
        otherwise = _Sequence(self._settle)
        else_body = None if node.else_body is None else otherwise.settled(node.else_body, leave=True)
        left = [*then.groups, *otherwise.groups]
        if left:
            self._age(None)
            self.groups += left
        return dataclasses.replace(node, then_body=then_body, else_body=else_body)

    def _start(self, copy: Copy) -> None:
        """Another copy; one that needs what is under way, or writes over it, comes after."""
        reads = {s for s in shared_storages(copy) if s is not copy.dst.buffer.storage}
        if any(c.dst.buffer.storage in reads or may_overlap(c.dst, copy.dst) for c in self._open):
            self._close(copy)
        self._await(
            [g for g in self.groups if g.targets & reads or any(may_overlap(c.dst, copy.dst) for c in g.copies)], copy
        )
        self._open.append(copy)
        self._made.append(copy)

    def _close(self, at: Stmt) -> None:
        """Closes the group of the copies since the last one."""
        if self._open:
            self._made.append(CallStmt(CP_ASYNC_COMMIT, (), loc=at.loc))
            self._age(1)
            self.groups.append(_Group(self._open))
            self._open = []

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
        under_way = [group for group in self.groups if group not in covered]
        found = accesses(stmt).all if under_way else ()
        return [g for g in under_way if any(_meets(access, copy.dst) for access in found for copy in g.copies)]

    def _count(self, stmt: Stmt) -> None:
        """What a statement's own commits and waits mean for the groups under way."""
        if _surely_runs(stmt):
            first = _first_wait(stmt)
            self.groups = [g for g in self.groups if first is None or g.newer is None or g.newer < first]
        if isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT:
            self._age(1)
        elif any(_closes(inner, self._settle) for inner in walk(stmt)) and not isinstance(stmt, If):
            self._age(None)
        elif isinstance(stmt, If) and any(_closes(inner, None) for inner in walk(stmt)):
            self._age(None)


def _lets_barrier_wait(stmt: Stmt) -> bool:
    """Whether a barrier completes only when the copies before a statement have."""
    return isinstance(stmt, CallStmt) and stmt.routine in (MBARRIER_CP_ASYNC_ARRIVE, MBARRIER_CP_ASYNC_ARRIVE_BESIDE)


def _read_by_engines(body: Stmt) -> set[Buffer]:
    """The tiles that the copy engine or the matrix units of a warpgroup read."""
    found: set[Buffer] = set()
    for stmt in walk(body):
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        by_hand = isinstance(routine, Instruction) and routine.reads_late
        if by_hand or isinstance(stmt, TileOp) and stmt.choice in (GemmWgmma.name, COPY_TMA_STORE):
            found.update(shared_storages(stmt))
    return found


def _ends_all(stmt: Stmt) -> bool:
    """Whether all copies must be there before a statement: who waits for them elsewhere is not known here."""
    return jumps(stmt) or any(hands_over(s) for s in walk(stmt))


def _meets(access: Access, target: Region) -> bool:
    """Whether an access may touch what a copy fills."""
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


def _inlined(node: Stmt) -> Iterator[Stmt]:
    if not isinstance(node, Seq):
        yield node
        return
    for child in node.body:
        yield from _inlined(child)


def _closes(stmt: Stmt, settle: _Settle | None) -> bool:
    """Whether a statement is a commit, or, told about free copies, gets one."""
    free = settle is not None and settle.is_free(stmt)
    return free or isinstance(stmt, CallStmt) and stmt.routine is CP_ASYNC_COMMIT


def _first_wait(stmt: Stmt) -> int | None:
    """How many groups the wait that begins every iteration of a pipelined loop leaves under way."""
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
