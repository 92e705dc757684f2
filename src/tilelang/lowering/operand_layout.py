"""Layouts of operands in shared memory without bank conflicts for the loads of a warp.

Takes a tile's shape, its dtype and the coordinates that the lanes of a warp read together; gives a `Layout`, or None if
row-major order is best. Invariant: candidates keep 16-byte chunks contiguous where the row-major tile has them aligned,
if one of those is free of conflicts, so that copies into the tile stay vector copies; conflicts are counted by
simulation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tilelang.arith.simplify import simplify
from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.expr import int_const
from tilelang.layout.layout import Coordinate, Layout
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES, conflicts, contiguous_elements, offsets, padded
from tilelang.layout.shared_memory import row_major as row_major_layout
from tilelang.layout.xor_swizzle import MODES, swizzled, swizzled_lines
from tilelang.records import record
from tilelang.targets.machine import CommonFeature, Machine

_RUN = 8  # neighboring rows that go together in a permutation of rows


@record
class WarpAccess:
    """The elements that the lanes of a warp access in one instruction.

    Attributes:
        rows: Row of each lane's first element in memory order. Shape (lanes,).
        columns: Its column. Shape (lanes,).
        bytes: Bytes per lane, aligned to their number.
        kind: "load" or "store".
    """

    rows: np.ndarray
    columns: np.ndarray
    bytes: int
    kind: str = "load"


def choose_layout(
    shape: tuple[int, int],
    dtype: DType,
    accesses: Sequence[WarpAccess],
    machine: Machine,
    others: Iterable[Layout] = (),
) -> Layout | None:
    """The candidate with the fewest bank conflicts, the first of equals; None means row-major.

    Args:
        shape: Rows and columns of the tile in memory.
        dtype: The dtype of its elements.
        accesses: The accesses to optimize together.
        machine: The machine with the shared memory.
        others: Candidates of the machine's own, tried first.
    """
    run = max(access.bytes for access in accesses) // dtype.storage_bytes
    best: Layout | None = None
    fewest = math.inf
    for candidate in itertools.chain(others, _candidates(shape, dtype.storage_bytes, machine)):
        if contiguous_elements(candidate) < run:
            continue
        count = sum(conflict_cycles(candidate, access, dtype, machine) for access in accesses)
        if count < fewest:
            best, fewest = candidate, count
        if not count:
            break
    return None if best is None or np.array_equal(offsets(best).reshape(-1), np.arange(math.prod(shape))) else best


def is_contiguous_in_runs(region: Region, layout: Layout | None, run: int) -> bool:
    """Whether aligned groups of `run` elements of a region's rows are contiguous and aligned in memory."""
    shape = region.buffer.static_shape
    if shape is None:
        return False
    known = row_major_layout(shape[-2:]) if layout is None else layout
    if len(known.shape) < len(shape) and math.prod(known.output_shape) % run:
        return False
    start = simplify(region.start[-1] % run)
    return int_const(start) == 0 and contiguous_elements(known) >= run


def conflict_cycles(layout: Layout, access: WarpAccess, dtype: DType, machine: Machine) -> int:
    """The cycles that an access loses to bank conflicts."""
    addresses = offsets(layout)[access.rows, access.columns] * dtype.storage_bytes
    return conflicts(addresses, access.bytes, machine, access.kind)


def _candidates(shape: tuple[int, int], itemsize: int, machine: Machine) -> Iterator[Layout]:
    """Candidates: row-major; XOR swizzles of chunks by the row number; padded rows, where tiles may have some."""
    yield row_major_layout(shape)
    row_bytes = shape[1] * itemsize
    modes: tuple[int, ...] = MODES
    for mode in MODES:
        if row_bytes % mode == 0:
            yield swizzled(shape, 8 * itemsize, mode)
            for step in (2, 4):
                if step * MAX_VECTOR_BYTES < mode:
                    yield Layout(shape, _swizzle(mode, step, itemsize, machine))
    if machine.has(CommonFeature.FILLED_BY_WARPS):
        line_bytes = machine.shared_banks * machine.bank_bytes
        modes = (*MODES, line_bytes)
        for step, lines in itertools.product((1, 2, 4, 8), (1, 2, 4, 8)):
            layout = swizzled_lines(shape, 8 * itemsize, line_bytes, lines, step)
            if layout is not None:
                yield layout
    else:
        for unit in (MAX_VECTOR_BYTES, 8, machine.bank_bytes):  # alignment of padded rows in bytes
            length = -(-row_bytes // unit)
            for odd in (length | 1, (length | 1) + 2):
                if odd * unit > row_bytes and odd * unit % itemsize == 0:
                    yield padded(shape, odd * unit // itemsize - shape[1])
    for mode in modes:
        if row_bytes % mode == 0:
            for step in (1, 2):
                if 2 * step * MAX_VECTOR_BYTES <= mode:
                    yield Layout(shape, _swizzle_of_runs(mode, step, itemsize, machine))


def _swizzle_of_runs(mode: int, step: int, itemsize: int, machine: Machine) -> Callable[..., Coordinate]:
    """A swizzle for lanes that access rows at once in half runs of `_RUN`, such as rows 0 to 3 and 8 to 11.

    The upper half of the chunks within `mode` bytes comes from the number of the run. Lanes may read `step` chunks of a
    row at once, as for `_swizzle`.
    """
    chunk = MAX_VECTOR_BYTES // itemsize
    half = mode // MAX_VECTOR_BYTES // 2
    rows = max(1, machine.shared_banks * machine.bank_bytes // mode)  # as for `_swizzle`

    def place(row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        key = row // rows % (half // step) * step + row // _RUN % 2 * half
        return row, (column // chunk ^ key) * chunk + column % chunk

    return place


def _swizzle(mode: int, step: int, itemsize: int, machine: Machine) -> Callable[..., Coordinate]:
    """A swizzle: chunks within `mode` bytes of a row are permuted by the row number, `step` chunks per row.

    This suits accesses in which several lanes read one row, across `step` chunks.
    """
    chunk = MAX_VECTOR_BYTES // itemsize
    keys = mode // MAX_VECTOR_BYTES // step
    rows = max(1, machine.shared_banks * machine.bank_bytes // mode)  # rows that fill all banks once

    def place(row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        key = row // rows % keys * step
        return row, (column // chunk ^ key) * chunk + column % chunk

    return place
