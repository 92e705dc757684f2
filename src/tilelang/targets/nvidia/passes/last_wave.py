"""Divides the work of the tiles that the last wave of persistent blocks is left with, where these are few.

Takes a launch with a reduction loop, whose grid is the tiles; gives one whose blocks compute the whole waves, and one
whose blocks are the tiles that are left, of which several may then share each (`workspace_split_k`). Invariant: every
tile is computed by one of the two. Of 4096 tiles 132 multiprocessors compute 4092 in 31 waves; without this, 128 of
them wait as long as for another wave, 3 % of the time, while the others compute the last 4. Only users and tuners ask
for it (`tl.last_wave`): the second launch takes the CUDA compiler as long as the first, 0.4 s for attention backward.

The first launch leaves one tile more. If all its blocks had equally many, compilers would know the number, and ptxas
13.0 then read the index of the block anew in each iteration of attention backward: 5 % more instructions, and on an
H200 as many cycles as without this.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import substitute_stmt
from tilelang.passes.tile.rasterize_grid import smallest
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.choose_cluster import cluster_of
from tilelang.targets.nvidia.passes.choose_tile_order import choose_tile_order, panel_of
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.transforms.fresh_names import with_fresh_names


class NothingLeft(NotSplit):
    """There is no last wave with fewer tiles than others."""


def split_waves(
    launch: Launch, at_once: int, capabilities: TargetCapabilities, overrides: ScheduleOverrides
) -> tuple[Launch, Launch]:
    """The launch of the whole waves, and that of the tiles that are left.

    Args:
        launch: Any launch.
        at_once: Blocks that run at once.
        capabilities: What the target's lowerings can do.
        overrides: What the user sets of the schedule.

    Raises:
        NothingLeft: There are no whole waves, or no other tiles.
        NotSplit: Tiles are not computed row by row.
    """
    launch = flatten_sequences(launch)
    extents = [int_const(extent) for extent in launch.grid]
    if None in extents:
        raise NotSplit("only the call knows how many tiles there are")
    tiles = math.prod(extent or 0 for extent in extents)
    waves, left = divmod(tiles, at_once) if at_once else (0, 0)
    if not waves or not left:
        raise NothingLeft(f"{tiles} tiles are no whole waves of {at_once} and some more")
    whole = waves * at_once - 1
    groups = capabilities.load_groups(launch).found
    in_order = panel_of(launch, groups) is None and choose_tile_order(launch, groups) is None
    if not in_order or cluster_of(launch, overrides.cluster, groups) != (1, 1, 1) or (overrides.split_k or 1) > 1:
        raise NotSplit("single blocks do not compute the tiles row by row")
    if launch.hints.layouts:
        raise NotSplit("layouts are annotated")
    rest = Var("rest", INT32, index=True)
    known = dict(zip(launch.block_vars, _indices(rest + whole, launch.grid), strict=True))
    others = dataclasses.replace(
        launch,
        block_vars=(rest,),
        grid=(const(tiles - whole, INT32),),
        body=with_fresh_names(substitute_stmt(launch.body, known)),
        plan=LaunchPlan(),
    )
    return dataclasses.replace(launch, plan=dataclasses.replace(launch.plan, tiles=whole)), others


def _indices(tile: Expr, grid: tuple[Expr, ...]) -> list[Expr]:
    """The indices of a tile in a grid, row by row."""
    found: list[Expr] = []
    for extent in grid[:-1]:
        found.append(tile % extent)
        tile = tile // extent
    return [*found, smallest(tile, grid[-1] - 1)]
