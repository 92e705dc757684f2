"""Lets blocks stay: each works on one tile of the grid after the other, where the schedule of a launch says so.

Takes a tile-level function as `choose_schedule` leaves it. A persistent launch has as many blocks as run at once, in
one dimension, and a loop in each of them; the user's block indices are functions of the tile. Invariant: every point of
the grid is worked on exactly once, and the user's indices are visibly within it, so proofs about them still succeed.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.schedule import Schedule
from tilelang.ir.stmt import For, ForKind, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.tile.rasterize_grid import Names, bound, in_panels, smallest

# A tile of matrix instructions has 64 rows and 8 columns at least, so that no memory holds the results of more tiles.
# It is said of symbolic grids, since what is computed of one is then known to fit into 32 bits.
_MOST_TILES = 1 << 30


def persistent(launch: Launch, schedule: Schedule, blocks: int) -> Launch:
    """The launch with at most so many blocks, which walk over its grid.

    Without panels tiles follow each other as blocks do that start one after another: x fastest.
    """
    tiles: Expr = launch.grid[0]
    for extent in launch.grid[1:]:
        tiles = tiles * extent
    if int_const(tiles) is None:
        tiles = smallest(tiles, const(_MOST_TILES, INT32))
    count = smallest(tiles, const(blocks, INT32))
    block, turn = (Var(name, INT32, index=True) for name in ("block", "turn"))
    name = Names(launch.loc)
    tile = name("tile", smallest(block + turn * count, tiles - 1))
    body = launch.body.body if isinstance(launch.body, Seq) else (launch.body,)
    indices = _indices(tile, launch.grid, schedule.panel, name)
    statements = (*name.binds, *bound(launch.block_vars, indices, launch.loc), *body)
    loop = For(
        turn,
        const(0, INT32),
        (tiles - block + (count - 1)) // count,
        1,
        ForKind.SERIAL,
        Seq(statements, loc=launch.body.loc),
        loc=launch.loc,
    )
    return dataclasses.replace(
        launch,
        block_vars=(block,),
        grid=(count,),
        hints=dataclasses.replace(launch.hints, swizzle=None),
        body=Seq((loop,), loc=launch.body.loc),
    )


def _indices(tile: Expr, grid: tuple[Expr, ...], panel: tuple[int, str] | None, name: Names) -> tuple[Expr, ...]:
    """The user's block indices of a tile."""
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


class _Launches(Rewriter):
    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        schedule = node.plan.schedule
        return persistent(node, schedule, self._blocks) if schedule is not None and schedule.persistent else node


def persist(func: PrimFunc, blocks: int) -> PrimFunc:
    """The function with its persistent launches in at most so many blocks."""
    body = _Launches(blocks).visit(func.body) or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    blocks = context.target.architecture.multiprocessors if context.target.kind == "cuda" else 0
    return persist(func, blocks) if blocks else func


PASS = Pass("persist_grid", _run, Level.TILE, Level.TILE)
