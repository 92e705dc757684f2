"""The graph of a loop that is one gemm, by which its interval and the gemms that stay in flight are found.

Takes a loop and the schedule of its launch; gives a `LoopGraph`. Invariant: gemms may stay in flight only where another
iteration surely follows or the loop has ended, and where what they have read can be released an iteration later.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.ir.stmt import For, Launch
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.loop_graph import Edge, LoopGraph
from tilelang.schedule.single_gemm import only_gemm
from tilelang.targets.nvidia.passes.costs import gemm_work, load_cycles, rates_of
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule


def gemm_graph(
    loop: For,
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    in_flight: int | None = None,
) -> LoopGraph | None:
    """The graph of a loop that is one gemm; None for another loop.

    Warpgroups that wait for a gemm also release its operands and wait for those of the next, before they issue that.

    Args:
        loop: The loop.
        launch: The launch that holds it.
        load_groups: All loads of the producer.
        capabilities: What the target's lowerings can do.
        schedule: How many warpgroups share the gemm, and the stages of its operands.
        in_flight: How many gemms the user wants in flight; None for the best choice.
    """
    gemm = only_gemm(loop, load_groups)
    if gemm is None:
        return None
    rates = rates_of(capabilities.context.target.machine)
    mine = [load_group for load_group in load_groups if load_group.parent is loop.body]
    fills = [None if schedule.persistent else load_group.fill_count().maximum for load_group in mine]
    choices = (0, 1) if in_flight is None else (in_flight,)
    # whether the stage that a gemm has read can be released an iteration later
    may_stay = all(capabilities.only_read_by_wgmma(load_group, schedule.tile_threads) for load_group in mine)
    if schedule.stages < 2 or 1 in fills or not may_stay:
        choices = (0,)
    waits = any(fill is None or fill > schedule.stages for fill in fills)
    work = gemm_work(gemm, rates)
    return LoopGraph(
        (dataclasses.replace(work, latency=work.latency + math.ceil(rates.matrix_restart)),),
        (Edge(0, 0, 1, waits=False),),
        groups=schedule.tile_threads // WARPGROUP_THREADS,
        in_flight=choices,
        stages=schedule.stages if waits else 0,
        load_cycles=load_cycles(sum(load_group.bytes for load_group in mine), rates),
    )

