"""Chooses whether blocks of a cluster split the reduction of a tile, where tiles are fewer than multiprocessors.

Takes a launch with one loop of gemms, gives the number of blocks per tile: 1 where whole tiles are faster by estimate.
Invariant: all blocks run at the same time, and each has some of the results to store, unless these are few.

The cost model is a fit to 136 gemms on an H200, of 64 to 2048 rows, tiles of 64x64 to 128x256 and 1 to 8 blocks per
tile: a step of the loop takes 90 cycles more than the matrix unit, a launch 5600, an exchange of sums what is listed.
By it 512x512x16384 in tiles of 128x128 takes 30 us instead of 91 us. Clusters that did not fit at once took up to
twice as long as those that did. What threads compute in a step, such as weights, is counted by `thread_work`.
"""

from __future__ import annotations

import math

from tilelang.ir.expr import int_const
from tilelang.ir.stmt import For, Launch, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.modulo import MIN_GAIN
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.passes.cluster_split_k import NotSplit, split
from tilelang.targets.nvidia.passes.costs import gemm_work, thread_work
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import is_pipelined, trip_count

_START_CYCLES = 5600
_STEP_CYCLES = 90
_SUM_CYCLES = {1: 0, 2: 4000, 4: 6500, 8: 9000}  # by the number of blocks per tile
_LEAST_STEPS = 4  # of each block: with fewer, its pipeline is never full
_FEW_SUMS = 64 * 128  # which one block may receive alone: no more than blocks that share the sums of a larger tile do


def choose_split_k(launch: Launch, consumers: int, machine: Machine) -> int:
    """The number of blocks that split the reduction of a tile.

    Args:
        launch: A launch from `flatten_sequences`.
        consumers: Consumer warpgroups of each block.
        machine: The machine that runs it.
    """
    extents = [int_const(extent) for extent in launch.grid]
    loops = [s for s in walk(launch.body) if isinstance(s, For) and is_pipelined(s)]
    gemms = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    steps = int_const(trip_count(loops[0])) if len(loops) == len(gemms) == 1 else None
    tiles = math.prod(extent or 0 for extent in extents)
    if not tiles or steps is None:
        return 1
    computed = sum(thread_work(s).cycles for s in walk(loops[0].body) if isinstance(s, ParallelLoop))
    step = gemm_work(gemms[0]).cycles + computed + _STEP_CYCLES
    cycles = {
        blocks: _START_CYCLES + math.ceil(steps / blocks) * step + cost
        for blocks, cost in _SUM_CYCLES.items()
        if blocks == 1 or tiles * blocks <= machine.blocks_at_once(blocks) and steps >= blocks * _LEAST_STEPS
    }
    best = min(cycles, key=cycles.__getitem__)
    few = math.prod(int_const(size) or 0 for size in gemms[0].sizes[:2]) * (best - 1) <= _FEW_SUMS
    return best if cycles[best] < cycles[1] * (1 - MIN_GAIN) and _is_split(launch, best, consumers, few=few) else 1


def _is_split(launch: Launch, blocks: int, consumers: int, *, few: bool) -> bool:
    """Whether the reduction can be split, and each block stores some of the results where these are not few."""
    try:
        return split(launch, blocks, consumers).plan.notes == launch.plan.notes or few
    except NotSplit:
        return False
