"""The cycles of a block whose tiles are each one loop of gemms, by how consumer warpgroups share them.

Takes a launch and schedules for it; gives the cycles of a block by estimate. The loop over the tiles of a persistent
block is itself a pipeline of two statements, the main loop and the epilogue. Warpgroups that share each tile run one
after the other. Two warpgroups in ping-pong are half an interval apart: the matrix unit serves the main loops of both
one after another, and the epilogue of one runs under the main loop of the other, but for that of the last tile. Where
both take as long by estimate, ping-pong was 1 to 3 % faster on an H200 (2048^3 in tiles of 128x128 and 128x192).

One warpgroup alone is no choice where several can share a tile: each wait takes it longer, and the epilogue, too. On an
H200 gemms in tiles of 128x128 and 128x64 took the same time so, or up to 3 % more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tilelang.ir.buffer import Scope
from tilelang.ir.expr import int_const
from tilelang.ir.sequences import statements_behind, statements_of
from tilelang.ir.stmt import Alloc, For, If, Launch, Seq, Stmt
from tilelang.ir.visit import sub_statements
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.modulo import modulo_schedule
from tilelang.schedule.single_gemm import has_tile_work, only_gemm
from tilelang.targets.nvidia.passes.choose_tile_order import choose_tile_order
from tilelang.targets.nvidia.passes.costs import group_work, rates_of
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.passes.warp_specialization.consumer_count import consumers_refusal, has_fixed_layouts
from tilelang.targets.nvidia.passes.warp_specialization.gemm_graph import gemm_graph
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule

_MANY = 64  # iterations, or tiles of a block, where it is not known how many there are


def ping_pong_refusal(launch: Launch, load_groups: Sequence[LoadGroup], capabilities: TargetCapabilities) -> str:
    """Why two warpgroups cannot each compute every other tile of a launch; empty if they can."""
    loop = _loop_of_gemms(launch)
    gemm = None if loop is None else only_gemm(loop, load_groups)
    if gemm is None:
        return "a tile is more than one loop of a gemm"
    counts = any(load_group.needs_counters(launch) for load_group in load_groups)
    if counts and any(load_group.loop is not loop for load_group in load_groups):
        # a group that has not seen all fills of a stage could take one for another
        return "only run time tells which tiles there are, and a tile loads more than its loop"
    if launch.hints.swizzle is None and choose_tile_order(launch, load_groups) is not None:
        return "trip counts differ from tile to tile"
    if has_fixed_layouts(launch) and launch.num_threads != WARPGROUP_THREADS:
        return f"layouts in the kernel divide tiles among {launch.num_threads} threads"
    if refusal := consumers_refusal(launch, 1, (gemm,), capabilities, required=True):
        return refusal
    loaded = {tile for load_group in load_groups for tile in load_group.tiles}
    stores = {store.staging for store in capabilities.epilogue_stores(launch, WARPGROUP_THREADS)}
    tiles = {s.buffer for s in statements_of(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED}
    return "warpgroups exchange data through shared memory" if tiles - loaded - stores else ""


def block_cycles(
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    schedule: Schedule,
    in_flight: int | None,
) -> int:
    """The cycles of the persistent block with the most tiles.

    Args:
        launch: A launch that `ping_pong_refusal` does not refuse.
        load_groups: The loads of the producer.
        capabilities: What the target's lowerings can do.
        schedule: How its consumers share the tiles.
        in_flight: How many gemms the user wants in flight; None for the best choice.
    """
    loop, machine = _loop_of_gemms(launch), capabilities.context.target.machine
    assert loop is not None
    graph = gemm_graph(loop, launch, load_groups, capabilities, schedule, in_flight)
    assert graph is not None
    main = (int_const(trip_count(loop)) or _MANY) * modulo_schedule(graph).cycles
    rates = rates_of(machine)
    behind = statements_behind(launch.body, loop) or ()
    epilogue = sum(group_work(stmt, rates, graph.groups).cycles for stmt in behind)
    extents = [int_const(extent) for extent in launch.grid]
    counts = [extent for extent in extents if extent is not None]
    known = len(counts) == len(extents) and machine.multiprocessors
    tiles = math.ceil(math.prod(counts) / machine.multiprocessors) if known else _MANY
    if schedule.ping_pong:
        return max(tiles * main + epilogue, math.ceil(tiles / 2) * (main + epilogue))
    return tiles * (main + epilogue)


def _loop_of_gemms(launch: Launch) -> For | None:
    """The only loop of a launch that works on tiles, in branches or not; None if there are several, or none."""
    loops = [loop for loop in _outer_loops(launch.body) if has_tile_work(loop)]
    return loops[0] if len(loops) == 1 else None


def _outer_loops(stmt: Stmt) -> Iterator[For]:
    if isinstance(stmt, For):
        yield stmt
    elif isinstance(stmt, Seq | If):
        for child in sub_statements(stmt):
            yield from _outer_loops(child)
