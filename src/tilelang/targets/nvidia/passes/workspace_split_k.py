"""Split-K through memory: blocks each run a part of a tile's reduction loop, and a second launch adds up their sums.

Takes a tile-level function before schedules are chosen. Where the user asks for it, or a cost model says that it pays,
a launch with the loop of a gemm becomes two. Each of `n` blocks of the first one runs its share of the iterations and
stores its sums to a workspace. Blocks of the second one each add up some columns of a tile, always in the same order,
and run the epilogue with them. Invariant: every iteration is run by exactly one block, shares differ by one iteration
at most, and no effect on other global memory happens twice.

    sums = T.alloc_global((n, tiles along y, tiles along x, rows, columns))
    with T.Kernel(tiles along x, tiles along y, n) as (bx, by, part):
        T.clear(C)
        for k in T.Pipelined(begin of the share, end of the share): ...; T.gemm(A, B, C)
        T.copy(C, sums[part, by, bx])
    with T.Kernel(tiles along x, tiles along y, columns // own columns) as (bx, by, piece):
        T.pdl_sync()
        C_own = sums[0, by, bx, own columns] + sums[1, by, bx, own columns] + ...
        ...; T.copy(C_own, ...)

Unlike a cluster, any number of blocks can share a tile. The second launch begins before the first one ends. Where whole
waves of tiles leave some for the last one, those alone become two launches behind that of the others (`last_wave`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from tilelang.analysis.accesses import accesses, storages
from tilelang.dtypes import INT32
from tilelang.errors import Loc, Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, Bind, CallStmt, Launch, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, substitute_stmt, uses, walk
from tilelang.lowering.lowering import Lowerings
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.schedule.override_errors import impossible, nearest_fitting
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.choose_split_k import choose_workspace_splits
from tilelang.targets.nvidia.passes.gemm_loop import GemmLoop, NotSplit, find_gemm_loop, split_loop
from tilelang.targets.nvidia.passes.last_wave import NothingLeft, split_waves
from tilelang.targets.nvidia.passes.partition_epilogue_n import NotPartitioned, columns_of, partition_epilogue_n
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities, target_capabilities

_MIN_COLUMNS = 16  # of a block that adds up: full sectors of 32 bytes are stored to global memory
_PIECES = (8, 4, 2)  # into which the columns of a tile are divided for it
_TOGETHER = 8  # parts whose loads are on their way at the same time
_MAX_DIMENSIONS = 3  # of a grid


def split(launch: Launch, parts: int, *, required: bool) -> tuple[Stmt, ...]:
    """The workspaces, the launch that fills them, and the one that adds up.

    Args:
        launch: Any launch.
        parts: Blocks for each tile.
        required: Whether to do so even where one block has to add up a whole tile.

    Raises:
        NotSplit: The reduction cannot be split.
    """
    launch = flatten_sequences(launch)
    _check_launch(launch)
    loop = find_gemm_loop(launch, parts)
    sums = {tile: _workspace(launch, tile, parts) for tile in loop.tiles}
    adding = _adding(launch, loop, sums, parts, required=required)
    allocated = (Alloc(each, loc=launch.loc) for each in sums.values())
    return (*allocated, _filling(launch, loop, sums, parts), adding)


def _workspace(launch: Launch, tile: Buffer, parts: int) -> Buffer:
    """Memory for the sums of all parts of a tile."""
    shape = (const(parts, INT32), *launch.grid[::-1], *tile.shape)
    return Buffer(f"{tile.name}_sums", shape, tile.dtype, Scope.GLOBAL, loc=tile.loc)


def _check_launch(launch: Launch) -> None:
    """Refuses launches that cannot become two, whatever their loops are."""
    if launch.hints.cluster != (1, 1, 1):
        raise NotSplit("blocks run in clusters already")
    if any(int_const(extent) is None for extent in launch.grid):
        raise NotSplit("only the call knows how many tiles there are")
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt):
            raise NotSplit(f"the kernel calls {stmt.name} itself")
    if launch.thread is not None and uses(launch.body, launch.thread):
        raise NotSplit("the kernel names the threads")


def _filling(launch: Launch, loop: GemmLoop, sums: Mapping[Buffer, Buffer], parts: int) -> Launch:
    """The launch whose blocks each store their sums of a tile."""
    grid, block_vars, part, known = _with_dimension(launch, "part", parts)
    used = storages(loop.loop).all
    at = [part, *launch.block_vars[::-1]]
    body = (
        *_needed(loop.before, used),
        split_loop(loop.loop, part, parts),
        *(Copy(whole(g.c.buffer), _tile_of(sums[g.c.buffer], at, g.c.buffer), loc=g.loc) for g in loop.gemms),
    )
    tiles = math.prod(int_const(extent) or 1 for extent in launch.grid)
    text = f"split-K over {parts} blocks for each of {tiles} tiles, whose sums the next launch adds up"
    plan = dataclasses.replace(launch.plan, workspace_split=parts, notes=(*launch.plan.notes, Note(text, launch.loc)))
    return _launch(launch, block_vars, grid, [substitute_stmt(stmt, known) for stmt in body], plan)


def _adding(launch: Launch, loop: GemmLoop, sums: Mapping[Buffer, Buffer], parts: int, *, required: bool) -> Launch:
    """The launch whose blocks each add up columns of a tile, and run the epilogue."""
    piece = Var("piece", INT32, index=True)
    pieces, own = 1, {tile: tile for tile in loop.tiles}
    before, after = list(loop.before), list(loop.after)
    try:
        pieces = _pieces(loop)
        columns = columns_of(loop.tiles, pieces, piece)
        before, after = partition_epilogue_n(columns, loop.before, loop.after)
        own = dict(columns.own)
    except NotPartitioned as reason:
        if not required:
            raise NotSplit(f"one block would add up whole tiles, since {reason}") from None
        pieces = 1
    grid, block_vars, number, known = _with_dimension(launch, "piece", pieces)
    at = [*launch.block_vars[::-1]]
    used = {storage for stmt in after for storage in storages(stmt).all}
    body: list[Stmt] = [
        CallStmt(GRID_DEPENDENCY_WAIT, (), loc=launch.loc),
        *_needed(before, used - {tile.storage for tile in own.values()}),
        *(Alloc(tile, loc=tile.loc) for tile in own.values()),
        *(stmt for g in loop.gemms for stmt in _sum(own[g.c.buffer], sums[g.c.buffer], at, number, g.loc)),
        *after,
    ]
    note = Note(f"adds up the sums of {parts} blocks for each tile of the launch before", launch.loc)
    body = [substitute_stmt(stmt, {**known, piece: number}) for stmt in body]
    made = _launch(launch, block_vars, grid, body, LaunchPlan(notes=(note,)))
    hints = dataclasses.replace(made.hints, swizzle=None, min_blocks_per_sm=None)
    return _with_own_names(dataclasses.replace(made, hints=hints))


def _pieces(loop: GemmLoop) -> int:
    """Into how many pieces the columns of a tile are divided.

    Raises:
        NotPartitioned: They cannot be divided.
    """
    if any(gemm.transpose_c for gemm in loop.gemms):
        raise NotPartitioned("threads divide its columns among them")
    (columns, *others) = {int_const(tile.shape[-1]) or 0 for tile in loop.tiles}
    if others:
        raise NotPartitioned("tiles have different numbers of columns")
    for count in _PIECES:
        if not columns % count and columns // count >= _MIN_COLUMNS:
            return count
    raise NotPartitioned(f"{columns} columns are too few")


def _with_dimension(
    launch: Launch, name: str, extent: int
) -> tuple[tuple[Expr, ...], tuple[Var, ...], Expr, dict[Var, Expr]]:
    """A grid with one more dimension, the slowest.

    Returns:
        Its extents, its variables, the index along the new dimension, and what stands for variables that are gone.
    """
    var = Var(name, INT32, index=True)
    if len(launch.grid) < _MAX_DIMENSIONS:
        return (*launch.grid, const(extent, INT32)), (*launch.block_vars, var), var, {}
    (*others, last), along = launch.block_vars, launch.grid[-1]
    grid = (*launch.grid[:-1], along * extent)
    return grid, (*others, var), var // along, {last: var % along}


def _launch(
    launch: Launch, block_vars: tuple[Var, ...], grid: tuple[Expr, ...], body: Sequence[Stmt], plan: LaunchPlan
) -> Launch:
    """A launch like another one, with the layouts of the tiles that it has."""
    held = {stmt.buffer for each in body for stmt in walk(each) if isinstance(stmt, Alloc)}
    layouts = tuple((buffer, layout) for buffer, layout in launch.hints.layouts if buffer in held)
    hints = dataclasses.replace(launch.hints, layouts=layouts)
    made = dataclasses.replace(launch, block_vars=block_vars, grid=grid, hints=hints, plan=plan)
    return dataclasses.replace(made, body=Seq(tuple(body), loc=launch.body.loc))


def _needed(stmts: Sequence[Stmt], used: Iterable[Buffer]) -> list[Stmt]:
    """The statements on which those that use some buffers depend."""
    storages = set(used)
    kept: list[Stmt] = []
    for stmt in reversed(stmts):
        touched = accesses(stmt)
        if isinstance(stmt, Alloc):
            if stmt.buffer.storage in storages:
                kept.append(stmt)
        elif isinstance(stmt, Bind) or any(access.buffer.storage in storages for access in touched.writes):
            kept.append(stmt)
            storages |= {access.buffer.storage for access in touched.all}
    return kept[::-1]


def _tile_of(sums: Buffer, at: Sequence[Expr], tile: Buffer) -> Region:
    """The place of a block's sums of a tile in the workspace."""
    one, zero = const(1, INT32), const(0, INT32)
    return Region(sums, (*at, zero, zero), (*(one for _ in at), *tile.shape))


def _sum(own: Buffer, sums: Buffer, at: Sequence[Expr], piece: Expr, loc: Loc) -> list[Stmt]:
    """The sums of all parts, in their order; the loads of some of them are on their way together."""
    stmts: list[Stmt] = []
    parts, first = int_const(sums.shape[0]) or 0, piece * own.shape[-1]
    for begin in range(0, parts, _TOGETHER):
        i, j = (Var(name, INT32, index=True) for name in ("i", "j"))
        terms: list[Expr] = [Load(own, (i, j), own.dtype)] if begin else []
        for part in range(begin, min(begin + _TOGETHER, parts)):
            terms.append(Load(sums, (const(part, INT32), *at, i, first + j), sums.dtype))
        value = terms[0]
        for term in terms[1:]:
            value = value + term
        stmts.append(ParallelLoop((i, j), own.shape, Store(own, (i, j), value, loc=loc), loc=loc))
    return stmts


def _with_own_names(launch: Launch) -> Launch:
    """The launch with block indices and tiles that no other launch has."""
    names = {var: Var(var.name, INT32, index=True) for var in launch.block_vars}
    held = [stmt.buffer for stmt in walk(launch.body) if isinstance(stmt, Alloc)]
    tiles = {buffer: dataclasses.replace(buffer) for buffer in held if buffer.view_of is None}
    layouts = tuple((tiles.get(buffer, buffer), layout) for buffer, layout in launch.hints.layouts)
    return dataclasses.replace(
        launch,
        block_vars=tuple(names.values()),
        hints=dataclasses.replace(launch.hints, layouts=layouts),
        body=substitute_stmt(launch.body, names, tiles),
    )


class _Launches(Rewriter):
    """Splits launches; numbers are those of the launches that come out."""

    def __init__(self, capabilities: TargetCapabilities, at_once: int) -> None:
        self._capabilities, self._context, self._at_once = capabilities, capabilities.context, at_once
        self._number = 0

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        overrides, machine = self._context.options.launch_schedule(self._number), self._context.target.machine
        self._number += 1
        if not overrides.specialized or not self._context.options.async_mma:
            return node
        all_tiles, last_wave = overrides.workspace_split, overrides.last_wave or 1
        try:
            if last_wave > 1:
                if (all_tiles or 1) > 1:
                    raise NotSplit("'tl.workspace_split' lets blocks share all tiles")
                made = self._by_waves(node, last_wave, overrides)
            elif (parts := all_tiles or (choose_workspace_splits(node, machine) if _is_free(overrides) else 1)) > 1:
                made = split(node, parts, required=all_tiles is not None)
            else:
                return node
        except NothingLeft as reason:
            note = Note(f"tl.last_wave: blocks do not share sums, since {reason}", node.loc)
            return dataclasses.replace(node, plan=dataclasses.replace(node.plan, notes=(*node.plan.notes, note)))
        except NotSplit as reason:
            if max(all_tiles or 1, last_wave) == 1 or not any(isinstance(stmt, Gemm) for stmt in walk(node.body)):
                return node
            if last_wave > 1:
                raise impossible(node, "last_wave", last_wave, str(reason), 1) from None
            fitting = nearest_fitting(parts, parts - 1, lambda count: _can_split(node, count))
            raise impossible(node, "workspace_split", parts, str(reason), fitting) from None
        self._number += sum(isinstance(stmt, Launch) for stmt in made) - 1
        return Seq(made, loc=node.loc)

    def _by_waves(self, launch: Launch, parts: int, overrides: ScheduleOverrides) -> tuple[Stmt, ...]:
        """The launch of the whole waves, and what `split` makes of that of the other tiles."""
        waves, left = split_waves(launch, self._at_once, self._capabilities, overrides)
        *sums, filling, adding = split(left, parts, required=True)
        note = Note(f"{waves.plan.tiles} tiles in whole waves, the others by the next launch", launch.loc)
        plan = dataclasses.replace(waves.plan, last_wave=parts, notes=(*waves.plan.notes, note))
        return (*sums, dataclasses.replace(waves, plan=plan), filling, adding)


def _can_split(launch: Launch, parts: int) -> bool:
    """Whether so many blocks can share each tile of a launch."""
    try:
        return parts == 1 or bool(split(launch, parts, required=True))
    except NotSplit:
        return False


def _is_free(overrides: ScheduleOverrides) -> bool:
    """Whether the user leaves open how blocks share tiles."""
    if overrides.split_k is not None or overrides.cluster is not None:
        return False
    return not overrides.persistent and not overrides.ping_pong


def split_reductions(func: PrimFunc, lowerings: Lowerings, context: PassContext, at_once: int) -> PrimFunc:
    """The function with launches whose blocks share reductions, on a machine that runs so many blocks at once."""
    if not context.target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
        return func
    launches = _Launches(target_capabilities(func, lowerings, context), at_once)
    body = launches.visit(func.body) or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


def workspace_split_k(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        return split_reductions(func, lowerings, context, context.target.machine.multiprocessors)

    return Pass(
        "workspace_split_k", run, Level.TILE, Level.TILE,
        requires=(Property.GRID_AS_WRITTEN, Property.TENSOR_LAYOUTS_APPLIED, Property.OPERATORS_UNEXPANDED),
    )  # fmt: skip
