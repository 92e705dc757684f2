"""Decides whether a multiprocessor holds two small blocks at once, where consumers cannot keep its units busy.

Takes the passes from `choose_schedule` to the last that adds something; gives the pass, which writes
`plan.blocks_per_sm`. Where dependences forbid that an iteration's gemms overlap its other work, tensor cores idle while
threads compute, and threads while they wait for gemms; so they do for a part of the time where one warpgroup computes
alone, in whatever order. Another block fills these gaps, but it leaves half of the shared memory and registers. Both
kernels are lowered, and the performance model decides (`performance/`): one block lasts longer alone, with one
warpgroup and fewer stages, but there are half as many waves. Invariant: without a choice, or if the user sets any part
of the schedule, nothing changes.

On an H200 two blocks were faster than persistent ones for Mamba 2 and the gated delta rule with 64 columns, and for
attention of 64 rows: by 17 to 26 % from 1024 blocks on, but slower by 5 % with 512.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Sequence

from tilelang.errors import Note, TileLangError
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch, ParallelLoop
from tilelang.ir.visit import walk, without
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_body, with_launches
from tilelang.passes.runner import run_passes
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import pipelined_loops
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.warp_specialization.loop_schedules import KEEPS_ORDER
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import (
    live_tile_registers,
    registers_for_tiles,
)
from tilelang.targets.nvidia.schedule import MAX_BLOCKS_PER_SM, ONE_BLOCK, schedule_of

_MIN_ROUNDS = 2 * MAX_BLOCKS_PER_SM  # where gemms overlap other work: what is begun last runs alone
_MIN_GAIN = 0.1  # of the time: what is less faster by estimate may be slower


def choose_occupancy(scheduled: Sequence[Pass]) -> Pass:
    """The pass for the passes that follow it, of which the first one chooses schedules."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        options, machine = context.options, context.target.machine
        free = options.schedule == ScheduleOverrides() and not options.saved_schedules
        if not free or machine.rates is None or not machine.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
            return func
        return with_launches(func, lambda launch: _Launch(func, launch, scheduled, context).with_choice())

    return Pass(
        "choose_occupancy", run, Level.TILE, Level.TILE,
        requires=scheduled[0].requires,
    )


class _Launch:
    """One launch, which is lowered without the others of its function."""

    def __init__(self, func: PrimFunc, launch: Launch, scheduled: Sequence[Pass], context: PassContext) -> None:
        self._func, self._launch, self._context = func, launch, context
        first, *others = scheduled
        # schedules are asked for what they leave room for, and then lowered
        self._scheduled = (dataclasses.replace(first, run=functools.cache(first.run)), *others)
        self._by_blocks: dict[int, PrimFunc] = {}  # `functools.cache` of a method would keep all nodes alive

    def with_choice(self) -> Launch:
        """The launch with the choice and a note, or as it is where there is nothing to choose."""
        if not self._may_have_several() or not _has_room(self._planned(MAX_BLOCKS_PER_SM)):
            return self._launch
        if not self._waits(self._planned(1)):
            return self._launch
        from tilelang.performance.prediction import duration  # noqa: PLC0415  few launches have a choice

        one, two = self._predicted(1), self._predicted(MAX_BLOCKS_PER_SM)
        if one is None or two is None:
            return self._launch
        if two < one * (1 - _MIN_GAIN):
            text = f"two blocks at once on a multiprocessor: predicted {duration(two)}, one {duration(one)}"
            return self._noted(MAX_BLOCKS_PER_SM, text)
        return self._noted(1, f"{ONE_BLOCK}: predicted {duration(one)}, two {duration(two)}")

    def _may_have_several(self) -> bool:
        """Whether there are more blocks than multiprocessors, and two of them at once may be faster.

        One warpgroup must hold the tiles, loops have work for both tensor cores and threads, and the user must not say
        how many blocks run at once.
        """
        hints, plan = self._launch.hints, self._launch.plan
        if self._rounds <= 1 or hints.min_blocks_per_sm or hints.cluster != (1, 1, 1):
            return False
        if plan.workspace_split > 1 or plan.generated:
            return False
        if live_tile_registers(self._launch, 1) > registers_for_tiles(1, MAX_BLOCKS_PER_SM):
            return False
        loops = pipelined_loops(self._launch.body)
        return any({Gemm, ParallelLoop} <= {type(s) for s in walk(loop)} for loop in loops)

    @property
    def _rounds(self) -> float:
        """The blocks for each multiprocessor; 0 if their number is not known."""
        extents = [int_const(extent) or 0 for extent in self._launch.grid]
        return math.prod(extents) / self._context.target.machine.multiprocessors

    def _waits(self, launch: Launch) -> bool:
        """Whether blocks stay for several tiles, and nothing fills the gaps between the gemms of their consumers."""
        schedule = schedule_of(launch)
        if schedule is None or not schedule.persistent or schedule.ping_pong:
            return False
        if schedule.reorders:
            return schedule.consumers == 1 and self._rounds >= _MIN_ROUNDS
        return any(note.text.startswith(KEEPS_ORDER) for note in launch.plan.notes)

    def _planned(self, blocks: int) -> Launch:
        """The launch with the schedule that leaves room for so many blocks, or for one if they are too large."""
        func = self._scheduled[0].run(self._alone(blocks), self._context)
        return next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))

    def _alone(self, blocks: int) -> PrimFunc:
        """The function with this launch alone, of which a multiprocessor holds so many blocks; one per number."""
        if blocks not in self._by_blocks:
            others = {s for s in walk(self._func.body) if isinstance(s, Launch) and s is not self._launch}
            plan = dataclasses.replace(self._launch.plan, blocks_per_sm=blocks)
            func = with_body(self._func, without(self._func.body, others))
            self._by_blocks[blocks] = with_launches(func, lambda launch: dataclasses.replace(launch, plan=plan))
        return self._by_blocks[blocks]

    def _predicted(self, blocks: int) -> float | None:
        """The seconds that it takes with so many blocks on a multiprocessor; None if there is no such kernel."""
        from tilelang.performance.predict import predict  # noqa: PLC0415  as above

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the chosen one is lowered again
                func = run_passes(self._alone(blocks), self._scheduled, self._context)
            return predict(func, self._context.target.machine, fast_math=self._context.options.fast_math).seconds
        except TileLangError:
            return None

    def _noted(self, blocks: int, text: str) -> Launch:
        notes = (*self._launch.plan.notes, Note(text, self._launch.loc))
        plan = dataclasses.replace(self._launch.plan, blocks_per_sm=blocks, notes=notes)
        return dataclasses.replace(self._launch, plan=plan)


def _has_room(launch: Launch) -> bool:
    """Whether the schedule leaves room for several blocks."""
    schedule = schedule_of(launch)
    return schedule is not None and schedule.blocks_per_sm > 1
