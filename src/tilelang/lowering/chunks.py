"""Chunks of rows that one instruction copies from global to shared memory.

Takes a `Copy`. Invariant: a chunk is contiguous and aligned to its size on both sides, and inside of the tensor or
outside of it as a whole.
"""

from __future__ import annotations

from collections.abc import Collection

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.plan import Plan
from tilelang.lowering.alignment import is_multiple, starts_aligned, strides
from tilelang.lowering.by_loop import NOT_COUNTED
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import axes
from tilelang.ops.copy import Copy
from tilelang.records import record


@record
class ChunkPlan(Plan):
    """The plan of an asynchronous copy.

    Attributes:
        elements: Of the chunk that one instruction copies, if the tile's layout keeps them contiguous.
    """

    elements: int

    def __str__(self) -> str:
        return f"{self.elements} element{'s' if self.elements > 1 else ''} at a time"


def chunks_refusal(op: Copy, context: LoweringContext) -> str:
    """Why no instruction without registers copies chunks, whatever their size; empty if one may."""
    if op.src.buffer.scope is not Scope.GLOBAL or op.dst.buffer.scope is not Scope.SHARED:
        return "copies from global to shared memory only"
    if op.src.dtype != op.dst.dtype:
        return f"does not convert {op.src.dtype!s} to {op.dst.dtype!s}"
    if op.barrier is not None:
        return NOT_COUNTED
    if op.layout is not None:
        return "the user fixes which thread copies what"
    if op.src.buffer.storage in context.nonzero_safe:
        return f"'{op.src.buffer.name}' does not read 0 out of bounds"
    return ""


def chunk_elements(op: Copy, sizes: Collection[int]) -> int:
    """The elements of the largest chunk that is aligned and contiguous on both sides; 0 if there is none.

    Args:
        op: A copy from global to shared memory.
        sizes: The bytes that a chunk may have.
    """
    size = op.src.dtype.storage_bytes
    for width in sorted(sizes, reverse=True):
        count = width // size
        if count * size == width and _fits(op, count, width):
            return count
    return 0


def chunk_at(region: Region, start: tuple[Expr, ...], elements: int) -> Region:
    """The chunk of a region's buffer that begins at an element."""
    extent = [const(1, INT32) for _ in start]
    extent[-1] = const(elements, INT32)
    return Region(region.buffer, start, tuple(extent))


def _fits(op: Copy, count: int, width: int) -> bool:
    src, dst = axes(op.src), axes(op.dst)
    if count == 1:
        return starts_aligned(op.src.buffer, width)
    rank, last = op.src.buffer.rank, op.src.buffer.rank - 1
    if not src or src[-1] != last or not dst or dst[-1] != op.dst.buffer.rank - 1:
        return False
    row = int_const(op.src.extent[last])
    if row is None or row % count or op.coalesced_width not in (None, count):
        return False
    buffer, shape = op.dst.buffer, op.dst.buffer.static_shape
    if buffer.strides is not None or shape is None or shape[-1] % count or not is_multiple(op.dst.start[-1], count):
        return False
    steps = strides(op.src.buffer)
    aligned = int_const(steps[last]) == 1 and all(
        is_multiple(steps[axis], count) or int_const(op.src.buffer.shape[axis]) == 1 for axis in range(rank - 1)
    )
    # a chunk is either inside of the tensor or outside of it
    whole = is_multiple(op.src.start[last], count) and is_multiple(op.src.buffer.shape[last], count)
    return aligned and whole and starts_aligned(op.src.buffer, width)
