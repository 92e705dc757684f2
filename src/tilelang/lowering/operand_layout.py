"""Layouts of operands in shared memory without bank conflicts for the loads of a warp.

Takes a tile's shape, its dtype and the coordinates that the lanes of a warp read together; gives a `Layout`, or None
where row-major order serves. Invariant: candidates keep chunks of 16 bytes together where the row-major tile has them
aligned, as long as one of those serves, so that copies into the tile stay vector copies; conflicts are counted, not
argued about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tilelang.arith.simplify import simplify
from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.expr import int_const
from tilelang.layout.layout import Coordinate, Layout
from tilelang.layout.memory import MAX_VECTOR_BYTES, conflicts, contiguous_elements, offsets, padded
from tilelang.layout.memory import row_major as row_major_layout
from tilelang.layout.swizzle_modes import MODES, swizzled
from tilelang.records import record
from tilelang.targets.machine import Machine


@record
class WarpAccess:
    """What the lanes of a warp read in one instruction.

    Attributes:
        rows: Row of each lane's first element, as the tile lies in memory. Shape (lanes,).
        columns: Its column. Shape (lanes,).
        bytes: How many bytes each lane reads, aligned to their number.
    """

    rows: np.ndarray
    columns: np.ndarray
    bytes: int


def choose_layout(
    shape: tuple[int, int], dtype: DType, accesses: Sequence[WarpAccess], machine: Machine
) -> Layout | None:
    """The first candidate with the fewest conflicts; None means row-major.

    Args:
        shape: Rows and columns of the tile in memory.
        dtype: Of its elements.
        accesses: All that matter, taken together.
        machine: Whose memory it is.
    """
    run = max(access.bytes for access in accesses) // dtype.storage_bytes
    best: Layout | None = None
    fewest = math.inf
    for candidate in _candidates(shape, dtype.storage_bytes, machine):
        if contiguous_elements(candidate) < run:
            continue
        count = sum(lost(candidate, access, dtype, machine) for access in accesses)
        if count < fewest:
            best, fewest = candidate, count
        if not count:
            break
    return None if best is None or np.array_equal(offsets(best).reshape(-1), np.arange(math.prod(shape))) else best


def keeps_runs(region: Region, layout: Layout | None, run: int) -> bool:
    """Whether aligned groups of `run` neighbors of a region lie in one aligned piece of memory."""
    shape = region.buffer.static_shape
    if shape is None:
        return False
    known = row_major_layout(shape[-2:]) if layout is None else layout
    if len(known.shape) < len(shape) and math.prod(known.output_shape) % run:
        return False
    start = simplify(region.start[-1] % run)
    return int_const(start) == 0 and contiguous_elements(known) >= run


def lost(layout: Layout, access: WarpAccess, dtype: DType, machine: Machine) -> int:
    """The cycles that an access loses to bank conflicts."""
    return conflicts(offsets(layout)[access.rows, access.columns] * dtype.storage_bytes, access.bytes, machine)


def _candidates(shape: tuple[int, int], itemsize: int, machine: Machine) -> Iterator[Layout]:
    """Row-major; chunks of each row permuted by its number; rows of odd length."""
    yield row_major_layout(shape)
    row_bytes = shape[1] * itemsize
    for mode in MODES:
        if row_bytes % mode == 0:
            yield swizzled(shape, 8 * itemsize, mode)
            for step in (2, 4):
                if step * MAX_VECTOR_BYTES < mode:
                    yield Layout(shape, _swizzle(mode, step, itemsize, machine))
    for unit in (MAX_VECTOR_BYTES, 8, machine.bank_bytes):  # rows begin at multiples of it
        length = -(-row_bytes // unit)
        for odd in (length | 1, (length | 1) + 2):
            if odd * unit > row_bytes and odd * unit % itemsize == 0:
                yield padded(shape, odd * unit // itemsize - shape[1])


def _swizzle(mode: int, step: int, itemsize: int, machine: Machine) -> Callable[..., Coordinate]:
    """Chunks within `mode` bytes of a row change places with the row's number, `step` chunks per row.

    This suits accesses of which several lanes read one row, across `step` chunks.
    """
    chunk = MAX_VECTOR_BYTES // itemsize
    keys = mode // MAX_VECTOR_BYTES // step
    rows = max(1, machine.shared_banks * machine.bank_bytes // mode)  # that lie side by side in the banks

    def place(row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        key = row // rows % keys * step
        return row, (column // chunk ^ key) * chunk + column % chunk

    return place
