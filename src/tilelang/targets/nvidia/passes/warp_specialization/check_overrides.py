"""Refuses what a user sets of a warp-specialized schedule and what does not fit the machine.

Takes the schedule that comes closest to what was set; raises where that is not what was set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tilelang.ir.stmt import For, Launch
from tilelang.saved_schedule import MAX_CONSUMERS, MAX_EPILOGUE_PARTS, Placement, ScheduleOverrides
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.override_errors import (
    impossible,
    impossible_consumers,
    impossible_placement,
    impossible_registers,
    nearest_fitting,
    too_few_registers,
    too_many_registers,
    too_many_stages,
)
from tilelang.targets.nvidia.isa.registers import REGISTER_COUNTS
from tilelang.targets.nvidia.machines import REGISTERS_PER_SM
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import EpilogueStore, split_into_parts
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import live_tile_registers, registers_of
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule

_WHY_NO_PING_PONG = (
    "two warpgroups alternate where blocks are persistent and their one loop is one gemm beside its loads; those that "
    "share tiles take turns where a software-pipelined loop issues several gemms at once"
)


def check_consumers(launch: Launch, consumers: int, refusal: Callable[[int], str]) -> None:
    """Raises if `consumers` warpgroups cannot share the work, and another number can.

    Args:
        launch: The launch.
        consumers: How many the user sets.
        refusal: Why a number of them is unsuitable; empty if it is not.
    """
    reason = refusal(consumers)
    fitting = nearest_fitting(consumers, MAX_CONSUMERS, lambda count: not refusal(count)) if reason else None
    if fitting is not None:
        raise impossible_consumers(launch, consumers, reason, fitting)


def check_overrides(
    launch: Launch,
    overrides: ScheduleOverrides,
    schedule: Schedule,
    load_groups: Sequence[LoadGroup],
    stores: Sequence[EpilogueStore],
    shared_bytes: int,
) -> None:
    """Raises where a schedule is not what the user sets, or has registers that the machine cannot give.

    Args:
        launch: The launch.
        overrides: What the user sets.
        schedule: The schedule that comes closest to it.
        load_groups: The loads of the producer.
        stores: The stores that the epilogue can do asynchronously.
        shared_bytes: Shared memory of a block.
    """
    if overrides.persistent and not schedule.persistent:
        cluster = " x ".join(map(str, overrides.cluster or launch.hints.cluster))
        reason = f"the grid is not known to consist of whole clusters of {cluster} blocks"
        raise impossible(launch, "persistent", True, reason, False)
    if overrides.ping_pong and not (schedule.ping_pong or schedule.ordered_issue):
        raise impossible(launch, "ping_pong", True, _WHY_NO_PING_PONG, False)
    if schedule.ping_pong:
        _check_ping_pong(launch, overrides, schedule)
    if overrides.mma_in_flight not in (None, schedule.mma_in_flight):
        reason = "no loop of at least two stages is one gemm beside its loads"
        raise impossible(launch, "mma_in_flight", overrides.mma_in_flight, reason, schedule.mma_in_flight)
    asked_parts = overrides.epilogue_parts
    if asked_parts and (asked_parts is True and not schedule.epilogue_parts or asked_parts > schedule.epilogue_parts):
        _refuse_parts(launch, asked_parts, stores)
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
        held = live_tile_registers(launch, schedule.tile_threads // WARPGROUP_THREADS)
        if of_consumers < held:
            raise too_few_registers(launch, overrides.registers, held, registers_of(schedule.consumers, blocks))


def _check_ping_pong(launch: Launch, overrides: ScheduleOverrides, schedule: Schedule) -> None:
    """Raises where the user sets what two warpgroups that alternate cannot have."""
    if overrides.consumers not in (None, schedule.consumers):
        raise impossible_consumers(
            launch, overrides.consumers, f"{schedule.consumers} alternate by 'tl.ping_pong'", schedule.consumers
        )


def _refuse_parts(launch: Launch, parts: bool | int, stores: Sequence[EpilogueStore]) -> NoReturn:
    """Raises with the nearest number of parts in which the epilogue can store."""

    def fits(count: int) -> bool:
        return any(split_into_parts(store, count).parts == count for store in stores)

    fitting = nearest_fitting(parts, MAX_EPILOGUE_PARTS, fits)
    reason = f"no results have rows of {parts} equal parts that can be stored through shared memory"
    if fitting is None:
        reason = "no results can be stored through shared memory while the next tile is computed"
    raise impossible(launch, "epilogue_parts", parts, reason, fitting or 0)


def check_placements(
    loops: Sequence[For],
    asked: Sequence[Placement | None] | None,
    placements: Sequence[Placement | None],
    schedule: Schedule,
) -> None:
    """Raises where loops do not have the placements of a saved schedule.

    Args:
        loops: The pipelined loops of a launch.
        asked: Their placements in the saved schedule; None if it has none.
        placements: Those that they have.
        schedule: The schedule of the launch.
    """
    reason = "its tiles have one version"
    if schedule.ping_pong:
        reason = "two consumer warpgroups each compute every other tile"
    elif schedule.split_k > 1:
        reason = f"{schedule.split_k} blocks share its iterations"
    elif schedule.blocks_per_sm > 1:
        reason = f"of {schedule.blocks_per_sm} blocks at once, one computes while others wait"
    for loop, wanted, made in zip(loops, asked or (), placements, strict=False):
        if wanted not in (None, made):
            raise impossible_placement(loop, wanted, reason)
