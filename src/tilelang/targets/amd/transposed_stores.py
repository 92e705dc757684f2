"""Transposed stores of tiles to LDS: a thread loads a block of several rows to registers, and stores its columns.

Gives `block_layout`, the fragment of these blocks, of a tile with the shape that it has in global memory. Gives for a
tile with its shape in LDS `store_accesses`, the addresses of one store of a wave, and layouts without bank conflicts,
neither of these stores nor of loads of matrix operands, which read 16 bytes of each of 16 or 32 successive rows: one
`by_steps`, and `layouts` that suit stores of whole rows, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tilelang.layout.layout import Coordinate, Layout
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.layout.xor_swizzle import BANKS_BYTES
from tilelang.lowering.operand_layout import WarpAccess

_STEP_ROWS = 32  # rows whose chunks of a step take turns in a line of banks
_NEIGHBORS = 4  # lanes along a row that store at once, each to other banks


def block_layout(shape: tuple[int, int], item_bytes: int, threads: int) -> Fragment | None:
    """The elements of a tile in global memory that each thread loads and stores; None if there are too few.

    Lanes that store at once have neighboring blocks, and pieces of two times 16 bytes in LDS.

    Shapes: (threads, values) -> (rows, columns).
    """
    rows, columns = shape
    each, rest = divmod(rows * columns, threads)
    if rest or any(count & (count - 1) for count in (rows, columns, threads)):
        return None
    most = MAX_VECTOR_BYTES // item_bytes
    height = min(most, each // most, rows)
    # narrower stores would be too many
    return _blocks((rows, columns), (height, most), threads, most) if 2 * height >= most <= columns else None


def _blocks(shape: tuple[int, int], block: tuple[int, int], threads: int, piece: int) -> Fragment:
    """The blocks of threads: `_NEIGHBORS` along rows, two pieces along columns, then the rest of rows and columns."""
    rows, columns = (extent // size for extent, size in zip(shape, block, strict=True))
    height, width = block
    beside = min(_NEIGHBORS, columns, threads)
    below = min(2 * piece // height, rows, threads // beside)
    more_beside = min(columns // beside, threads // (beside * below))
    more_below = threads // (beside * below * more_beside)
    return fragment(
        shape,
        [
            digit(beside, 0, width),
            digit(below, height, 0),
            digit(more_beside, 0, width * beside),
            digit(more_below, height * below, 0),
        ],
        [
            digit(width, 0, 1),
            digit(height, 1, 0),
            digit(columns // (beside * more_beside), 0, width * beside * more_beside),
            digit(rows // (below * more_below), height * below * more_below, 0),
        ],
    )


def store_accesses(shape: tuple[int, int], item_bytes: int, lanes: int) -> Iterator[WarpAccess]:
    """What a wave stores at once to a tile in LDS of this shape, by blocks of each height that there may be."""
    height, length = shape
    most = MAX_VECTOR_BYTES // item_bytes
    for run in {most, max(1, most // 2)}:
        if height % most == 0 and length % run == 0 and (height // most) * (length // run) >= lanes:
            table = _blocks((length, height), (run, most), lanes, most).table[:, 0]
            if len(table) == lanes and (table < (length, height)).all():  # else some would store nothing
                yield WarpAccess(table[:, 1], table[:, 0], run * item_bytes, "store")


def by_steps(shape: tuple[int, int], item_bytes: int) -> Layout | None:
    """The layout in which two chunks of all rows, a step of matrix instructions, precede the next two of all rows.

    Then steps differ by a constant, and so do rows of a thread's block but for two bits that are flipped, whereas
    chunks that are permuted over a whole line of banks have an address of their own for each step and row. Of the eight
    chunks of a line, a load takes one of each of eight rows that differ in three of the bits 0, 1, 3 and 4 of their
    number, a store by columns two of each of four rows that differ in bits 3 and 4. Stores by rows conflict.

    Shapes: (row, column) -> (row, column).
    """
    (rows, columns), chunk = shape, MAX_VECTOR_BYTES // item_bytes
    if rows % _STEP_ROWS or columns % (2 * chunk):
        return None

    def place(row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        step, index, within = column // (2 * chunk), column // chunk % 2, column % chunk
        line = step * (rows // 4) + row // _STEP_ROWS * 8 + row % 8
        flat = line * 8 + ((row // 8 % 4 * 2 + index) ^ (row % 2 * 4) ^ (row // 2 % 2))  # in chunks
        width = columns // chunk
        return flat // width, flat % width * chunk + within

    return Layout(shape, place)


def layouts(shape: tuple[int, int], item_bytes: int) -> Iterator[Layout]:
    """Layouts that permute chunks of 16 bytes in lines of all banks, by the line and by the run of rows that it is in.

    Shapes: (row, column) -> (row, permuted column).
    """
    chunk = MAX_VECTOR_BYTES // item_bytes
    row_bytes = shape[1] * item_bytes
    chunks = BANKS_BYTES // MAX_VECTOR_BYTES
    across = min(chunks, row_bytes // MAX_VECTOR_BYTES)  # chunks of a line that are of one row
    if row_bytes % MAX_VECTOR_BYTES or not across or chunks % across or shape[0] % (chunks // across):
        return
    rows = chunks // across  # of a line
    for run, (first, second) in itertools.product((chunk, 2 * chunk), ((2, 4), (4, 2))):

        def place(
            row: Coordinate, column: Coordinate, run: int = run, first: int = first, second: int = second
        ) -> tuple[Coordinate, Coordinate]:
            index, within = column // chunk, column % chunk
            key = (row // rows) % across ^ row // run % 2 * first ^ row // (2 * run) % 2 * second
            if rows == 1:
                return row, (index ^ key) * chunk + within
            new = (row % rows * across + index) ^ key
            return row // rows * rows + new // across, new % across * chunk + within

        yield Layout(shape, place)
