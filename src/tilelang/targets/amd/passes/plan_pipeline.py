"""Which copies of pipelined loops run ahead, by direct loads or through registers, for `schedule.plan_pipeline`.

Takes a pipelined loop whose operators have their lowerings; gives its plan, or why it stays serial. Of a saved schedule
it keeps placements, and refuses all else.

Copies to shared memory, and parallel loops that gather rows, are split by `schedule.register_prefetch` into loads to
registers, which run one or two iterations ahead, and stores. If direct loads to LDS can do all of it, they run
`num_stages - 1` iterations ahead instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from tilelang.arith.domain import Domain
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, For, Launch, ParallelLoop, PipelineSpec, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.async_copies import is_asynchronous
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.loop_graph import Work, loop_graph
from tilelang.schedule.override_errors import check_only_placements
from tilelang.schedule.placement_legality import placement_override, version_counts, violation
from tilelang.schedule.plan_pipeline import LoopPlanner, PlannedLoop, plan_pipeline
from tilelang.schedule.prefetch import copies_first
from tilelang.schedule.register_prefetch import MAX_VERSIONS, prefetched
from tilelang.schedule.split_copies import prefetchable
from tilelang.schedule.statement_work import statement_work
from tilelang.targets.amd.machines import ARRAY_REGISTERS, RESERVED_REGISTERS, Feature

_ROW_PADDING = 16  # bytes that a layout adds to a row of a tile at most, where swizzles do not avoid bank conflicts
_REGISTER_BYTES = 4
_PREFETCH_BYTES = 256  # of a thread, for prefetched tiles: a quarter of 256 registers


class _Planner(LoopPlanner):
    def __init__(self, launch: Launch, domain: Domain, context: PassContext) -> None:
        super().__init__()
        machine, buffers = context.target.machine, [s.buffer for s in walk(launch.body) if isinstance(s, Alloc)]
        self._register_bytes = self._free_bytes = launch.num_threads * _PREFETCH_BYTES
        if machine.has(Feature.WMMA_REPEATED):  # whose operands are in registers twice
            registers = ARRAY_REGISTERS - RESERVED_REGISTERS[machine.warp_size]
            self._free_bytes = launch.num_threads * registers * _REGISTER_BYTES - _bytes(buffers, Scope.FRAGMENT)
        self._spare = machine.shared_bytes - _bytes(buffers, Scope.SHARED)
        self._sheet = machine.data_sheet

    def work(self, stmt: Stmt) -> Work | None:
        return None if self._sheet is None else statement_work(stmt, self._sheet.rates)

    def plan(self, loop: For, outside: Mapping[Buffer, str], given: Placement | None) -> PlannedLoop:
        planned, stages = self._plan(loop, outside)
        override = placement_override(planned.loop, outside, given)
        if override is not None:
            return dataclasses.replace(planned, placement=override[0], reason=override[1])
        requested = _stages(loop)
        if planned.placement is not None and stages < requested:
            self.notes.append(Note(f"T.Pipelined: {stages} of {requested} stages fit or are of use", loop.loc))
        return planned

    def _plan(self, loop: For, outside: Mapping[Buffer, str]) -> tuple[PlannedLoop, int]:
        """The plan without a saved schedule, and its stages."""
        body, stages = LoopBody(loop), _stages(loop)
        if (override := placement_override(loop, outside)) is not None:
            return PlannedLoop(loop, (), *override), stages
        if stages < 2:
            return PlannedLoop(loop), stages
        gathers = any(isinstance(copy, ParallelLoop) for copy in prefetchable(body))  # which have to pass registers
        direct = None if gathers else self._direct_placement(body, stages, outside)
        if direct is not None:
            return PlannedLoop(loop, (), direct), direct.last + 1
        for versions in range(min(stages - 1, MAX_VERSIONS), 0, -1):
            found = prefetched(loop, outside, versions, self._register_bytes, self._free_bytes)
            if isinstance(found, str):
                direct = self._direct_placement(body, stages, outside) if gathers else None
                return PlannedLoop(loop, (), direct, found), direct.last + 1 if direct is not None else stages
            if versions == 1 or self._fits(LoopBody(found.loop), found.placement, _ROW_PADDING):
                return PlannedLoop(found.loop, found.registers, found.placement, loads=found.loads), versions + 1
        return PlannedLoop(loop), stages

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
        extra = sum((count - 1) * _bytes([buffer], Scope.SHARED) for buffer, count in counts.items())
        padding = sum(count * _rows(buffer) * row_padding for buffer, count in counts.items())
        if extra + padding > self._spare:
            return False
        self._spare -= extra
        return True


def _stages(loop: For) -> int:
    """The stages that the user asks for."""
    return (loop.pipeline or PipelineSpec()).num_stages


def _bytes(buffers: Iterable[Buffer], scope: Scope) -> int:
    """The bytes of the buffers of a scope."""
    return sum(b.bytes or 0 for b in buffers if b.scope is scope and b.view_of is None)


def _rows(buffer: Buffer) -> int:
    """The rows of a tile."""
    return math.prod((buffer.static_shape or ())[:-1])


def _check_saved(func: PrimFunc, context: PassContext) -> None:
    check_only_placements(func, context.options, context.target.arch)


PASS = plan_pipeline(_Planner, _check_saved)
