"""Makes launches persistent by their schedule: each block loops over tiles of the grid.

Takes a tile-level function after `choose_schedule`. A persistent launch has as many blocks as run at once, in
one dimension, each with a loop over tiles; the user's block indices are functions of the tile. Invariant: every point
of the grid is computed exactly once, but for those that are left to another launch (`LaunchPlan.tiles`), and the user's
indices are provably within the grid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import For, ForKind, Launch, Seq
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.rasterize_grid import Names, bound, in_panels, smallest
from tilelang.schedule.multicast import position_of
from tilelang.targets.nvidia.schedule import Schedule, TileOrder, schedule_of

# A tile of wgmma has at least 64 rows and 8 columns, so that no memory holds the results of more tiles. Symbolic grids
# are clamped to it, so that proofs know that index arithmetic fits into 32 bits.
_MAX_TILES = 1 << 30


def persistent(launch: Launch, schedule: Schedule, blocks: int) -> Launch:
    """The launch with at most `blocks` blocks, each of which loops over tiles.

    Without panels or a tile order, tiles are in the order of blocks: x fastest. With clusters, the loop is over
    clusters of tiles, and the launch has its clusters in one dimension.
    """
    sizes, size = schedule.cluster, schedule.cluster_size
    grid = tuple(_split(extent, by) for extent, by in zip(launch.grid, sizes, strict=False))
    tiles: Expr = grid[0]
    for extent in grid[1:]:
        tiles = tiles * extent
    tiles = tiles if launch.plan.tiles is None else const(launch.plan.tiles, INT32)
    if int_const(tiles) is None:
        tiles = smallest(tiles, const(_MAX_TILES, INT32))
    count = smallest(tiles, const(max(blocks // size, 1), INT32))
    block, iteration = (Var(name, INT32, index=True) for name in ("block", "turn"))
    name = Names(launch.loc)
    worker = _split(block, size)
    order = schedule.tile_order
    number = worker + iteration * count
    # `specialize_warps` replaces the numbers of tiles that take different times
    number = number if order is None else name("number", number)
    tile = name("tile", smallest(number, tiles - 1))
    indices = _indices(tile, grid, _panel(schedule), name) if order is None else _ordered(tile, grid, order, name)
    if size > 1:
        at = position_of(block % size, sizes)
        indices = tuple(i if by == 1 else i * by + a for i, by, a in zip(indices, sizes, at, strict=False))
    body = statements_of(launch.body)
    statements = (*name.binds, *bound(launch.block_vars, indices, launch.loc), *body)
    loop = For(
        iteration,
        const(0, INT32),
        (tiles - worker + (count - 1)) // count,
        1,
        ForKind.SERIAL,
        Seq(statements, loc=launch.body.loc),
        loc=launch.loc,
    )
    return dataclasses.replace(
        launch,
        block_vars=(block,),
        grid=(count if size == 1 else count * size,),
        hints=dataclasses.replace(launch.hints, swizzle=None, cluster=(size, 1, 1)),
        body=Seq((loop,), loc=launch.body.loc),
    )


def first_tiles(launch: Launch, tiles: int) -> Launch:
    """The launch with a block for each of the first tiles, row by row."""
    block, name = Var("block", INT32, index=True), Names(launch.loc)
    indices = _indices(block, launch.grid, None, name)
    body = (*name.binds, *bound(launch.block_vars, indices, launch.loc), *statements_of(launch.body))
    made = dataclasses.replace(launch, block_vars=(block,), grid=(const(tiles, INT32),))
    return dataclasses.replace(made, body=Seq(body, loc=launch.body.loc))


def _split(number: Expr, size: int) -> Expr:
    return number if size == 1 else number // size


def _panel(schedule: Schedule) -> tuple[int, str] | None:
    """The panel of the schedule, in clusters instead of tiles."""
    if schedule.panel is None:
        return None
    count, order = schedule.panel
    return max(count // schedule.cluster[order == "row"], 1), order


def _indices(tile: Expr, grid: tuple[Expr, ...], panel: tuple[int, str] | None, name: Names) -> tuple[Expr, ...]:
    """The indices of a tile in a grid of tiles, or of clusters of tiles."""
    if len(grid) == 1:
        return (tile,)
    width, height = grid[:2]
    layer: tuple[Expr, ...] = ()
    if len(grid) == 3:
        layer = (smallest(tile // (width * height), grid[2] - 1),)
        tile = name("place", tile % (width * height))
    if panel is not None:
        return (*in_panels(tile, (width, height), panel, name), *layer)
    return (tile % width, smallest(tile // width, height - 1), *layer)


def _ordered(tile: Expr, grid: tuple[Expr, ...], order: TileOrder, name: Names) -> tuple[Expr, ...]:
    """The indices of a tile in a grid of tiles that take different times.

    Tiles are counted from the last one, so that a group that is smaller than others comes first: as the last one, it
    would leave multiprocessors idle while others compute its heaviest tiles.
    """
    length, others = grid[order.axis], [extent for axis, extent in enumerate(grid) if axis != order.axis]
    count: Expr = const(1, INT32)
    for extent in others:
        count = count * extent
    tile = name("from_last", order.tiles - 1 - tile)
    position, other = in_panels(tile, (length, count), (order.group, "row"), name)
    indices = [other]
    if len(others) == 2:
        other = name("place", other)
        indices = [other % others[0], smallest(other // others[0], others[1] - 1)]
    indices.insert(order.axis, position if order.descending else length - 1 - position)
    return tuple(indices[: len(grid)])


def persist(func: PrimFunc, blocks: int | Callable[[int], int]) -> PrimFunc:
    """The function with its persistent launches in at most `blocks` blocks, which may depend on the cluster size."""
    blocks_at_once = (lambda _: blocks) if isinstance(blocks, int) else blocks

    def step(launch: Launch) -> Launch:
        schedule = schedule_of(launch)
        if schedule is not None and schedule.persistent:
            return persistent(launch, schedule, blocks_at_once(schedule.cluster_size))
        return launch if launch.plan.tiles is None else first_tiles(launch, launch.plan.tiles)

    return with_launches(func, step)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    if not context.target.machine.multiprocessors:
        return func
    return persist(func, context.target.machine.blocks_at_once)


PASS = Pass(
    "persist_grid", _run, Level.TILE, Level.TILE,
    requires=(Property.GRID_AS_WRITTEN, Property.SCHEDULE_CHOSEN),
    establishes=(Property.PERSISTENT_LOOPS_INSERTED,),
    invalidates=(Property.GRID_AS_WRITTEN,),
)
