"""Tiles of matrix products on a CPU: of even size, so that little of the last one along an axis is padding."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.records import record

_LANES = 16  # of 32 bits in the largest vectors of a CPU
_ROWS = 4  # of a result in registers, or a divisor of them
_LEAST_DEPTH = 128  # elements of K that are summed with the results in registers
# What takes as long as so many multiply-adds, fitted to products of 16^3 to 512^3 on an AMD EPYC with one thread:
_COPY = 2  # an element of an operand that is copied to its tile
_ACCUMULATE = 4  # an element of the result that is loaded and stored for each step along K
_STEP = 5000
_BLOCK = 10000
_EQUAL_COSTS = 0.05  # share of a cost: of tiles that differ by less, those with more blocks keep more threads busy


@record
class CpuTile:
    """The tile of a matrix product."""

    rows: int
    columns: int
    depth: int


def cpu_tiles(m: int, n: int, k: int, largest: Iterable[tuple[int, int, int]], *, known: bool = True) -> list[CpuTile]:
    """Tiles of a product, the one that is expected to be fastest first.

    Args:
        m: Rows of the result.
        n: Columns of the result.
        k: Elements of the innermost reduced axis.
        largest: The most rows, columns and elements of K of a tile, for each candidate.
        known: Whether these sizes are known; if not, tiles stay in the order of the candidates.
    """
    tiles = [
        CpuTile(_even(m, rows, _ROWS), _even(n, columns, _LANES), _even(k, max(depth, _LEAST_DEPTH), _LANES))
        for rows, columns, depth in largest
    ]

    def order(tile: CpuTile) -> tuple[int, int]:
        blocks, steps = -(-m // tile.rows) * -(-n // tile.columns), -(-k // tile.depth)
        elements = tile.rows * tile.columns
        copied = (tile.rows + tile.columns) * tile.depth
        step = elements * tile.depth + _COPY * copied + _ACCUMULATE * elements + _STEP
        cost = blocks * (steps * step + _BLOCK)
        return int(math.log(cost) / _EQUAL_COSTS), -blocks

    distinct = list(dict.fromkeys(tiles))
    return sorted(distinct, key=order) if known else distinct


def _even(extent: int, most: int, granule: int) -> int:
    """The size of tiles of about equal size, no more of them than of `most` elements; a multiple of `granule`."""
    tiles = -(-extent // most)
    return -(-extent // (tiles * granule)) * granule
