"""XOR-swizzled layouts: 16-byte chunks of a row are permuted by the row number, so that a column accesses all banks.

Takes shapes, gives `Layout`s that keep the row and permute within it. Invariant: each is a bijection of the tile's
coordinates.

Source: CUDA C++ Programming Guide, "Tensor Memory Access, swizzle modes": shared memory has 32 banks of 4 bytes; the
128-, 64- and 32-byte modes XOR the index of a 16-byte chunk with bits of the index of its row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.layout.layout import Coordinate, Layout

_CHUNK_BITS = 128
BANKS_BYTES = 128
"""Bytes that 32 banks serve at once: bits 7 and up of an address number such rows of banks."""
MODES = (128, 64, 32)
"""Bytes of a row within which each mode permutes, widest first."""


def widest_mode(row_bits: int) -> int:
    """Bytes of the widest mode for rows of `row_bits`; 0 if none divides them."""
    return next((mode for mode in MODES if row_bits and row_bits % (8 * mode) == 0), 0)


def swizzled(shape: Sequence[int], element_bits: int, mode_bytes: int, rows: int | None = None) -> Layout:
    """The layout of a mode on rows of a multiple of `mode_bytes`.

    Args:
        shape: The shape of the tile.
        element_bits: Bits of an element.
        mode_bytes: The part of a row within which chunks are permuted.
        rows: Consecutive rows with the same permutation; by default as many as fill all banks. More of them suit
            accesses with a stride of several rows.

    Shapes: (..., rows, columns) -> (..., row, permuted column).
    """
    chunk = _CHUNK_BITS // element_bits  # elements per chunk
    chunks = mode_bytes // 16
    alike = rows or BANKS_BYTES // mode_bytes

    def place(*coordinates: Coordinate) -> tuple[Coordinate, ...]:
        *leading, row, column = coordinates
        key = (row // alike) % chunks
        index = column // chunk
        return (*leading, row, (index ^ key) * chunk + column % chunk)  # key < chunks: XOR moves within the mode

    return Layout(shape, place)


def swizzled_lines(
    shape: tuple[int, int], element_bits: int, line_bytes: int, lines: int = 1, step: int = 1
) -> Layout | None:
    """The dense layout that permutes the chunks of each line of shared memory by the line's number.

    Unlike a mode, it permutes across the rows that lie in one line, so that it uses all banks. It is its own inverse.

    Args:
        shape: Rows and columns.
        element_bits: Bits of an element.
        line_bytes: Bytes of a word of each bank.
        lines: Successive lines with the same permutation.
        step: Chunks that stay together.

    Returns:
        The layout; None if rows and lines do not divide each other.

    Shapes: (row, column) -> (row, column).
    """
    chunk, chunks = _CHUNK_BITS // element_bits, line_bytes * 8 // _CHUNK_BITS
    across, rest = divmod(shape[1], chunk)
    if rest or not across or (across % chunks and chunks % across):
        return None
    rows = max(1, chunks // across)  # of a line
    if shape[0] % rows:
        return None

    def place(row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        index, within = column // chunk, column % chunk
        key = (row // rows // lines) % (chunks // step) * step
        if rows == 1:
            return row, (index ^ key) * chunk + within
        new = (row % rows * across + index) ^ key
        return row // rows * rows + new // across, new % across * chunk + within

    return Layout(shape, place)
