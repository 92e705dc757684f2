"""Stores of whole tiles from shared memory by TMA, the copy engine.

Takes asynchronous copies of tiles, emits the instructions. Each warpgroup issues a part of them where it can, the one
that its own warps wrote: 64 rows of a tile, as wgmma gives them, or some columns where there are too few rows. A store
belongs to a bulk group that the program waits for; layouts and refusals are as of loads, see `copy_tma`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import CallStmt
from tilelang.isa.instruction import Instruction
from tilelang.layout.boxes import PERIOD_ROWS
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import axes, slice_along
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_store
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.lowerings.copy_tma import (
    TmaPlan,
    by_one_thread,
    extent_refusal,
    in_boxes,
    tma_boxes,
    tma_refusal,
    widest_swizzle,
)
from tilelang.targets.nvidia.lowerings.elect_one import ElectOne
from tilelang.targets.nvidia.requests import COPY_TMA_STORE
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


class TmaStore(ElectOne):
    """Stores boxes of shared memory to a tensor; the program waits for its completion."""

    name = COPY_TMA_STORE

    def accepts(self, op: Copy, context: LoweringContext) -> TmaPlan | Refusal:
        """The layout of the tile, or a refusal."""
        refused = _store_refusal(op) or tma_refusal(op, op.dst, op.src, context) or extent_refusal(op.dst)
        return Refusal(refused) if refused else TmaPlan(widest_swizzle(op.src))

    def constrain(self, op: Copy, plan: TmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The shared tile lies in boxes."""
        return in_boxes(op, op.src, plan)

    def lower(self, op: Copy, plan: TmaPlan, context: LoweringContext, build: Builder) -> None:
        """One thread, or one of each warpgroup, stores the boxes."""
        store_boxes(op, tma_store, context, build)


def store_boxes(op: Copy, store: Callable[[int], Instruction], context: LoweringContext, build: Builder) -> None:
    """Stores a tile by `store`: by one thread, or by one of each warpgroup.

    Args:
        op: The copy from shared memory.
        store: The instruction for a number of dimensions, which stores a box or reduces it into the tensor.
        context: The context of the lowering.
        build: Receives the code.
    """
    tensor, tile, each = op.dst, op.src, op.leaders or context.threads
    warpgroups = context.threads // WARPGROUP_THREADS
    axis = _shared_axis(tile, warpgroups) if op.leaders is None and context.thread is not None else None
    if axis is not None and context.thread is not None:
        share = (int_const(tile.extent[axes(tile)[axis]]) or 0) // warpgroups
        first = context.thread // WARPGROUP_THREADS * share
        tensor = slice_along(tensor, axes(tensor)[axis], first, share)
        tile = slice_along(tile, axes(tile)[axis], first, share)
        each = WARPGROUP_THREADS

    def emit() -> None:
        for box in tma_boxes(tensor, tile, context):
            args: tuple[Expr | Region, ...] = (box.map, box.shared, *box.at)
            # no writes: the wait for the store orders it with accesses to the tensor
            build.emit(CallStmt(store(len(box.at)), args, (box.shared,)))
        build.emit(CallStmt(TMA_STORE_COMMIT, ()))

    by_one_thread(context, build, emit, each)


def _shared_axis(tile: Region, warpgroups: int) -> int | None:
    """The dimension of a tile that warpgroups divide: -2 for rows, -1 for columns; None if one thread stores all."""
    if warpgroups < 2 or len(axes(tile)) < 2:
        return None
    rows, columns = (int_const(tile.extent[axis]) or 0 for axis in axes(tile)[-2:])
    boxes = widest_swizzle(tile) // tile.dtype.storage_bytes
    if rows % (warpgroups * ROWS) and boxes and columns % (warpgroups * boxes) == 0:
        return -1
    return None if rows % (warpgroups * PERIOD_ROWS) else -2


def _store_refusal(op: Copy) -> str:
    """Why a copy is no store whose completion the program waits for itself; empty if it is."""
    if op.barrier is not None:
        return "barriers count the bytes of loads"
    if not op.is_async:
        return "all threads together store faster than one that waits for TMA"
    if any((int_const(start) or 0) < 0 for start in op.dst.start):
        return "what is stored begins before the tensor"
    return ""
