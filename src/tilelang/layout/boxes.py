"""Boxed layouts: a tile as a sequence of boxes of short rows, as the copy engine and matrix units require.

Takes shapes, gives `Layout`s; and recovers the boxes from a layout. Invariant: `find_boxes` finds what `boxed` makes;
16-byte chunks are permuted by bits of their address alone, as in hardware, so that consecutive tiles have the same
permutation.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tilelang.errors import CompilerBug
from tilelang.layout.layout import Coordinate, Layout
from tilelang.layout.shared_memory import offsets, row_major
from tilelang.layout.xor_swizzle import BANKS_BYTES, MODES
from tilelang.records import record

# Source: CUDA Driver API, "cuTensorMapEncodeTiled", swizzle modes; PTX ISA, "Asynchronous warpgroup-level matrix shared
# memory layout": bits 4 and up of the address are XORed with bits 7 and up, as many as the mode has.
CHUNK_BYTES = 16
"""Bytes of a chunk, the unit of all swizzle modes."""
PERIOD_ROWS = 8
"""Rows of a box after which the permutation repeats, in each mode."""
ALIGNMENT = PERIOD_ROWS * BANKS_BYTES
"""Alignment in bytes at which the permutation of every mode starts at row 0 of a box."""


@record(slots=True)
class Boxes:
    """The boxes of a tile: box after box of all rows, each row a run of columns.

    Attributes:
        mode_bytes: Bytes within which chunks are permuted (the swizzle mode); 0 for none.
        columns: Elements of a row of a box.
    """

    mode_bytes: int
    columns: int


def boxed(shape: Sequence[int], element_bits: int, row_bytes: int) -> Layout:
    """The layout of boxes with rows of `row_bytes`: 128, 64 or 32 with the swizzle mode, or 16 without.

    Shapes: (..., rows, columns) -> (..., row, column) for one box, (..., box, row, column) for several.

    Raises:
        CompilerBug: The rows of the tile are not divisible into boxes, or the tiles of a row would have different
            permutations.
    """
    return _boxed(tuple(shape), element_bits, row_bytes)


@functools.lru_cache(maxsize=256)
def _boxed(shape: tuple[int, ...], element_bits: int, row_bytes: int) -> Layout:
    if not fits(shape, element_bits, row_bytes):
        raise CompilerBug(f"boxes of {row_bytes} bytes do not fit a tile {shape} of {element_bits} bits")
    columns = shape[-1]
    wide = 8 * row_bytes // element_bits
    chunk = 8 * CHUNK_BYTES // element_bits
    chunks = row_bytes // CHUNK_BYTES
    rows_per_key = BANKS_BYTES // row_bytes  # rows in one row of banks, permuted alike

    def place(*coordinates: Coordinate) -> tuple[Coordinate, ...]:
        *leading, row, column = coordinates
        within = column if columns == wide else column % wide
        if chunks > 1:
            key = row if rows_per_key == 1 else row // rows_per_key
            within = (within // chunk ^ key % chunks) * chunk + within % chunk
        if columns == wide:
            return (*leading, row, within)
        return (*leading, column // wide, row, within)

    return Layout(shape, place)


def fits(shape: Sequence[int], element_bits: int, row_bytes: int) -> bool:
    """Whether a tile can be divided into boxes with rows of `row_bytes`."""
    if len(shape) < 2 or row_bytes not in (*MODES, CHUNK_BYTES) or 8 * CHUNK_BYTES % element_bits:
        return False
    rows, columns = shape[-2:]
    return 0 < rows and rows % PERIOD_ROWS == 0 and columns > 0 and columns * element_bits % (8 * row_bytes) == 0


def find_boxes(layout: Layout | None, shape: Sequence[int], element_bits: int) -> Boxes | None:
    """The boxes of a layout of a tile of this shape; None if it has none.

    A row-major tile, without a layout, is one box without swizzle. A layout of fewer dimensions than the tile applies
    to its last ones.
    """
    if len(shape) < 2 or 0 in shape:
        return None
    if layout is None:
        return Boxes(0, shape[-1])
    if len(layout.shape) < 2 or tuple(shape[len(shape) - len(layout.shape) :]) != layout.shape:
        return None
    for row in (*MODES, CHUNK_BYTES):
        if fits(layout.shape, element_bits, row) and _same_places(layout, boxed(layout.shape, element_bits, row)):
            return Boxes(row if row > CHUNK_BYTES else 0, 8 * row // element_bits)
    if _same_places(layout, row_major(layout.shape)):
        return Boxes(0, shape[-1])
    return None


@functools.lru_cache(maxsize=256)
def _same_places(one: Layout, other: Layout) -> bool:
    return one is other or np.array_equal(offsets(one), offsets(other))
