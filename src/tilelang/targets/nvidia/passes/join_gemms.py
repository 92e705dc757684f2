"""Joins gemms of a pipelined loop that multiply the same tile: one has the columns of all of them.

Takes a tile-level function before schedules are chosen. Gemms that follow each other with the same A, as in a gated
MLP, become one, whose B is filled by the loads of all their tiles, side by side, and so is its accumulator:

    T.copy(W_gate[...], gate_s)                     T.copy(W_gate[...], B_s[:, :N])
    T.copy(W_up[...], up_s)                         T.copy(W_up[...], B_s[:, N:])
    T.gemm(X_s, gate_s, gate)                =>     T.gemm(X_s, B_s, C)
    T.gemm(X_s, up_s, up)                           ... C[i, j], C[i, N + j]
    ... gate[i, j], up[i, j]

Its instructions read A from shared memory once for all columns, and the loop waits once for all tiles. Invariant: the
same values. Only accumulators that are cleared together and read element by element, or copied, become one, and only
where wgmma then has wider instructions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tilelang.analysis.accesses import Accesses, accesses
from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Const, Expr, Load, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Atomic, For, Launch, ParallelLoop, Stmt, Store
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.boxes import boxed, fits
from tilelang.layout.layout import Layout
from tilelang.layout.xor_swizzle import MODES
from tilelang.lowering.lowering import Lowerings
from tilelang.lowering.regions import is_whole, whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.schedule.load_groups import flatten_sequences, pipelined_loops
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.choose_split_k import choose_cluster_splits
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import (
    TargetCapabilities,
    launch_overrides,
    target_capabilities,
)
from tilelang.targets.nvidia.passes.warp_specialization.consumer_count import choose_consumers, consumers_refusal
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_MATRIX = 2  # dimensions of a tile


def join_gemms(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
            return func
        capabilities = target_capabilities(func, lowerings, context)
        overrides = launch_overrides(func, context)

        def joined(launch: Launch) -> Launch:
            own = overrides[launch]
            return _with_joined_gemms(launch, capabilities, own.consumers) if own.specialized else launch

        return with_launches(func, joined)

    return Pass(
        "join_gemms", run, Level.TILE, Level.TILE,
        requires=(
            Property.GRID_AS_WRITTEN,
            Property.TENSOR_LAYOUTS_APPLIED,
            Property.OPERATORS_UNEXPANDED,
            Property.TILE_DTYPES_NARROWED,
        ),
    )


def _with_joined_gemms(launch: Launch, capabilities: TargetCapabilities, consumers: int | None) -> Launch:
    """The launch with its gemms joined where that gives wider instructions."""
    flat = flatten_sequences(launch)
    for loop in pipelined_loops(flat.body):
        if loop.pipeline is not None and (loop.pipeline.order or loop.pipeline.stage):
            continue  # these count the statements
        for gemms in _with_same_operand(statements_of(loop.body)):
            join = _join(flat, loop, gemms)
            changed = None if join is None else join.of(flat)
            if join is not None and changed is not None and _is_wider(changed, join, capabilities, consumers):
                return _with_joined_gemms(changed, capabilities, consumers)
    return launch


def _with_same_operand(body: Sequence[Stmt]) -> Iterator[tuple[Gemm, ...]]:
    """The longest runs of several gemms that multiply the same A in the same way."""
    run: tuple[Gemm, ...] = ()
    for stmt in (*body, None):
        if isinstance(stmt, Gemm) and run and _continues(run[-1], stmt):
            run = (*run, stmt)
            continue
        if len(run) > 1:
            yield run
        run = (stmt,) if isinstance(stmt, Gemm) and _is_plain(stmt) else ()


def _is_plain(gemm: Gemm) -> bool:
    """Whether nothing but its operands and its accumulator matters to a gemm."""
    return gemm.request is None and not (gemm.wait or gemm.transpose_c or gemm.first or gemm.last)


def _continues(first: Gemm, second: Gemm) -> bool:
    """Whether two gemms differ in B and C alone."""
    ways = [(g.transpose_a, g.transpose_b, g.policy, g.operands, g.c.dtype, g.a.buffer) for g in (first, second)]
    if not _is_plain(second) or ways[0] != ways[1]:
        return False
    one, other = first.clear_accum, second.clear_accum
    same_clear = one is other if one is None or other is None else same_expr(one, other)
    return same_clear and all(map(same_expr, (*first.a.start, *first.a.extent), (*second.a.start, *second.a.extent)))


@record(slots=True, eq=False)
class _Join:
    """Gemms that are to be one.

    Attributes:
        gemms: In program order.
        tile: B of the joined gemm.
        sums: Its accumulator.
        layout: The layout of `tile`, whose boxes are whole in each part; None where that is so in any case.
        fills: What initializes the accumulators; the first initializes all of them.
        placed: For each B and each accumulator: what it becomes a part of, along which dimension, and from where on.
    """

    gemms: tuple[Gemm, ...]
    tile: Buffer
    sums: Buffer
    layout: Layout | None
    fills: tuple[Fill, ...]
    placed: Mapping[Buffer, tuple[Buffer, int, int]]

    @property
    def gemm(self) -> Gemm:
        """The joined gemm."""
        return dataclasses.replace(self.gemms[0], b=whole(self.tile), c=whole(self.sums))

    def of(self, launch: Launch) -> Launch:
        """The launch with the joined gemm."""
        lines = ", ".join(str(gemm.loc.line) for gemm in self.gemms)
        text = f"the gemms of lines {lines}, which multiply the same tile, are one of {self.sums.shape[-1]} columns"
        plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, Note(text, self.gemms[0].loc)))
        layouts = launch.hints.layouts if self.layout is None else (*launch.hints.layouts, (self.tile, self.layout))
        hints = dataclasses.replace(launch.hints, layouts=layouts)
        body = _Joined(self).visit(launch.body) or launch.body
        return flatten_sequences(dataclasses.replace(launch, body=body, hints=hints, plan=plan))


class _Joined(Rewriter):
    def __init__(self, join: _Join) -> None:
        self._join, self._placed = join, join.placed
        self._allocated: set[Buffer] = set()

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._placed:
            return Load(self._placed[node.buffer][0], self._at(node.buffer, self.exprs(node.indices)), node.dtype)
        return self.rebuild_expr(node)

    def region(self, node: Region) -> Region:
        inner = Rewriter.region(self, node)
        if node.buffer not in self._placed:
            return inner
        return Region(self._placed[node.buffer][0], self._at(node.buffer, inner.start), inner.extent)

    def stmt(self, node: Stmt) -> Stmt | None:
        join = self._join
        if node in join.gemms:
            return join.gemm if node is join.gemms[0] else None
        if node in join.fills:
            return dataclasses.replace(node, dst=whole(join.sums)) if node is join.fills[0] else None
        if isinstance(node, Alloc) and node.buffer in self._placed:
            buffer = self._placed[node.buffer][0]
            if buffer in self._allocated:
                return None
            self._allocated.add(buffer)
            return dataclasses.replace(node, buffer=buffer)
        new = self.rebuild_stmt(node)
        if isinstance(node, Store | Atomic) and node.buffer in self._placed:
            assert isinstance(new, Store | Atomic)
            indices = self._at(node.buffer, new.indices)
            return dataclasses.replace(new, buffer=self._placed[node.buffer][0], indices=indices)
        return new

    def _at(self, part: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Indices of a part as those of the whole."""
        _, axis, first = self._placed[part]
        return tuple(index + first if number == axis and first else index for number, index in enumerate(indices))


# -- whether gemms can be joined -----------------------------------------------------------------------------------
def _join(launch: Launch, loop: For, gemms: tuple[Gemm, ...]) -> _Join | None:
    """The join of gemms of a loop; None if their tiles are used in other ways."""
    tiles, sums = [gemm.b.buffer for gemm in gemms], [gemm.c.buffer for gemm in gemms]
    regions = [region for gemm in gemms for region in (gemm.b, gemm.c)]
    top = [stmt.buffer for stmt in statements_of(launch.body) if isinstance(stmt, Alloc)]
    views = {stmt.buffer.view_of for stmt in walk(launch.body) if isinstance(stmt, Alloc)}
    annotated = {buffer for buffer, _ in (*launch.hints.layouts, *launch.hints.safe_values)}
    if len({*tiles, *sums}) < len(regions) or any(r.buffer in views | annotated for r in regions):
        return None
    if not all(r.buffer in top and is_whole(r) and _is_matrix(r.buffer) for r in regions):
        return None
    found = accesses(launch.body)
    fills = _fills(launch, sums, found)
    if fills is None or not all(_is_loaded(gemm, loop, found) for gemm in gemms):
        return None
    if not all(_is_read_elementwise(gemm, loop, fills, found) for gemm in gemms):
        return None
    widths = [int_const(gemm.sizes[1]) or 0 for gemm in gemms]
    firsts = [sum(widths[:number]) for number in range(len(widths))]
    along = 0 if gemms[0].transpose_b else 1
    tile, accumulator = _side_by_side(tiles, along), _side_by_side(sums, 1)
    modes = [mode for mode in MODES if all(_fits(each, mode) for each in (tile, *tiles))]
    if not modes:
        return None
    is_widest = modes[0] == next(mode for mode in MODES if _fits(tile, mode))
    layout = None if is_widest else boxed(tile.static_shape or (), tile.dtype.bits, modes[0])
    placed = {part: (tile, along, first) for part, first in zip(tiles, firsts, strict=True)}
    placed |= {part: (accumulator, 1, first) for part, first in zip(sums, firsts, strict=True)}
    return _Join(gemms, tile, accumulator, layout, fills, placed)


def _is_matrix(buffer: Buffer) -> bool:
    return buffer.rank == _MATRIX and buffer.static_shape is not None and buffer.strides is None


def _fits(tile: Buffer, mode: int) -> bool:
    return fits(tile.static_shape or (), tile.dtype.bits, mode)


def _side_by_side(parts: Sequence[Buffer], axis: int) -> Buffer:
    """A buffer for several, one behind the other along a dimension."""
    first = parts[0]
    shape = [*first.shape]
    shape[axis] = const(sum(int_const(part.shape[axis]) or 0 for part in parts), INT32)
    return Buffer("_".join(part.name for part in parts), tuple(shape), first.dtype, first.scope, loc=first.loc)


def _fills(launch: Launch, sums: Sequence[Buffer], found: Accesses) -> tuple[Fill, ...] | None:
    """What initializes accumulators, all to the same value one after the other; None if it is not like that."""
    fills = [s for s in statements_of(launch.body) if isinstance(s, Fill) and s.dst.buffer in sums]
    others = [a for a in found.all if isinstance(a.stmt, Fill) and a.buffer in sums and a.stmt not in fills]
    if not fills and not others:
        return ()
    body = statements_of(launch.body)
    values = [fill.value for fill in fills]
    together = len(fills) == len(sums) == body.index(fills[-1]) - body.index(fills[0]) + 1
    constant = isinstance(values[0], Const) and all(same_expr(values[0], value) for value in values)
    distinct = {fill.dst.buffer for fill in fills} == {*sums} and all(is_whole(fill.dst) for fill in fills)
    return tuple(fills) if together and constant and distinct and not others else None


def _is_loaded(gemm: Gemm, loop: For, found: Accesses) -> bool:
    """Whether B is loaded as a whole by one copy of the loop before the gemms, and nothing else uses it."""
    body, tile = statements_of(loop.body), gemm.b.buffer
    touching = {access.stmt for access in found.all if access.buffer.storage is tile} - {gemm}
    (load, *others) = touching or {gemm}
    if others or not isinstance(load, Copy) or load not in body or tile.scope is not Scope.SHARED:
        return False
    first = next(number for number, stmt in enumerate(body) if isinstance(stmt, Gemm))
    return is_whole(load.dst) and load.src.buffer.scope is Scope.GLOBAL and body.index(load) < first


def _is_read_elementwise(gemm: Gemm, loop: For, fills: Sequence[Fill], found: Accesses) -> bool:
    """Whether parallel loops and copies behind the loop are all that uses an accumulator, beside what clears it."""
    tile, inside = gemm.c.buffer, set(walk(loop))
    for access in found.all:
        if access.buffer.storage is not tile or access.stmt is gemm or access.stmt in fills:
            continue
        copied = isinstance(access.stmt, Copy) and access.stmt.src.buffer is tile and is_whole(access.stmt.src)
        elementwise = any(isinstance(step, ParallelLoop) for step in access.context.loops())
        if access.stmt in inside or not (copied or elementwise):
            return False
    return tile.scope is Scope.FRAGMENT


# -- whether that gives wider instructions ---------------------------------------------------------------------------
def _is_wider(launch: Launch, join: _Join, capabilities: TargetCapabilities, asked: int | None) -> bool:
    """Whether a producer loads the joined tile, and instructions of each warpgroup have more columns than a part."""
    if join.layout is not None:
        layouts = {**capabilities.layouts, join.tile: join.layout}
        capabilities = dataclasses.replace(capabilities, layouts=layouts)
    groups = capabilities.load_groups(launch)
    gemm = next(s for s in walk(launch.body) if isinstance(s, Gemm) and s.c.buffer is join.sums)
    count = asked or choose_consumers(launch, [gemm], capabilities, None, 1)
    if isinstance(count, str) or not any(join.tile in group.tiles for group in groups.found):
        return False
    if consumers_refusal(launch, count, [gemm], capabilities, required=True):
        return False
    planned = capabilities.with_plans(launch, [gemm], count * WARPGROUP_THREADS)
    plan = next(s.plan for s in walk(planned.body) if isinstance(s, Gemm) and s.c.buffer is join.sums)
    assert isinstance(plan, WgmmaPlan)
    widest = max(int_const(each.sizes[1]) or 0 for each in join.gemms)
    # of a reduction that is split, each block needs columns of all accumulators
    whole_tiles = choose_cluster_splits(launch, count, capabilities.context.target.machine) == 1
    return plan.groups.columns == 1 and plan.atom.n > widest and whole_tiles
