"""Chunks of rows that one instruction copies from global to shared memory.

Takes a `Copy`. Invariant: a chunk is contiguous and aligned to its size on both sides, and inside of the tensor or
outside of it as a whole.
"""

from __future__ import annotations

from collections.abc import Collection

from tilelang.ir.expr import int_const
from tilelang.lowering.alignment import is_multiple, starts_aligned, strides
from tilelang.lowering.regions import axes
from tilelang.ops.copy import Copy


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


def _fits(op: Copy, count: int, width: int) -> bool:
    src, dst = axes(op.src), axes(op.dst)
    if count == 1:
        return starts_aligned(op.src.buffer, width)
    rank, last = op.src.buffer.rank, op.src.buffer.rank - 1
    if not src or src[-1] != last or not dst or dst[-1] != op.dst.buffer.rank - 1:
        return False
    if (op.src.static_extent or (0,))[last] % count or op.coalesced_width not in (None, count):
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
