"""Stores tiles that gemms read across their rows to LDS transposed, on their way from registers.

Takes a tile-level function with its copies divided in loads to registers and stores from them; gives one in which such
tiles have K contiguous. Matrix instructions need neighbors along K in a register: otherwise every wave that reads the
tile permutes its elements, where the threads that store it do so once; and reads are as wide as can be, two steps of K
each. Invariant: all that uses such a tile are stores of whole tiles from fragments, which only loads from global memory
fill, or zeros, and gemms by matrix instructions. Machines that read LDS transposed need none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.analysis.accesses import accesses
from tilelang.analysis.fixed_layouts import fixed_layouts, viewed_tiles
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.layout.thread_values import Fragment
from tilelang.lowering import by_loop
from tilelang.lowering.chunks import chunk_elements
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Lowerings
from tilelang.lowering.regions import is_whole
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.amd.machines import Feature
from tilelang.targets.amd.transposed_stores import block_layout
from tilelang.targets.gpu.lowerings.gemm_mma import MmaPlan, RegisterGemm

_MATRIX = RegisterGemm.name
_CHUNKS = (MAX_VECTOR_BYTES,)


@record
class _Tile:
    """A tile that is stored transposed.

    Attributes:
        buffer: What it becomes.
        blocks: The elements that each thread loads.
    """

    buffer: Buffer
    blocks: Fragment


def transpose_operands(lowerings: Lowerings) -> Pass:
    """The pass for the target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        if context.target.has(Feature.TRANSPOSED_READ):
            return func

        def transposed(launch: Launch) -> Launch:
            tiles = _tiles(launch)
            if not tiles:
                return launch
            made = _Transpose(tiles, lowerings, LoweringContext(context.target, context.options, launch.num_threads))
            return dataclasses.replace(launch, body=made.visit(launch.body) or Seq((), loc=launch.loc))

        return with_launches(func, transposed)

    return Pass(
        "transpose_operands", run, Level.TILE, Level.TILE,
        requires=(Property.LOWERINGS_CHOSEN, Property.NO_PIPELINED_LOOPS, Property.OPERATORS_UNEXPANDED),
    )


def _tiles(launch: Launch) -> dict[Buffer, _Tile]:
    """The tiles to be stored transposed, by what they were, and the fragments from which they are."""
    if any(isinstance(stmt, If) and stmt.group is not None for stmt in walk(launch.body)):
        return {}
    uses: dict[Buffer, list[Stmt]] = {}
    for access in accesses(launch.body).all:
        uses.setdefault(access.buffer.storage, []).append(access.stmt)
    kept = {*fixed_layouts(launch), *viewed_tiles(launch)}
    found: dict[Buffer, _Tile] = {}
    for alloc in walk(launch.body):
        if not isinstance(alloc, Alloc) or alloc.buffer in kept or alloc.buffer.view_of is not None:
            continue
        tile = _tile(alloc.buffer, uses, launch.num_threads)
        if tile is not None:
            found[alloc.buffer] = tile
            for stmt in uses[alloc.buffer]:
                if isinstance(stmt, Copy):
                    found[stmt.src.buffer] = tile
    return found


def _tile(buffer: Buffer, uses: Mapping[Buffer, list[Stmt]], threads: int) -> _Tile | None:
    """What a shared tile becomes; None if it stays."""
    shape = buffer.static_shape
    if buffer.scope is not Scope.SHARED or buffer.strides is not None or shape is None or len(shape) < 2:
        return None
    height, width = shape[-2:]
    blocks = block_layout((height, width), buffer.dtype.storage_bytes, threads)
    read = False
    for stmt in uses.get(buffer, ()):
        if isinstance(stmt, Gemm):
            across = [stmt.transpose_a] * (stmt.a.buffer is buffer) + [not stmt.transpose_b] * (stmt.b.buffer is buffer)
            if not across or not all(across) or stmt.c.buffer is buffer or stmt.choice != _MATRIX:
                return None
            if not all(_is_matrix(region) for region in (stmt.a, stmt.b) if region.buffer is buffer):
                return None
            read = True
        elif not isinstance(stmt, Copy) or not _is_stored(stmt, buffer, uses):
            return None
    if blocks is None or not read:
        return None
    return _Tile(dataclasses.replace(buffer, shape=_swapped(buffer.shape)), blocks)


def _is_matrix(region: Region) -> bool:
    """Whether a region is all of one version of a tile."""
    return region.static_extent is not None and region.static_extent[-2:] == (region.buffer.static_shape or ())[-2:]


def _is_stored(store: Copy, buffer: Buffer, uses: Mapping[Buffer, list[Stmt]]) -> bool:
    """Whether a copy stores a whole tile from a fragment, which loads of whole chunks from global memory fill."""
    held = store.src.buffer
    if store.dst.buffer is not buffer or held.scope is not Scope.FRAGMENT or held.dtype != buffer.dtype:
        return False
    if not is_whole(store.src) or not _is_matrix(store.dst) or held.static_shape != (buffer.static_shape or ())[-2:]:
        return False
    for stmt in uses.get(held, ()):
        if isinstance(stmt, Fill):
            continue
        if not isinstance(stmt, Copy):
            return False
        if stmt.dst.buffer is held:
            load = dataclasses.replace(stmt, dst=store.dst)
            if stmt.src.buffer.scope is not Scope.GLOBAL or not is_whole(stmt.dst) or not chunk_elements(load, _CHUNKS):
                return False
        elif stmt.dst.buffer is not buffer:
            return False
    return True


def _swapped(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (*extents[:-2], extents[-1], extents[-2])


class _Transpose(Rewriter):
    """Rewrites what uses the tiles."""

    def __init__(self, tiles: Mapping[Buffer, _Tile], lowerings: Lowerings, context: LoweringContext) -> None:
        self._tiles, self._lowerings, self._context = tiles, lowerings, context

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Alloc(buffer=buffer) if buffer in self._tiles and buffer.scope is Scope.SHARED:
                return dataclasses.replace(node, buffer=self._tiles[buffer].buffer)
            case Copy(dst=dst) if dst.buffer in self._tiles and dst.buffer.scope is Scope.FRAGMENT:
                return dataclasses.replace(node, layout=self._tiles[dst.buffer].blocks)
            case Copy(dst=dst) if dst.buffer in self._tiles:
                target = self._region(dst)
                return Transpose(node.src, target, choice=by_loop.TRANSPOSE.name, plan=ACCEPTED, loc=node.loc)
            case Gemm(a=a, b=b) if a.buffer in self._tiles or b.buffer in self._tiles:
                return self._gemm(node)
        return self.rebuild_stmt(node)

    def _region(self, region: Region) -> Region:
        if region.buffer not in self._tiles:
            return region
        return Region(self._tiles[region.buffer].buffer, _swapped(region.start), _swapped(region.extent))

    def _gemm(self, op: Gemm) -> Gemm:
        """The gemm of transposed operands, with its plan."""
        a, b = self._region(op.a), self._region(op.b)
        made = dataclasses.replace(
            op,
            a=a,
            b=b,
            transpose_a=op.transpose_a and a is op.a,
            transpose_b=op.transpose_b or b is not op.b,
        )
        row = next(row for row in self._lowerings[Gemm] if row.name == op.choice)
        plan = row.accepts(made, self._context)
        assert isinstance(plan, MmaPlan)
        stored = frozenset(new.buffer for new, old in ((a, op.a), (b, op.b)) if new is not old)
        return dataclasses.replace(made, plan=dataclasses.replace(plan, by_columns=stored))
