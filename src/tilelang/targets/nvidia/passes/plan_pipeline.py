"""Which copies of pipelined loops run ahead by cp.async, for `schedule.plan_pipeline`.

Takes a pipelined loop whose operators have their lowerings; gives its placement, or why it stays serial.

By default, asynchronous copies to shared memory come where `schedule.prefetch` places them by their costs, as far ahead
as `num_stages` versions of their tiles allow. Where an iteration begins by copying all their tiles to registers, they
come after that, `num_stages` iterations ahead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from tilelang.arith.domain import Domain
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import For, Launch, PipelineSpec, Stmt
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.async_copies import is_asynchronous, target_of
from tilelang.schedule.fragment_prefetch import fragment_prefetch
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import LoopGraph, Work, loop_graph
from tilelang.schedule.placement_legality import placement_override, runs_ahead, violation
from tilelang.schedule.plan_pipeline import LoopPlanner, PlannedLoop, plan_pipeline
from tilelang.schedule.prefetch import copies_after_users, prefetch_schedule
from tilelang.schedule.statement_work import statement_work
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.fragment_registers import free_registers
from tilelang.targets.nvidia.lowerings.operand_load import operand_loads
from tilelang.targets.nvidia.passes.async_copy_loops import AsyncCopyLoops
from tilelang.targets.nvidia.passes.costs import copy_work, prefetch_costs, rates_of


def plan_loop(
    loop: For, outside: Mapping[Buffer, str], machine: Machine, given: Placement | None = None
) -> tuple[Placement | None, str]:
    """The placement of a pipelined loop, `given` if it has as many statements; or None and why it stays serial."""
    override = placement_override(loop, outside, given, most_versions(loop))
    return override or _automatic(LoopBody(loop), (loop.pipeline or PipelineSpec()).num_stages, outside, machine)


def most_versions(loop: For) -> int:
    """Up to how many versions of tiles save barriers: none of those that the user has placed statements for."""
    spec = loop.pipeline or PipelineSpec()
    return 0 if spec.places_statements else spec.num_stages


def _automatic(
    body: LoopBody, stages: int, outside: Mapping[Buffer, str], machine: Machine
) -> tuple[Placement | None, str]:
    """The placement that the schedule gives; copies that cannot legally run ahead stay with all else."""
    producers = [n for n, stmt in enumerate(body.statements) if is_asynchronous(stmt) and _is_producer(body, n)]
    reason = "no copy into a shared buffer that it fills as a whole is asynchronous"
    while producers:
        readers = _readers(body, producers)
        if stages < (1 if readers else 2):
            return None, f"num_stages={stages} keeps one version of each buffer"
        graph = _graph(body, {body.statements[n] for n in producers}, stages, machine)
        schedule = copies_after_users(graph) if readers else prefetch_schedule(graph, prefetch_costs(rates_of(machine)))
        placement = in_sequence(schedule.stage, schedule.order)
        found = violation(body, placement, outside, stages)
        if found is None:
            return placement, ""
        reason = found.reason
        left = [n for n in producers if n not in found.statements]
        producers = left if len(left) < len(producers) else []
    return None, reason


def _is_producer(body: LoopBody, number: int) -> bool:
    """Whether a copy fills a tile as a whole, before other statements use it."""
    tile = target_of(body.statements[number])
    return body.fills_first(tile) == number and any(user != number for user, _, _ in body.storages[tile])


def _readers(body: LoopBody, producers: Sequence[int]) -> list[int]:
    """The statements at the beginning of an iteration, if they copy all tiles of these copies to registers."""
    targets = {target_of(body.statements[n]) for n in producers}
    users = {n for target in targets for n, _, _ in body.storages[target]} - set(producers)
    first = [n for n in range(max(users, default=-1) + 1) if n not in producers]
    return first if all(_copies_to_registers(body.statements[n]) for n in first) else []


def _copies_to_registers(stmt: Stmt) -> bool:
    """Whether a statement copies a tile from shared memory to registers."""
    return isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (Scope.SHARED, Scope.FRAGMENT)


def _graph(body: LoopBody, copies: AbstractSet[Stmt], versions: int, machine: Machine) -> LoopGraph:
    """The loop's graph, with `versions` versions of the tiles of these copies."""
    rates = rates_of(machine)

    def cost(stmt: Stmt) -> Work:
        return copy_work(target_of(stmt), rates) if stmt in copies else statement_work(stmt, rates)

    return loop_graph(body, cost, {target_of(copy): versions for copy in copies})


class _Planner(LoopPlanner):
    awaits_other_copies: ClassVar[bool] = True

    def __init__(self, launch: Launch, domain: Domain, context: PassContext) -> None:
        super().__init__()
        self._machine = context.target.machine
        self._copy_loops = AsyncCopyLoops(launch, domain, context)
        self.notes = self._copy_loops.notes
        self._free_registers = free_registers(launch, self._machine)

    def plan(self, loop: For, outside: Mapping[Buffer, str], given: Placement | None) -> PlannedLoop:
        """The loop with the parallel loops marked that run ahead, the tables for them, and its placement."""
        refused: set[Stmt] = set()
        while True:
            marked_loop = self._copy_loops.mark(loop, refused)
            placement, reason = plan_loop(marked_loop.loop, outside, self._machine, given)
            body = LoopBody(marked_loop.loop)
            numbers = {stmt: number for number, stmt in enumerate(body.statements)}
            failed = {
                original
                for marked, original in marked_loop.originals.items()
                if placement is None or not runs_ahead(body, numbers[marked], target_of(marked), placement)
            }
            if not failed:
                tables, versions = tuple(marked_loop.index_fragments), most_versions(marked_loop.loop)
                return PlannedLoop(marked_loop.loop, tables, placement, reason, versions=versions)
            refused |= failed

    def with_fragments_ahead(self, planned: PlannedLoop, outside: Mapping[Buffer, str]) -> PlannedLoop:
        """The loop with the operands of its first mma instructions loaded during the last ones of the iteration before.

        No placement is slower, so that only registers decide.
        """
        assert planned.placement is not None
        found = fragment_prefetch(planned.loop, planned.placement, outside, operand_loads, self._free_registers)
        if found is None:
            return planned
        tables = (*planned.tables, *found.registers)
        return dataclasses.replace(planned, loop=found.loop, tables=tables, placement=found.placement)

    def work(self, stmt: Stmt) -> Work:
        return statement_work(stmt, rates_of(self._machine))


PASS = plan_pipeline(_Planner)
