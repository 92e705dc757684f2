"""Expands software pipelines: multi-versioned buffers, a prologue, and a steady state in which copies run ahead.

Takes a tile-level function after `plan_pipeline`; gives one without pipelined loops, in which asynchronous copies are
committed in groups and waited for by the instructions of the target. Invariant: iteration i of a statement of stage s
runs at time i + s if there is an iteration i, and each time commits the same number of groups, empty ones included; so
a wait can count groups for any trip count. There is one group per time, committed after the last copy. Only where
copies stand after the readers of their tiles, neighboring copies form a group each, which is waited for before its
first reader. A statement that writes what copies read closes a further group, and waits for all: counts that leave that
group out make other waits stricter, never too weak.

A loop over k with last stage m becomes, for copies of stage 0 and everything else in stage m:

    for each t in 0, ..., m - 1:  if there is an iteration t: copies of iteration t; commit
    for k:  wait until the copies of iteration k are there; if there is an iteration k + m: its copies; commit; the rest
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, without
from tilelang.lowering.regions import shared_storages
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.saved_schedule import Placement
from tilelang.schedule.async_copies import CopyGroups, is_asynchronous, target_of
from tilelang.schedule.iteration import Iteration, time_within, times_before, versions_in
from tilelang.schedule.loop_body import LoopBody, StatementAccess
from tilelang.schedule.placement_legality import version_counts
from tilelang.transforms.versions import versioned


class _LoopExpansion:
    """The expansion of one loop.

    Args:
        loop: A loop with a plan.
        groups: How the target waits for asynchronous copies.
        may_overrun: Whether a statement that runs ahead may also run for iterations beyond the last.
        beyond_last: What a statement that runs ahead becomes there; see `expand_launch`.
    """

    def __init__(
        self,
        loop: For,
        groups: CopyGroups,
        may_overrun: Callable[[Stmt], bool],
        beyond_last: Callable[[Stmt], Stmt | None],
    ) -> None:
        spec = loop.pipeline
        if spec is None or spec.stage is None or spec.order is None:
            raise CompilerBug("expanding a pipelined loop without a plan")
        self._loop, self._wait_by = loop, groups
        self._body = LoopBody(loop)
        self._placement = Placement(spec.stage, spec.order)
        counts = version_counts(self._body, self._placement, spec.num_stages)
        self.versions = {buffer: versioned(buffer, count) for buffer, count in counts.items()}
        self._last = [n for n, stage in enumerate(spec.stage) if stage == self._placement.last]
        self._copies = frozenset(n for n, s in enumerate(self._body.statements) if is_asynchronous(s))
        self._harmless = frozenset(n for n, s in enumerate(self._body.statements) if may_overrun(s))
        self._beyond_last = beyond_last
        self.emitted: set[Stmt] = set()
        self._sequence = self._placement.sequence
        self._position = {n: position for position, n in enumerate(self._sequence)}
        self._groups = self._commit_groups()
        self._overwriting = self._writers_of_sources()

    def expand(self) -> Stmt:
        """Allocations of the versions, the prologue and the loop."""
        loop, last = self._loop, self._placement.last
        statements: list[Stmt] = [Alloc(buffer, loc=loop.loc) for buffer in self.versions.values()]
        own = [p for p in flat_statements(loop.body) if isinstance(p, Alloc) and p.buffer not in self.versions]
        ahead_of_time = {b for b, touching in self._body.storages.items() if self._runs_ahead(touching)}
        statements += [p for p in own if p.buffer.storage in ahead_of_time]  # the prologue uses them, too
        for values in times_before(loop, last):
            statements += self._statements_at(values)
        in_loop = [p for p in own if p.buffer.storage not in ahead_of_time]
        body = self._statements_at(time_within(loop, last), in_loop)
        serial = dataclasses.replace(loop, kind=ForKind.SERIAL, pipeline=None, body=Seq(tuple(body), loc=loop.loc))
        return Seq((*statements, serial), loc=loop.loc)

    def _runs_ahead(self, touching: Sequence[StatementAccess]) -> bool:
        """Whether a statement that accesses a storage runs before the last stage."""
        return any(self._placement.stage[number] < self._placement.last for number, _, _ in touching)

    def _statements_at(self, values: Mapping[int, Expr], allocations: Sequence[Alloc] = ()) -> list[Stmt]:
        """The statements of one time, in order; those of one iteration share a predicate, and each group is committed.

        Args:
            values: The loop variable's value per stage.
            allocations: What is allocated behind the wait at the beginning.
        """
        stage = self._placement.stage
        present = [n for n in self._sequence if stage[n] in values]
        waits = self._waits(present)
        statements: list[Stmt] = [self._awaited(waits[None])] if None in waits else []
        statements += allocations
        in_place = self._iteration(self._loop.var, self._last)
        group: list[int] = []
        closings = {copies[-1] for copies in self._groups}

        def flush() -> None:
            if group:
                value = values[stage[group[0]]]
                own = in_place if value is self._loop.var else self._iteration(value)
                statements.extend(self._predicated(group, value, own))
                group.clear()

        for number in self._sequence:
            if number in waits:
                flush()
                statements.append(self._awaited(waits[number]))
            if stage[number] in values:
                if number in self._overwriting:
                    flush()
                    statements += [CallStmt(self._wait_by.commit, (), loc=self._loop.loc), self._awaited(0)]
                if group and self._condition(number) != self._condition(group[0]):
                    flush()
                group.append(number)
            if number in closings:
                flush()
                statements.append(CallStmt(self._wait_by.commit, (), loc=self._loop.loc))
        flush()
        return statements

    def _iteration(self, value: Expr, in_place: Sequence[int] = ()) -> Iteration:
        return Iteration(self._body, value, versions_in(self._loop, value, self.versions), in_place)

    def _condition(self, number: int) -> tuple[int, bool]:
        """The key of a statement's predicate: its stage, and whether it always runs."""
        return self._placement.stage[number], number in self._harmless

    def _predicated(self, numbers: Sequence[int], value: Expr, iteration: Iteration) -> list[Stmt]:
        """Statements of one iteration, predicated on its existence."""
        loop = self._loop
        statements: list[Stmt] = []
        for number in numbers:
            statements += iteration.bindings(number)
            statements.append(iteration.moved(self._body.statements[number]))
            if number in self._copies:
                self.emitted.add(statements[-1])
        if value is loop.var or numbers[0] in self._harmless:
            return statements
        exists = value < loop.stop if loop.step > 0 else value > loop.stop
        if isinstance(exists, Const):
            return statements if exists.value else []
        instead = [(n, self._beyond_last(self._body.statements[n])) for n in numbers]
        others = [iteration.moved(stmt) for n, stmt in instead if stmt is not None and self._is_free_between(n)]
        else_body = as_body(others, loop.loc) if others else None
        return [If(exists, as_body(statements, loop.loc), else_body, loc=loop.loc)]

    def _is_free_between(self, number: int) -> bool:
        """Whether statements of the last stage run between the last use of what a statement writes and its next run."""
        stage, position, count = self._placement.stage, self._position, len(self._sequence)
        written = {storage for storage, _, write in self._body.touched[number] if write}
        if any(self._body.uses_first(storage) != number for storage in written):
            return False
        users = {n for storage in written for n, _, _ in self._body.storages[storage]}
        end = max((stage[n] * count + position[n] for n in users), default=0)
        between = range(end + 1, (stage[number] + 1) * count + position[number])
        return any(self._sequence[time % count] in self._last for time in between)

    def _waits(self, present: Sequence[int]) -> dict[int | None, int]:
        """How many groups may be in flight at the beginning of a time (None), and before statements of it.

        Each wait is before the first reader of a group. The earliest one is at the beginning, unless its reader runs
        ahead of other statements.
        """
        stage, position = self._placement.stage, self._position
        uses = [  # of each group: how many times after its own, and where
            [(stage[n] - stage[copy], position[n]) for copy in copies for n in self._users(copy) if n in present]
            for copies in self._groups
        ]
        readers = {number: min(found) for number, found in enumerate(uses) if found}
        first = min((reader for _, reader in readers.values()), default=0)
        waits: dict[int | None, int] = {}
        for number, (ahead, reader) in readers.items():
            at = self._sequence[reader]
            is_inside = reader > first or stage[at] < self._placement.last
            closed = sum(position[copies[-1]] < reader for copies in self._groups) if is_inside else 0
            newer = ahead * len(self._groups) - (number + 1) + closed
            key = at if is_inside else None
            waits[key] = min(newer, waits.get(key, newer))
        return waits

    def _users(self, copy: int) -> set[int]:
        """The statements that use the tile of a copy."""
        return {n for n, _, _ in self._body.storages[target_of(self._body.statements[copy])]} - {copy}

    def _awaited(self, newer: int) -> Stmt:
        """Waits until at most `newer` groups are in flight."""
        return CallStmt(self._wait_by.wait, (const(newer, INT32),), loc=self._loop.loc)

    def _writers_of_sources(self) -> set[int]:
        """The statements that write what copies in flight may read; all copies must be complete before them."""
        read = {storage for n in self._copies for storage, _, write in self._body.touched[n] if not write}
        sources = [storage for storage in read if storage.scope is Scope.GLOBAL]  # others tell where to copy from
        return {number for storage in sources for number, _, write in self._body.storages[storage] if write}

    def _commit_groups(self) -> list[list[int]]:
        """The commit groups of one time, in order: copies that stand together."""
        groups: list[list[int]] = []
        for number in (n for n in self._sequence if n in self._copies):
            if groups and self._position[number] == self._position[groups[-1][-1]] + 1:
                groups[-1].append(number)
            else:
                groups.append([number])
        return groups


def expand_pipeline(
    groups: CopyGroups,
    finish: Callable[[Stmt, Set[Stmt], Launch, PassContext], Stmt],
    may_overrun: Callable[[Stmt], bool] = lambda stmt: False,
    beyond_last: Callable[[Launch], Callable[[Stmt], Stmt | None]] = lambda launch: lambda stmt: None,
) -> Pass:
    """The pass of a target; as `expand_launch`, of which some arguments depend on the launch, and on the context."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        def expanded(launch: Launch) -> Launch:
            def finished(body: Stmt, copies: Set[Stmt]) -> Stmt:
                return finish(body, copies, launch, context)

            return expand_launch(launch, groups, finished, may_overrun, beyond_last(launch))

        return with_launches(func, expanded)

    return Pass(
        "expand_pipeline", run, Level.TILE, Level.TILE,
        requires=(Property.STAGES_ASSIGNED,),
        establishes=(Property.NO_PIPELINED_LOOPS,),
        invalidates=(Property.BARRIERS_AS_WRITTEN,),
    )  # fmt: skip


def expand_launch(
    launch: Launch,
    groups: CopyGroups,
    finish: Callable[[Stmt, Set[Stmt]], Stmt],
    may_overrun: Callable[[Stmt], bool] = lambda stmt: False,
    beyond_last: Callable[[Stmt], Stmt | None] = lambda stmt: None,
) -> Launch:
    """The launch with its pipelined loops expanded, without the buffers that versions replace.

    Args:
        launch: The launch.
        groups: How the target waits for asynchronous copies.
        finish: Finishes the body with its loops expanded, given the copies that these commit and wait for.
        may_overrun: Whether a statement that runs ahead may also run for iterations beyond the last, without a branch.
        beyond_last: What a statement that runs ahead becomes there, if it is the first in an iteration to use what it
            writes, which is unused for a part of the iteration; None for nothing. So former values take no registers.
    """
    expand = _Expand(lambda loop: _LoopExpansion(loop, groups, may_overrun, beyond_last))
    body = finish(expand.visit(launch.body) or Seq((), loc=launch.body.loc), expand.copies)
    if body is launch.body:
        return launch
    versions = expand.versions
    used = {storage for s in walk(body) if not isinstance(s, Alloc) for storage in shared_storages(s)}
    replaced = {old for old, _ in versions if old not in used}
    body = without(body, {s for s in walk(body) if isinstance(s, Alloc) and s.buffer in replaced})
    layouts = [entry for entry in launch.hints.layouts if entry[0] not in replaced]
    layouts += [(new, layout) for old, layout in launch.hints.layouts for was, new in versions if was is old]
    counts = tuple((new, int_const(new.shape[0]) or 1) for _, new in versions)
    return dataclasses.replace(
        launch,
        body=body,
        hints=dataclasses.replace(launch.hints, layouts=tuple(layouts)),
        plan=dataclasses.replace(launch.plan, versions=(*launch.plan.versions, *counts)),
    )


class _Expand(Rewriter):
    """Expands loops, outer ones first."""

    def __init__(self, expansion: Callable[[For], _LoopExpansion]) -> None:
        self._expansion = expansion
        self.versions: list[tuple[Buffer, Buffer]] = []
        self.copies: set[Stmt] = set()

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            loop = self._expansion(node)
            expanded = loop.expand()
            self.versions += loop.versions.items()
            self.copies |= loop.emitted
            return self.rebuild_stmt(expanded)
        return self.rebuild_stmt(node)
