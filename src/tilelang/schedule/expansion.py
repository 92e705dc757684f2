"""Expands software pipelines: multi-versioned buffers, a prologue, and a steady state in which copies run ahead.

Takes tile-level loops with a placement of their statements; gives loops without one, in which asynchronous copies are
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
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Var, const, int_const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, substitute, substitute_stmt, walk, without
from tilelang.lowering.regions import shared_storages
from tilelang.records import record
from tilelang.saved_schedule import Placement
from tilelang.schedule.async_copies import AsyncCopies, target_of
from tilelang.schedule.loop_body import LoopBody, StatementAccess
from tilelang.schedule.placement_legality import is_filled_behind_readers, version_counts
from tilelang.transforms.versions import OnVersion, versioned


class _LoopExpansion:
    """The expansion of one loop.

    Args:
        loop: A loop with a plan.
        copies: The asynchronous copies of the target.
        may_overrun: Whether a statement that runs ahead may also run for iterations beyond the last.
    """

    def __init__(self, loop: For, copies: AsyncCopies, may_overrun: Callable[[Stmt], bool]) -> None:
        spec = loop.pipeline
        if spec is None or spec.stage is None or spec.order is None:
            raise CompilerBug("expanding a pipelined loop without a plan")
        self._loop, self._async_copies = loop, copies
        self._body = LoopBody(loop)
        self._placement = Placement(spec.stage, spec.order)
        counts = version_counts(self._body, self._placement)
        self.versions = {buffer: versioned(buffer, count) for buffer, count in counts.items()}
        self._last = [n for n, stage in enumerate(spec.stage) if stage == self._placement.last]
        self._copies = frozenset(n for n, s in enumerate(self._body.statements) if copies.is_asynchronous(s))
        self._harmless = frozenset(n for n, s in enumerate(self._body.statements) if may_overrun(s))
        self.emitted: set[Stmt] = set()
        self._bound: set[Var] = set()  # variables bound in the loop
        self._sequence = self._placement.sequence
        self._groups = self._commit_groups()
        self._first, self._awaiting = self._waits()
        self._overwriting = self._writers_of_sources()

    def expand(self) -> Stmt:
        """Allocations of the versions, the prologue and the loop."""
        loop, last = self._loop, self._placement.last
        statements: list[Stmt] = [Alloc(buffer, loc=loop.loc) for buffer in self.versions.values()]
        own = [p for p in flat_statements(loop.body) if isinstance(p, Alloc) and p.buffer not in self.versions]
        ahead_of_time = {b for b, touching in self._body.storages.items() if self._runs_ahead(touching)}
        statements += [p for p in own if p.buffer.storage in ahead_of_time]  # the prologue uses them, too
        for time in range(last):
            present = [n for n in self._sequence if self._placement.stage[n] <= time]
            statements += self._wait(present)
            statements += self._statements_at(present, {stage: self._at(time - stage) for stage in range(time + 1)})
        body = self._wait(self._sequence)
        body += [p for p in own if p.buffer.storage not in ahead_of_time]
        ahead = {stage: loop.var + (last - stage) * loop.step for stage in range(last)}
        body += self._statements_at(self._sequence, {**ahead, last: loop.var})
        serial = dataclasses.replace(loop, kind=ForKind.SERIAL, pipeline=None, body=Seq(tuple(body), loc=loop.loc))
        return Seq((*statements, serial), loc=loop.loc)

    def _runs_ahead(self, touching: Sequence[StatementAccess]) -> bool:
        """Whether a statement that accesses a storage runs before the last stage."""
        return any(self._placement.stage[number] < self._placement.last for number, _, _ in touching)

    def _at(self, number: int) -> Expr:
        """The loop variable's value in an iteration counted from 0."""
        start = int_const(self._loop.start)
        step = number * self._loop.step
        return const(start + step, INT32) if start is not None else self._loop.start + step

    def _statements_at(self, present: Sequence[int], values: Mapping[int, Expr]) -> list[Stmt]:
        """The statements of one time, in order; those of one iteration share a predicate, and each group is committed.

        Args:
            present: The statements.
            values: The loop variable's value per stage.
        """
        statements: list[Stmt] = []
        group: list[int] = []
        closings = {copies[-1] for copies in self._groups}
        closed = [n for n in present if n in closings]

        def flush() -> None:
            if group:
                statements.extend(self._predicated(group, values[self._placement.stage[group[0]]]))
                group.clear()

        for number in present:
            if number in self._awaiting:
                flush()
                statements.append(self._awaited(self._awaiting[number]))
            if number in self._overwriting:
                flush()
                statements += [CallStmt(self._async_copies.commit, (), loc=self._loop.loc), self._awaited(0)]
            if group and self._condition(number) != self._condition(group[0]):
                flush()
            group.append(number)
            if number in closings:
                flush()
                statements.append(CallStmt(self._async_copies.commit, (), loc=self._loop.loc))
        flush()
        statements += [CallStmt(self._async_copies.commit, (), loc=self._loop.loc)] * (len(self._groups) - len(closed))
        return statements

    def _condition(self, number: int) -> tuple[int, bool]:
        """The key of a statement's predicate: its stage, and whether it always runs."""
        return self._placement.stage[number], number in self._harmless

    def _predicated(self, numbers: Sequence[int], value: Expr) -> list[Stmt]:
        """Statements of one iteration, predicated on its existence."""
        loop = self._loop
        statements = list(self._statements(numbers, value))
        if value is loop.var or numbers[0] in self._harmless:
            return statements
        exists = value < loop.stop if loop.step > 0 else value > loop.stop
        if isinstance(exists, Const):
            return statements if exists.value else []
        body = as_body(statements, loop.loc)
        return [If(exists, body, loc=loop.loc)]

    def _statements(self, numbers: Sequence[int], value: Expr) -> Iterator[Stmt]:
        """Statements of one iteration with the bindings that they need, on that iteration's versions."""
        loop = self._loop
        rewrite = self._on_version(self._number(value)) if self.versions else None
        in_place = value is loop.var
        fresh: dict[Var, Expr] = {name: name for name in self._bound} if in_place else {loop.var: value}
        for number in numbers:
            stmt = self._body.statements[number]
            body = self._body
            for var in body.bound_variables_before(number, self._last) if in_place else body.bound_variables(stmt):
                if var in fresh:
                    continue
                new = var if in_place else Var(var.name, var.dtype, index=var.index)
                bind = body.bind(var)
                bound = substitute(bind.value, fresh)
                fresh[var] = new
                if in_place:
                    self._bound.add(var)
                value = rewrite.expr(bound) if rewrite else bound
                yield dataclasses.replace(bind, var=new, value=value, loc=stmt.loc)
            moved = substitute_stmt(stmt, fresh) if fresh else stmt
            if rewrite:
                moved = rewrite.visit(moved) or Seq((), loc=stmt.loc)
            if number in self._copies:
                self.emitted.add(moved)
            yield moved

    def _on_version(self, number: Expr) -> OnVersion:
        """Lets statements use the versions of one iteration."""
        return OnVersion({old: (new, number % new.shape[0]) for old, new in self.versions.items()})

    def _number(self, value: Expr) -> Expr:
        """The number of an iteration, counted from 0."""
        start, step = self._loop.start, self._loop.step
        if step < 0:
            number = start - value
        else:
            number = value if int_const(start) == 0 else value - start
        return number if abs(step) == 1 else number // abs(step)

    def _wait(self, present: Sequence[int]) -> list[Stmt]:
        """Waits for the copies that the statements of one time read, by the number of groups committed since."""
        if self._first is not None:
            return [self._awaited(self._first)] if self._last[0] in present else []
        stage = self._placement.stage
        distances = []
        for copy in self._copies:
            users = {n for n, _, _ in self._body.storages[target_of(self._body.statements[copy])]} - {copy}
            distances += [stage[n] - stage[copy] for n in users if n in present]
        if not distances:
            return []
        return [self._awaited(min(distances) - 1)]

    def _awaited(self, newer: int) -> Stmt:
        """Waits until at most `newer` groups are in flight."""
        return CallStmt(self._async_copies.wait, (const(newer, INT32),), loc=self._loop.loc)

    def _writers_of_sources(self) -> set[int]:
        """The statements that write what copies in flight may read; all copies must be complete before them."""
        read = {storage for n in self._copies for storage, _, write in self._body.touched[n] if not write}
        sources = [storage for storage in read if storage.scope is Scope.GLOBAL]  # others tell where to copy from
        return {number for storage in sources for number, _, write in self._body.storages[storage] if write}

    def _commit_groups(self) -> list[list[int]]:
        """The commit groups of one time, in order."""
        copies = [n for n in self._sequence if n in self._copies]
        if not copies or not self._are_behind_readers():
            return [copies] if copies else []
        position_of = {n: position for position, n in enumerate(self._sequence)}
        groups: list[list[int]] = []
        for number in copies:
            if groups and position_of[number] == position_of[groups[-1][-1]] + 1:
                groups[-1].append(number)
            else:
                groups.append([number])
        return groups

    def _are_behind_readers(self) -> bool:
        """Whether all copies are of the first stage, all else of the last, and each copy comes after its readers."""
        stage = self._placement.stage
        if any(stage[n] != (0 if n in self._copies else self._placement.last) for n in self._sequence):
            return False
        touching = [self._body.storages[target_of(self._body.statements[n])] for n in self._copies]
        return all(is_filled_behind_readers(each, self._placement) for each in touching)

    def _waits(self) -> tuple[int | None, dict[int, int]]:
        """Return how many groups may be in flight when an iteration begins, and at the first readers of other tiles."""
        if not self._copies or not self._are_behind_readers():
            return None, {}
        position_of = {n: position for position, n in enumerate(self._sequence)}
        readers: dict[int, int] = {}  # the first reader of each group's tiles
        for number, copies in enumerate(self._groups):
            targets = [target_of(self._body.statements[n]) for n in copies]
            users = {n for target in targets for n, _, _ in self._body.storages[target]} - set(copies)
            readers[number] = min(users, key=lambda n: position_of[n])
        in_flight = self._placement.last * len(self._groups)
        first = min(readers, key=lambda number: position_of[readers[number]])
        later: dict[int, int] = {}
        for number, reader in readers.items():
            closed = sum(position_of[copies[-1]] < position_of[reader] for copies in self._groups)
            newer = in_flight - (number + 1) + closed
            if reader != readers[first]:
                later[reader] = min(newer, later.get(reader, newer))
        same = [number for number, reader in readers.items() if reader == readers[first]]
        return in_flight - (max(same) + 1), later


@record
class Expanded:
    """Statements without pipelined loops.

    Attributes:
        body: The statements.
        versions: The original and the versioned form of every buffer that got versions.
        copies: The asynchronous copies that the loops commit and wait for.
    """

    body: Stmt
    versions: Sequence[tuple[Buffer, Buffer]]
    copies: Set[Stmt]


def expand_loops(
    body: Stmt, unit: AsyncCopies, may_overrun: Callable[[Stmt], bool] = lambda stmt: False
) -> Expanded:
    """The statements with their pipelined loops expanded.

    Args:
        body: The statements.
        unit: The asynchronous copies of the target.
        may_overrun: Whether a statement that runs ahead may also run for iterations beyond the last, without a branch.
    """
    expand = _Expand(unit, may_overrun)
    expanded = expand.visit(body) or Seq((), loc=body.loc)
    return Expanded(expanded, expand.versions, expand.copies)


class _Expand(Rewriter):
    """Expands loops, outer ones first."""

    def __init__(self, unit: AsyncCopies, may_overrun: Callable[[Stmt], bool]) -> None:
        self._unit, self._may_overrun = unit, may_overrun
        self.versions: list[tuple[Buffer, Buffer]] = []
        self.copies: set[Stmt] = set()

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            loop = _LoopExpansion(node, self._unit, self._may_overrun)
            expanded = loop.expand()
            self.versions += loop.versions.items()
            self.copies |= loop.emitted
            return self.rebuild_stmt(expanded)
        return self.rebuild_stmt(node)


def with_versions(launch: Launch, expanded: Expanded, body: Stmt) -> Launch:
    """The launch with its loops expanded, without the buffers that versions replace.

    Args:
        launch: The launch.
        expanded: Its body with the loops expanded.
        body: The same after further rewriting.
    """
    versions = expanded.versions
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
