"""Assigns stage and order to the statements of pipelined loops, and decides which loops stay serial.

Takes a tile-level function whose operators have their lowerings; gives one in which every loop that is still
`PIPELINED` has a stage and an order for each of its effectful statements, and all others are serial, with the reason
among the notes of the launch. Invariant: placements are legal by `schedule.placement_legality`.

By default, asynchronous copies to shared memory run `num_stages - 1` iterations ahead, first in an iteration. Where it
begins by copying all their tiles to registers, and where each tile is read by some gemms and not by others, they stand
after these readers, `num_stages` iterations ahead in as many versions. `schedule.prefetch` places them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import (
    Alloc,
    For,
    ForKind,
    Launch,
    PipelineSpec,
    Seq,
    Stmt,
)
from tilelang.ir.timeline import Timeline
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.async_copies import is_asynchronous, synchronous, target_of
from tilelang.schedule.explain import timeline
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import LoopGraph, loop_graph
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.schedule.override_errors import impossible_placement, wrong_number_of_loops
from tilelang.schedule.placement_legality import outside_uses, placement_override, runs_ahead, violation
from tilelang.schedule.prefetch import copies_after_all_users, copies_after_their_users, copies_first, feeding
from tilelang.targets.nvidia.passes.async_copy_loops import AsyncCopyLoops
from tilelang.targets.nvidia.passes.costs import COPY_WORK, warp_work
from tilelang.transforms.initial_values import with_initial_values_stored

# -- the plan ----------------------------------------------------------------------------------------------------


def plan_loop(
    loop: For, outside: Mapping[Buffer, str], given: Placement | None = None
) -> tuple[Placement | None, str]:
    """The placement of a pipelined loop, `given` if it has as many statements; or None and why it stays serial."""
    override = placement_override(loop, outside, given)
    return override or _automatic(LoopBody(loop), (loop.pipeline or PipelineSpec()).num_stages, outside)


def _automatic(body: LoopBody, stages: int, outside: Mapping[Buffer, str]) -> tuple[Placement | None, str]:
    """The placement that the schedule gives; copies that cannot legally run ahead stay with all else."""
    producers = [n for n, stmt in enumerate(body.statements) if is_asynchronous(stmt) and _is_producer(body, n)]
    reason = "no copy into a shared buffer that it fills as a whole is asynchronous"
    while producers:
        readers = _readers(body, producers)
        if stages < (1 if readers else 2):
            return None, f"num_stages={stages} keeps one version of each buffer"
        graph = _graph(body, {body.statements[n] for n in producers}, stages)
        behind_each = not readers and not feeding(graph) and _others_compute(body, producers)
        place = copies_after_all_users if readers else copies_after_their_users if behind_each else copies_first
        schedule = place(graph)
        placement = in_sequence(schedule.stage, schedule.order)
        found = violation(body, placement, outside)
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


def _others_compute(body: LoopBody, producers: Sequence[int]) -> bool:
    """Whether each tile is used by some gemms and not by others, which hide that it is filled again after the former.

    Each such place costs a barrier per iteration, which pays only there. On an H200 decoding of grouped heads took 0.84
    of the time, but backward passes of attention, which also copy rows that no gemm reads, 1.04 to 1.15 of it.
    """
    gemms = {n for n, stmt in enumerate(body.statements) if isinstance(stmt, Gemm)}
    for copy in producers:
        users = {n for n, _, _ in body.storages[target_of(body.statements[copy])]} - {copy}
        if not users or min(users) < copy or gemms <= users or gemms.isdisjoint(users):
            return False
    return True


def _graph(body: LoopBody, copies: AbstractSet[Stmt], versions: int) -> LoopGraph:
    """The loop's graph, with `versions` versions of the tiles of these copies."""
    targets = {target_of(copy): versions for copy in copies}
    return loop_graph(body, lambda stmt: COPY_WORK if stmt in copies else warp_work(stmt), targets)


def _timeline(body: LoopBody, placement: Placement, copies: AbstractSet[Stmt]) -> Timeline:
    """Return the timeline that `kernel.explain()` shows of a loop whose copies run ahead."""
    graph = _graph(body, copies, placement.last + 1)
    schedule = ModuloSchedule(placement.stage, placement.sequence, graph.warp_cycles)
    labels = [f"line {s.loc.line}" if s.loc.line else type(s).__name__ for s in body.statements]
    return timeline(graph, schedule, labels, body.loop.loc)


# -- the pass ----------------------------------------------------------------------------------------------------

# a loop, tables that stand before it, its placement, and why it has none
_Planned = tuple[For, list[Alloc], Placement | None, str]


class _Plan(Rewriter):
    """Plans the loops of one launch.

    Attributes:
        notes: Why loops stay serial.
        placements: The placement of each loop; None for those that stay serial.
        timelines: The timelines of loops whose copies run ahead.
    """

    def __init__(
        self, launch: Launch, domain: Domain, context: PassContext, given: Sequence[Placement | None] | None
    ) -> None:
        self._outside = outside_uses(launch)
        self._given = dict(zip(self._outside, given, strict=True)) if given is not None else None
        self.placements: dict[For, Placement | None] = dict.fromkeys(self._outside)
        self.timelines: list[Timeline] = []
        self._pipelined = 0  # loops around that run ahead
        self._ahead: set[Stmt] = set()  # copies that do
        self._copy_loops = AsyncCopyLoops(launch, domain, context)
        self.notes = self._copy_loops.notes

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.PIPELINED:
            return self._loop(node)
        if isinstance(node, Copy) and is_asynchronous(node) and self._pipelined and node not in self._ahead:
            # a wait for it would stop all that run ahead
            return synchronous(node)
        return self.rebuild_stmt(node)

    def _loop(self, node: For) -> Stmt:
        original, outside = node, self._outside[node]
        node, tables, placement, reason = self._planned(with_initial_values_stored(node), outside)
        if self._given is not None:
            node, tables, placement, reason = self._as_given(original, (node, tables, placement, reason))
        self.placements[original] = placement
        if placement is None:
            wanted = node.pipeline is not None and (node.pipeline.num_stages > 1 or node.pipeline.stage is not None)
            if wanted and reason:
                self.notes.append(Note(f"T.Pipelined: the loop stays serial: {reason}", node.loc))
            serial = self.visit(node.body) or Seq((), loc=node.loc)
            return dataclasses.replace(node, kind=ForKind.SERIAL, pipeline=None, body=serial)
        body = LoopBody(node)
        copies = ((n, s) for n, s in enumerate(body.statements) if is_asynchronous(s))
        ahead = {s for n, s in copies if runs_ahead(body, n, target_of(s), placement)}
        self.timelines += [_timeline(body, placement, ahead)] if ahead else []
        self._ahead |= ahead
        self._pipelined += 1
        kept = self.visit(node.body) or Seq((), loc=node.loc)
        self._pipelined -= 1
        stages = node.pipeline.num_stages if node.pipeline is not None else 0
        spec = PipelineSpec(stages, placement.order, placement.stage)
        planned = dataclasses.replace(node, body=kept, pipeline=spec)
        return Seq((*tables, planned), loc=node.loc) if tables else planned

    def _as_given(self, original: For, chosen: _Planned) -> _Planned:
        """The loop with the placement that a saved schedule has for it."""
        given = self._given[original] if self._given is not None else None
        loop = with_initial_values_stored(original)
        if given is None:
            return loop, [], None, ""
        planned = self._planned(loop, self._outside[original], given)
        if planned[2] == given:
            return planned
        reason = planned[3]
        if planned[2] is not None:
            reason = f"it has {len(given.stage)} statements there, but {len(planned[2].stage)} here"
        nearest = f"; {chosen[2]} is the nearest that can be" if chosen[2] is not None else ""
        raise impossible_placement(original, given, reason + nearest)

    def _planned(self, node: For, outside: Mapping[Buffer, str], given: Placement | None = None) -> _Planned:
        """The loop with the parallel loops marked that run ahead, the tables for them, and its placement."""
        refused: set[Stmt] = set()
        while True:
            marked_loop = self._copy_loops.mark(node, refused)
            placement, reason = plan_loop(marked_loop.loop, outside, given)
            body = LoopBody(marked_loop.loop)
            numbers = {stmt: number for number, stmt in enumerate(body.statements)}
            failed = {
                original
                for marked, original in marked_loop.originals.items()
                if placement is None or not runs_ahead(body, numbers[marked], target_of(marked), placement)
            }
            if not failed:
                return marked_loop.loop, marked_loop.index_fragments, placement, reason
            refused |= failed

def _planned(launch: Launch, number: int, domain: Domain, context: PassContext) -> Launch:
    specialized = launch.plan.schedule is not None
    given = None if specialized else context.options.launch_schedule(number).loops
    loops = sum(isinstance(stmt, For) and stmt.kind is ForKind.PIPELINED for stmt in walk(launch.body))
    if given is not None and len(given) != loops:
        raise wrong_number_of_loops(launch, len(given), loops)
    plan = _Plan(launch, domain, context, given)
    body = plan.visit(launch.body) or Seq((), loc=launch.loc)
    if body is launch.body:
        return launch
    notes = (*launch.plan.notes, *plan.notes)
    ahead = any(asynchronous_store(s) is not None for s in walk(body))
    placements = launch.plan.placements if specialized else tuple(plan.placements.values())
    timelines = (*launch.plan.timelines, *plan.timelines)
    made = dataclasses.replace(
        launch.plan, notes=notes, placements=placements, timelines=timelines, prefetch_loops=ahead
    )
    return dataclasses.replace(launch, body=body, plan=made)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    domain, numbers = of_function(func), itertools.count()

    def step(launch: Launch) -> Launch:
        return launch if launch.plan.generated else _planned(launch, next(numbers), domain, context)

    return with_launches(func, step)


PASS = Pass(
    "plan_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.LOWERINGS_CHOSEN, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.STAGES_ASSIGNED,),
)
