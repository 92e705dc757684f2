"""Refuses what a user sets of a warp-specialized schedule and what does not fit the machine.

Takes the schedule that comes closest to what was set; raises where that is not what was set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.ir.stmt import For, Launch
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.override_errors import (
    impossible_consumers,
    impossible_registers,
    too_many_registers,
    too_many_stages,
)
from tilelang.targets.nvidia.isa.registers import REGISTER_COUNTS
from tilelang.targets.nvidia.machines import REGISTERS_PER_SM
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import registers_of
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule

MAX_CONSUMERS = 4


def check_consumers(launch: Launch, consumers: int, refusal: Callable[[int], str]) -> None:
    """Raises if `consumers` warpgroups cannot share the work, and another number can.

    Args:
        launch: The launch.
        consumers: How many the user sets.
        refusal: Why a number of them is unsuitable; empty if it is not.
    """
    reason = refusal(consumers)
    others = sorted(range(1, MAX_CONSUMERS + 1), key=lambda count: abs(count - consumers))
    fitting = next((count for count in others if not refusal(count)), None) if reason else None
    if fitting is not None:
        raise impossible_consumers(launch, consumers, reason, fitting)


def check_overrides(
    launch: Launch,
    overrides: ScheduleOverrides,
    schedule: Schedule,
    load_groups: Sequence[LoadGroup],
    shared_bytes: int,
) -> None:
    """Raises where a schedule has fewer stages than the user sets, or registers that the machine cannot give.

    Args:
        launch: The launch.
        overrides: What the user sets.
        schedule: The schedule that comes closest to it.
        load_groups: The loads of the producer.
        shared_bytes: Shared memory of a block.
    """
    asked = overrides.stages or 0
    if schedule.stages < asked:
        pipelined = [group for group in load_groups if group.pipelined]
        size = sum(tile.bytes or 0 for group in pipelined for tile in group.tiles)
        loop = next(step for group in pipelined for step in group.path if isinstance(step, For))
        raise too_many_stages(loop, asked, size, shared_bytes, schedule.stages)
    if overrides.registers is not None:
        of_consumers, of_producer = overrides.registers
        if not {of_consumers, of_producer} <= set(REGISTER_COUNTS):
            raise impossible_registers(launch, overrides.registers, REGISTER_COUNTS)
        threads = schedule.consumer_threads, WARPGROUP_THREADS
        blocks = schedule.blocks_per_sm
        if blocks * (threads[0] * of_consumers + threads[1] * of_producer) > REGISTERS_PER_SM:
            fitting = registers_of(schedule.consumers, blocks)
            raise too_many_registers(launch, *threads, overrides.registers, REGISTERS_PER_SM, blocks, fitting)
