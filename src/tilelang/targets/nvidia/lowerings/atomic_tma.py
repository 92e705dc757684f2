"""Atomic additions of tiles by TMA, the copy engine: it folds a tile in shared memory into a tensor.

Takes `T.atomic_add` of a shared tile whose completion the program waits for itself, emits the instructions, which one
thread issues. Otherwise as stores of tiles, see `copy_tma`.

Source: PTX ISA, "cp.reduce.async.bulk.tensor": reductions are relaxed, at the scope of the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import MemoryOrder, MemoryScope
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.isa.tma import tma_reduce
from tilelang.targets.nvidia.isa.tma_meaning import reduces
from tilelang.targets.nvidia.lowerings.copy_tma import TmaPlan, in_boxes
from tilelang.targets.nvidia.lowerings.copy_tma_store import TmaStore, store_boxes
from tilelang.targets.nvidia.lowerings.elect_one import ElectOne
from tilelang.targets.nvidia.requests import ATOMIC_TMA_REDUCE


class TmaReduce(ElectOne):
    """Folds boxes of shared memory into a tensor; the program waits for its completion."""

    name = ATOMIC_TMA_REDUCE

    def accepts(self, op: AtomicTile, context: LoweringContext) -> TmaPlan | Refusal:
        """The layout of the tile, or a refusal."""
        if not op.is_async:
            return Refusal("the program does not wait for it")
        if op.order is not MemoryOrder.RELAXED or op.scope is not MemoryScope.GPU:
            return Refusal("the copy engine has relaxed atomics among all threads of the GPU only")
        if not reduces(op.op.value, op.dst.dtype):
            return Refusal(f"the copy engine has no {op.op.value} of {op.dst.dtype!s}")
        if not isinstance(op.src, Region):
            return Refusal("it adds a scalar")
        return TmaStore().accepts(_copy(op, op.src), context)

    def constrain(self, op: AtomicTile, plan: TmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The shared tile lies in boxes."""
        return in_boxes(op, op.src, plan) if isinstance(op.src, Region) else ()

    def lower(self, op: AtomicTile, plan: TmaPlan, context: LoweringContext, build: Builder) -> None:
        """One thread folds the tile, or one of each warpgroup a part of its rows."""
        assert isinstance(op.src, Region)  # by `accepts`
        store_boxes(_copy(op, op.src), lambda rank: tma_reduce(rank, op.op.value), context, build)


def _copy(op: AtomicTile, tile: Region) -> Copy:
    """The store of the same tile to the same place."""
    return Copy(tile, op.dst, is_async=True, loc=op.loc)
