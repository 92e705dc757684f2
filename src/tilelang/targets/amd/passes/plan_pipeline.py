"""Assigns stage and order to the statements of pipelined loops, and decides which loops stay serial.

Takes a tile-level function whose operators have their lowerings; gives one in which every loop that is still
`PIPELINED` has a stage and an order for each of its effectful statements, and all others are serial, with the reason
among the notes of the launch. Invariant: placements are legal by `schedule.placement_legality`.

Copies to shared memory, and parallel loops that gather rows, are split by `schedule.register_prefetch` into loads to
registers, which run one or two iterations ahead, and stores. If direct loads to LDS can do all of it, they run
`num_stages - 1` iterations ahead instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, ParallelLoop, PipelineSpec, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.async_copies import is_asynchronous, synchronous, target_of
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import Work, loop_graph
from tilelang.schedule.placement_legality import (
    outside_uses,
    placement_override,
    runs_ahead,
    version_counts,
    violation,
)
from tilelang.schedule.prefetch import copies_first
from tilelang.schedule.register_prefetch import MAX_VERSIONS, Prefetched, prefetched
from tilelang.schedule.split_copies import prefetchable
from tilelang.transforms.initial_values import with_initial_values_stored

_ROW_PADDING = 16  # bytes that a layout adds to a row of a tile at most, where swizzles do not avoid bank conflicts
_PREFETCH_BYTES = 256  # of a thread, for prefetched tiles: a quarter of 256 registers


class _Plan(Rewriter):
    """Plans the loops of one launch.

    Attributes:
        notes: Why loops stay serial.
    """

    def __init__(self, launch: Launch, shared_bytes: int) -> None:
        self._outside = outside_uses(launch)
        self._register_bytes = launch.num_threads * _PREFETCH_BYTES
        self._spare = shared_bytes - _bytes(s.buffer for s in walk(launch.body) if isinstance(s, Alloc))
        self._ahead: set[Stmt] = set()  # copies that stay direct loads
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Copy) and is_asynchronous(node) and node not in self._ahead:
            return synchronous(node)
        if not isinstance(node, For) or node.kind is not ForKind.PIPELINED:
            return self.rebuild_stmt(node)
        loop = with_initial_values_stored(node)
        spec = loop.pipeline or PipelineSpec()
        planned = self._plan_loop(node, loop, spec)
        if isinstance(planned, Prefetched):
            loop = _with_placement(planned.loop, spec, planned.placement)
            return Seq((*planned.registers, self.rebuild_stmt(loop) or loop), loc=node.loc)
        if isinstance(planned, Placement):
            body = LoopBody(loop)
            copies = ((n, s) for n, s in enumerate(body.statements) if is_asynchronous(s))
            self._ahead |= {s for n, s in copies if runs_ahead(body, n, target_of(s), planned)}
            return self.rebuild_stmt(_with_placement(loop, spec, planned))
        if planned and (spec.num_stages > 1 or spec.stage is not None):
            self.notes.append(Note(f"T.Pipelined: the loop stays serial: {planned}", node.loc))
        return self.rebuild_stmt(dataclasses.replace(loop, kind=ForKind.SERIAL, pipeline=None))

    def _plan_loop(self, node: For, loop: For, spec: PipelineSpec) -> Prefetched | Placement | str:
        """The schedule of a loop, or why it stays serial."""
        body, outside = LoopBody(loop), self._outside[node]
        if (override := placement_override(loop, outside)) is not None:
            return override[0] or override[1]
        if spec.num_stages < 2:
            return ""
        gathers = any(isinstance(copy, ParallelLoop) for copy in prefetchable(body))  # which have to pass registers
        direct = None if gathers else self._direct_placement(body, spec.num_stages, outside)
        if direct is not None:
            return direct
        for versions in range(min(spec.num_stages - 1, MAX_VERSIONS), 0, -1):
            planned = prefetched(loop, outside, versions, self._register_bytes)
            if isinstance(planned, str):
                direct = self._direct_placement(body, spec.num_stages, outside) if gathers else None
                return planned if direct is None else direct
            if versions == 1 or self._fits(LoopBody(planned.loop), planned.placement, _ROW_PADDING):
                return planned
        return ""

    def _direct_placement(self, body: LoopBody, stages: int, outside: Mapping[Buffer, str]) -> Placement | None:
        """The placement in which all `T.copy` are direct loads; None if some cannot be, or if tiles do not fit."""
        copies = [copy for copy in prefetchable(body) if isinstance(copy, Copy)]
        if not copies or not all(map(is_asynchronous, copies)):
            return None
        for versions in range(stages, 1, -1):
            targets = {copy.dst.buffer.storage: versions for copy in copies}
            schedule = copies_first(loop_graph(body, lambda stmt: Work(0, prefetched=stmt in copies), targets))
            placement = in_sequence(schedule.stage, schedule.order)
            if violation(body, placement, outside) is not None:
                return None
            if self._fits(body, placement, 0):  # tiles that waves fill are not padded
                return placement
        return None

    def _fits(self, body: LoopBody, placement: Placement, row_padding: int) -> bool:
        """Reserves shared memory for the versions of a placement; whether there was enough."""
        counts = version_counts(body, placement)
        extra = sum((count - 1) * _bytes([buffer]) for buffer, count in counts.items())
        padding = sum(count * _rows(buffer) * row_padding for buffer, count in counts.items())
        if extra + padding > self._spare:
            return False
        self._spare -= extra
        return True


def _with_placement(loop: For, spec: PipelineSpec, placement: Placement) -> For:
    return dataclasses.replace(loop, pipeline=PipelineSpec(spec.num_stages, placement.order, placement.stage))


def _bytes(buffers: Iterable[Buffer]) -> int:
    """The shared memory of buffers."""
    return sum(b.bytes or 0 for b in buffers if b.scope is Scope.SHARED and b.view_of is None)


def _rows(buffer: Buffer) -> int:
    """The rows of a tile."""
    return math.prod((buffer.static_shape or ())[:-1])


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    def run(launch: Launch) -> Launch:
        plan = _Plan(launch, context.target.machine.shared_bytes)
        body = plan.visit(launch.body) or Seq((), loc=launch.loc)
        notes = (*launch.plan.notes, *plan.notes)
        return dataclasses.replace(launch, body=body, plan=dataclasses.replace(launch.plan, notes=notes))

    return with_launches(func, run)


PASS = Pass(
    "plan_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.LOWERINGS_CHOSEN, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.STAGES_ASSIGNED,),
)  # fmt: skip
