"""Divides the depth of tiles that pass registers, where these leave no room for the operands of a gemm.

    for k in 64:   A_s = A[:, 64 * k : 64 * k + 64];  B_s = B[64 * k : 64 * k + 64, :];  C += A_s @ B_s
 => for k in 128:  A_s = A[:, 32 * k : 32 * k + 32];  B_s = B[32 * k : 32 * k + 32, :];  C += A_s @ B_s

Takes a tile-level function whose operators have their lowerings. While a tile is multiplied, the next one is in
registers, beside the sums and the operands of a step; half of a tile takes half of these registers, and half of LDS, so
that a SIMD unit holds more waves, which have as many bytes in flight together. Invariant: a loop that changes consists
of the copies of two tiles and the gemm of these, which nothing else uses; sums are added up in the same order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from tilelang.analysis.accesses import accesses
from tilelang.analysis.fixed_layouts import fixed_layouts, viewed_tiles
from tilelang.arith.simplify import simplify
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, If, Launch, PipelineSpec, Seq, Stmt
from tilelang.ir.visit import Rewriter, substitute, substitute_stmt, walk
from tilelang.lowering.lowering import LoweringContext, Lowerings, Refusal
from tilelang.lowering.regions import axes, is_whole, slice_along, whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.async_copies import is_asynchronous
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.split_copies import prefetchable
from tilelang.targets.amd.lowerings import gemm_mfma
from tilelang.targets.amd.machines import Feature
from tilelang.targets.amd.transposed_stores import block_layout
from tilelang.targets.gpu.lowerings.gemm_mma import MmaPlan

_LEAST_BYTES = 64  # along K: what memory transfers at least
_LEAST_STEPS = 2  # of matrix instructions, so that one can be loaded while another is multiplied


def divide_depth(lowerings: Lowerings) -> Pass:
    """The pass for the target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        def divided(launch: Launch) -> Launch:
            if any(isinstance(stmt, If) and stmt.group is not None for stmt in walk(launch.body)):
                return launch
            divide = _Divide(launch, lowerings, LoweringContext(context.target, context.options, launch.num_threads))
            body = divide.visit(launch.body) or launch.body
            if not divide.tiles:
                return launch
            plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *divide.notes))
            return dataclasses.replace(launch, body=_Allocate(divide.tiles).visit(body) or body, plan=plan)

        return with_launches(func, divided)

    return Pass(
        "divide_depth", run, Level.TILE, Level.TILE,
        requires=(Property.LOWERINGS_CHOSEN, Property.OPERATORS_UNEXPANDED),
    )  # fmt: skip


class _Divide(Rewriter):
    """Rewrites the loops of one launch.

    Attributes:
        tiles: What tiles have become.
        notes: On the loops that changed.
    """

    def __init__(self, launch: Launch, lowerings: Lowerings, context: LoweringContext) -> None:
        self._lowerings, self._context = lowerings, context
        self._kept = {*fixed_layouts(launch), *viewed_tiles(launch)}
        self._uses: dict[Buffer, set[Stmt]] = {}
        for access in accesses(launch.body).all:
            self._uses.setdefault(access.buffer.storage, set()).add(access.stmt)
        self.tiles: dict[Buffer, Buffer] = {}
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.kind is not ForKind.PIPELINED:
            return self.rebuild_stmt(node)
        copies, gemm = self._copies_and_gemm(node)
        parts = 1 if gemm is None else self._parts(gemm)
        return node if gemm is None or parts == 1 else self._divided(node, copies, gemm, parts) or node

    def _copies_and_gemm(self, loop: For) -> tuple[list[Copy], Gemm | None]:
        """The statements of a loop, if they are the copies of two tiles and the gemm of these."""
        spec, body = loop.pipeline or PipelineSpec(), LoopBody(loop)
        *copies, gemm = body.statements or [loop]
        placed = spec.order is not None or spec.stage is not None
        if spec.num_stages < 2 or placed or int_const(loop.start) != 0 or loop.step != 1:
            return [], None
        if not isinstance(gemm, Gemm) or not isinstance(gemm.plan, MmaPlan) or gemm.clear_accum is not None:
            return [], None
        found = [copy for copy in prefetchable(body) if isinstance(copy, Copy) and self._is_divisible(copy, gemm)]
        filled = {copy.dst.buffer for copy in found}
        return (found, gemm) if found == copies and filled == {gemm.a.buffer, gemm.b.buffer} else ([], None)

    def _is_divisible(self, copy: Copy, gemm: Gemm) -> bool:
        """Whether a copy fills a matrix, through registers, that a gemm alone reads as a whole."""
        tile = copy.dst.buffer
        is_matrix = tile.rank == len(axes(copy.dst)) == len(axes(copy.src)) == 2 and is_whole(copy.dst)
        read = [region for region in (gemm.a, gemm.b) if region.buffer is tile]
        alone = self._uses[tile.storage] == {copy, gemm} and tile not in self._kept
        return is_matrix and alone and not is_asynchronous(copy) and len(read) == 1 and is_whole(read[0])

    def _parts(self, gemm: Gemm) -> int:
        """The number of parts of a tile, a power of two: as many as make room for a step, if sums leave some."""
        plan = gemm.plan
        assert isinstance(plan, MmaPlan)
        atom, warps = plan.atom, plan.warps
        m, n, depth = (int_const(size) or 0 for size in gemm.sizes)
        size = gemm.a.dtype.storage_bytes
        sums = warps.row_atoms * warps.column_atoms * atom.c.values * atom.c_dtype.storage_bytes
        operands = (warps.row_atoms * atom.a.values + warps.column_atoms * atom.b.values) * size
        room = 4 * gemm_mfma.LOWERING.max_registers(self._context) - sums - operands
        parts = 1
        least = max(_LEAST_BYTES // size, _LEAST_STEPS * atom.shape[2])
        while room >= 0 and (m + n) * depth * size > room * parts * self._context.threads:
            if depth % (2 * parts) or depth // (2 * parts) < least or self._loses_blocks(gemm, depth // (2 * parts)):
                break
            parts *= 2
        return parts

    def _loses_blocks(self, gemm: Gemm, depth: int) -> bool:
        """Whether threads could store whole tiles transposed, but no parts: each wave would permute its operands."""
        if self._context.target.has(Feature.TRANSPOSED_READ):
            return False
        for region, along in zip((gemm.a, gemm.b), gemm.axes_along_k, strict=True):
            rows, columns = (int_const(size) or 0 for size in region.buffer.shape)
            whole_blocks, blocks = (
                block_layout((height, columns), region.dtype.storage_bytes, self._context.threads)
                for height in (rows, depth)
            )
            if along == 0 and whole_blocks is not None and blocks is None:
                return True
        return False

    def _divided(self, loop: For, copies: Iterable[Copy], gemm: Gemm, parts: int) -> For | None:
        """The loop with so many times the iterations; None if other instructions would multiply parts."""
        along = dict(zip((gemm.a.buffer, gemm.b.buffer), gemm.axes_along_k, strict=True))
        depth = (int_const(gemm.sizes[2]) or 0) // parts
        tiles = {}
        for tile, axis in along.items():
            shape = tuple(const(depth, size.dtype) if n == axis else size for n, size in enumerate(tile.shape))
            tiles[tile] = dataclasses.replace(tile, shape=shape)
        a, b = (whole(tiles[region.buffer]) for region in (gemm.a, gemm.b))
        multiplied = self._planned(dataclasses.replace(gemm, a=a, b=b))
        if multiplied is None or multiplied.plan != gemm.plan:
            return None
        self.tiles |= tiles
        var = Var(loop.var.name, loop.var.dtype, index=loop.var.index)
        before, first = {loop.var: var // parts}, var % parts * depth

        def part(copy: Copy) -> Copy:
            source, axis = copy.src, axes(copy.src)[along[copy.dst.buffer]]
            start = tuple(substitute(index, before) for index in source.start)
            moved = slice_along(dataclasses.replace(source, start=start), axis, first, depth)
            short = tuple(simplify(index) for index in moved.start)
            filled = whole(tiles[copy.dst.buffer])
            return dataclasses.replace(copy, src=dataclasses.replace(moved, start=short), dst=filled)

        made: dict[Stmt, Stmt] = {gemm: multiplied}
        made |= {copy: part(copy) for copy in copies}
        body = _Replace(made, before).visit(loop.body) or loop.body
        text = f"tiles are loaded in {parts} parts of {depth} along K, which leave registers for operands"
        self.notes.append(Note(f"T.Pipelined: {text}", loop.loc))
        return dataclasses.replace(loop, var=var, stop=simplify(loop.stop * parts), body=body)

    def _planned(self, op: Gemm) -> Gemm | None:
        """A gemm with its plan."""
        row = next(row for row in self._lowerings[Gemm] if row.name == op.choice)
        plan = row.accepts(op, self._context)
        return None if isinstance(plan, Refusal) else dataclasses.replace(op, plan=plan)


class _Replace(Rewriter):
    """Puts in statements, and expressions for variables in others."""

    def __init__(self, made: Mapping[Stmt, Stmt], values: Mapping[Var, Expr]) -> None:
        self._made, self._values = made, values

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return self.rebuild_stmt(node)
        return self._made.get(node) or substitute_stmt(node, self._values)


class _Allocate(Rewriter):
    """Allocates parts instead of tiles."""

    def __init__(self, tiles: Mapping[Buffer, Buffer]) -> None:
        self._tiles = tiles

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc) and node.buffer in self._tiles:
            return dataclasses.replace(node, buffer=self._tiles[node.buffer])
        return self.rebuild_stmt(node)
