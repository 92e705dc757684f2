"""Chooses whether several blocks split the reduction of a tile, where tiles are fewer than multiprocessors.

Takes a launch with one loop of gemms, gives the number of blocks per tile: 1 where whole tiles are faster by estimate.
Blocks of a cluster send each other their sums; there are few of them, and all clusters have to run at the same time.
Otherwise blocks store their sums, and a second launch adds them up. The estimate is that by which the tuner orders
tiles (`performance/gemm.py`): 512x512x16384 in tiles of 128x128 takes 23 us with 8 blocks per tile instead of 91 us,
and 29 us with clusters of 4. What threads compute in a step, such as weights, is counted by `thread_work`.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.analysis.accesses import storages
from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import int_const
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, Launch, ParallelLoop, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy, is_load
from tilelang.ops.gemm import Gemm
from tilelang.performance.gemm import TiledGemm, gemm_seconds
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.load_groups import flatten_sequences, pipelined_loops
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.gemm_tiles import CLUSTER_SPLITS, WORKSPACE_SPLITS
from tilelang.targets.nvidia.passes.cluster_split_k import split
from tilelang.targets.nvidia.passes.costs import rates_of, thread_work
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit

_MIN_STEPS = 4  # of each block: with fewer, its pipeline is never full
_FEW_SUMS = 64 * 128  # which one block may receive alone: no more than blocks that share the sums of a larger tile do
_MIN_GAIN = 0.05  # of the time: what is less faster by estimate may be slower


def choose_cluster_splits(launch: Launch, consumers: int, machine: Machine) -> int:
    """The number of blocks of a cluster that split the reduction of a tile.

    Args:
        launch: A launch from `flatten_sequences`.
        consumers: Consumer warpgroups of each block.
        machine: The machine that runs it.
    """
    gemm = _tiled_gemm(launch, machine)
    if gemm is None or launch.plan.workspace_split > 1:
        return 1
    best = _fastest([gemm, *_clusters(gemm, machine)], machine).cluster_splits
    few = gemm.block_m * gemm.block_n * (best - 1) <= _FEW_SUMS
    return best if best == 1 or _is_split(launch, best, consumers, few=few) else 1


def choose_workspace_splits(launch: Launch, machine: Machine) -> int:
    """The number of blocks that split the reduction of a tile and store their sums."""
    launch = flatten_sequences(launch)
    gemm = _tiled_gemm(launch, machine)
    if gemm is None or gemm.operand_cycles:  # the model has no rates for these
        return 1
    ways = [dataclasses.replace(gemm, workspace_splits=n) for n in WORKSPACE_SPLITS if _has_work(gemm, n)]
    fitting = [way for way in ways if way.blocks <= machine.multiprocessors]
    return _fastest([gemm, *_clusters(gemm, machine), *fitting], machine).workspace_splits


def _tiled_gemm(launch: Launch, machine: Machine) -> TiledGemm | None:
    """The gemm that a launch computes; None if it is not the only one, its sizes are not known, or it has a cluster."""
    loops = pipelined_loops(launch.body)
    gemms = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    if not len(loops) == len(gemms) == 1 or launch.hints.cluster != (1, 1, 1):
        return None
    if not all(_is_modeled(stmt) for stmt in statements_of(loops[0].body)):
        return None
    steps, (gemm,) = int_const(trip_count(loops[0])), gemms
    extents, sizes = [int_const(extent) for extent in launch.grid], [int_const(size) for size in gemm.sizes]
    tiles = math.prod(extent or 0 for extent in extents)
    rows, columns, depth = (size or 0 for size in sizes)
    if not tiles or not steps or not rows * columns * depth:
        return None
    k = steps * depth
    stored = {s.dst.buffer: math.prod(s.src.buffer.static_shape or (0,)) for s in walk(loops[0]) if isinstance(s, Copy)}
    m, n = (stored.get(operand.buffer, 0) // k for operand in (gemm.a, gemm.b))
    if math.ceil(m / rows) * math.ceil(n / columns) != tiles:  # batches, or groups
        m, n = rows * tiles, columns
    computing = [s for s in walk(loops[0].body) if isinstance(s, ParallelLoop)]
    computed = sum(thread_work(s, rates_of(machine)).cycles for s in computing)
    width = max(each.bits for each in gemm.operands) / 8
    return TiledGemm(m, n, k, rows, columns, depth, width, operand_cycles=computed)


def _is_modeled(stmt: Stmt) -> bool:
    """Whether the model knows what a statement costs: loads, gemms, and loops that compute fragments."""
    if isinstance(stmt, Copy):
        return is_load(stmt)
    written = storages(stmt).written
    computes = all(buffer.scope is Scope.FRAGMENT for buffer in written) and written <= overwritten(stmt)
    return isinstance(stmt, Gemm | Bind | Alloc) or isinstance(stmt, ParallelLoop) and computes


def _clusters(gemm: TiledGemm, machine: Machine) -> list[TiledGemm]:
    """The ways to split it in clusters that run at the same time."""
    ways = [dataclasses.replace(gemm, cluster_splits=blocks) for blocks in CLUSTER_SPLITS if _has_work(gemm, blocks)]
    return [way for way in ways if way.blocks <= machine.blocks_at_once(way.cluster_splits)]


def _has_work(gemm: TiledGemm, blocks: int) -> bool:
    return gemm.steps >= blocks * _MIN_STEPS


def _fastest(ways: list[TiledGemm], machine: Machine) -> TiledGemm:
    """The fastest way, but the first unless another one is clearly faster."""
    if machine.rates is None or not machine.multiprocessors:
        return ways[0]
    seconds = {way: gemm_seconds(way, machine, machine.rates) for way in ways}
    best = min(ways, key=seconds.__getitem__)
    return best if seconds[best] < seconds[ways[0]] * (1 - _MIN_GAIN) else ways[0]


def _is_split(launch: Launch, blocks: int, consumers: int, *, few: bool) -> bool:
    """Whether the reduction can be split, and each block stores some of the results where these are not few."""
    try:
        return split(launch, blocks, consumers).plan.notes == launch.plan.notes or few
    except NotSplit:
        return False
