"""`T.copy` from global memory to LDS by direct loads of 16 bytes a lane.

Takes a `Copy` of whole tiles, emits the loads of the executing wave without a commit. Invariant: the lanes of a wave
fill consecutive chunks of LDS; each loads the chunk of the tile that the tile's layout has there, so that permuted
source addresses swizzle the tile. All waves issue the same number of loads, since waits count loads.

A wave fills consecutive rows, so that several loads need one address in LDS, but where addresses of the source would be
no multiples of a step that is known: tiles of symbolic strides are filled in rounds of all threads then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tilelang.analysis.strides import distance
from tilelang.dtypes import BOOL, INT32
from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, const
from tilelang.ir.stmt import CallStmt, For, ForKind, Store
from tilelang.layout.constraints import Constraint
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import contiguous_elements
from tilelang.lowering.chunks import ChunkPlan, chunk_at, chunk_elements, chunks_refusal
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import axes, indices
from tilelang.ops.copy import Copy
from tilelang.targets.amd.isa.direct_to_lds import MAX_TOGETHER, direct_to_lds
from tilelang.targets.amd.machines import Feature

NAME = "copy.direct_to_lds"
BYTES = 16
_ZERO = const(0, INT32)


class DirectCopy:
    """Whole tiles, in rounds of one chunk a thread."""

    name = NAME

    def accepts(self, op: Copy, context: LoweringContext) -> ChunkPlan | Refusal:
        """The chunks, or a refusal."""
        refused = _refused(op, context)
        if refused:
            return Refusal(refused)
        elements = chunk_elements(op, (BYTES,))
        if not elements:
            return Refusal(f"chunks of {BYTES} bytes are not proven to be aligned and in one row")
        if math.prod(op.dst.static_extent or ()) % (elements * context.threads):
            return Refusal(f"{context.threads} threads do not load equally many chunks of {BYTES} bytes")
        return ChunkPlan(elements)

    def constrain(self, op: Copy, plan: ChunkPlan, context: LoweringContext) -> Iterable[Constraint]:
        """None: tiles whose layout a wave cannot fill are copied through registers."""
        return ()

    def lower(self, op: Copy, plan: ChunkPlan, context: LoweringContext, build: Builder) -> None:
        """Emits the executing thread's loads."""
        if context.thread is None:
            raise CompilerBug(f"{NAME}: there are no threads yet")
        layout = context.shared_layouts.get(op.dst.buffer)
        direct = layout is None or _is_filled_by_waves(layout, plan.elements)
        rounds = math.prod(op.dst.static_extent or ()) // (plan.elements * context.threads)
        lanes = context.target.machine.warp_size
        whole = context.threads % lanes == 0  # waves, which load alike
        together = _together(op, layout, plan.elements, rounds, lanes) if direct and whole else 1
        step, more = Var("i", INT32, index=True), Var("j", INT32, index=True)
        with build.block() as body:
            if together > 1:
                row, column = _place_of_wave(op, context.thread, more * together + step, rounds, lanes, plan.elements)
            else:
                row, column = _place(op, context.thread, step, context.threads, plan.elements)
            if direct:
                _load(op, plan.elements, _coordinates(op, layout, row, column), build)
            else:
                _through_registers(op, plan.elements, [row, column], build)
        inner = together if together > 1 else rounds
        loads = For(step, _ZERO, const(inner, INT32), 1, ForKind.UNROLLED, as_body(body, build.loc))
        build.emit(For(more, _ZERO, const(rounds // inner, INT32), 1, ForKind.UNROLLED, loads))


def _refused(op: Copy, context: LoweringContext) -> str:
    """Why direct loads cannot do the copy, whatever its alignment; empty if they may."""
    if not context.target.has(Feature.DIRECT_TO_LDS_WIDE):
        return f"{context.target.arch} has no direct loads of {BYTES} bytes to LDS"
    refused = chunks_refusal(op, context)
    if refused:
        return refused
    if op.src.static_extent is None or op.dst.static_extent is None or not math.prod(op.dst.static_extent):
        return "the extents are not constant, or there is nothing to copy"
    if op.dst.static_extent[-2:] != (op.dst.buffer.static_shape or ())[-2:] or len(axes(op.dst)) != 2:
        return "fills whole tiles of two dimensions only"
    return ""


def _is_filled_by_waves(layout: Layout, elements: int) -> bool:
    """Whether a layout permutes chunks of a tile and is its own inverse, as swizzles are."""
    if len(layout.shape) != 2 or layout.output_shape != layout.shape or contiguous_elements(layout) < elements:
        return False
    table = layout.table
    return bool(np.array_equal(table[tuple(np.moveaxis(table, -1, 0))], np.moveaxis(np.indices(layout.shape), 0, -1)))


def _place(op: Copy, thread: Expr, step: Expr, threads: int, elements: int) -> tuple[Expr, Expr]:
    """Row and column of the first element of the chunk of LDS that a thread fills in a round."""
    across = (op.dst.static_extent or (0,))[-1] // elements
    if threads % across == 0:  # whole rows in each round, so that addresses differ by constants
        return thread // across + step * (threads // across), thread % across * elements
    chunk = thread + step * threads
    return chunk // across, chunk % across * elements


def _together(op: Copy, layout: Layout | None, elements: int, rounds: int, lanes: int) -> int:
    """How many loads of a wave fill consecutive rows from one address in LDS on."""
    rows, columns = (op.dst.static_extent or (0, 0))[-2:]
    height, rest = divmod(lanes, columns // elements)  # the rows of a load
    count = max(count for count in range(1, MAX_TOGETHER + 1) if rounds % count == 0)
    strides = [distance(op.src.buffer, _unit(axis, op.src.buffer.rank)) for axis in axes(op.src)]
    if rest or layout is None or None not in strides:
        return 1 if rest else count
    permuted = layout.table[..., 1].reshape(rows // (height * count), count, height, columns)
    return count if (permuted == permuted[:, :1]).all() else 1


def _unit(axis: int, rank: int) -> tuple[int, ...]:
    """A step along one axis."""
    return tuple(int(axis == other) for other in range(rank))


def _place_of_wave(
    op: Copy, thread: Expr, step: Expr, rounds: int, lanes: int, elements: int
) -> tuple[Expr, Expr]:
    """As `_place`, if waves fill consecutive rows."""
    across = (op.dst.static_extent or (0,))[-1] // elements
    lane, height = thread % lanes, lanes // across
    return (thread // lanes * rounds + step) * height + lane // across, lane % across * elements


def _coordinates(op: Copy, layout: Layout | None, row: Expr, column: Expr) -> list[Expr]:
    """The element of the tile that lies at a place in LDS; swizzles are their own inverses."""
    return [row, column] if layout is None else [as_expr(at) for at in layout(row, column)]


def _load(op: Copy, elements: int, at: list[Expr], build: Builder) -> None:
    source, target = (chunk_at(region, indices(region, at), elements) for region in (op.src, op.dst))
    build.emit(CallStmt(direct_to_lds(BYTES), (target, source, Const(True, BOOL)), (source,), (target,)))


def _through_registers(op: Copy, elements: int, at: list[Expr], build: Builder) -> None:
    lane = Var("lane", INT32, index=True)
    src, dst = (indices(region, [at[0], at[1] + lane]) for region in (op.src, op.dst))
    store = Store(op.dst.buffer, dst, Load(op.src.buffer, src, op.src.dtype))
    build.emit(For(lane, _ZERO, const(elements, INT32), 1, ForKind.VECTORIZED, store))
