"""Pads the rows of gemm operands in shared memory to multiples of 128 bytes, the span of the widest swizzle.

Takes a launch, gives one with longer rows of tiles where that pays; copies fill and gemms read the same elements as
before. Invariant: the program computes the same; only tiles change that one copy fills and only gemms read.

On an H200 tiles of 128 x 224 and 64 columns of K took 374 us at 5000^3 in boxes of 64 bytes and 344 us in boxes of 128
(rows of both matrices began at multiples of 128 bytes; 655 us and 487 us where they did not).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.ir.stmt import Alloc, Launch, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.regions import axes, is_whole, shared_storages
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm

SWIZZLE_SPAN = 128  # bytes
_MAX_GROWTH = 1.25  # of the bytes without padding: 96 columns of 2 bytes are faster as three boxes of 64 bytes


def pad_rows_to_swizzle_span(launch: Launch, fixed: Collection[Buffer]) -> Launch:
    """The launch with padded tiles; itself if padding none of them pays.

    Args:
        launch: A launch.
        fixed: Tiles whose layouts are fixed already.
    """
    tiles = {tile: padded(tile) for tile in _candidates(launch) if tile not in fixed}
    tiles = {old: new for old, new in tiles.items() if new is not old}
    if not tiles:
        return launch
    body = _PadRows(tiles).visit(launch.body)
    assert body is not None
    return dataclasses.replace(launch, body=body)


def _candidates(launch: Launch) -> list[Buffer]:
    """Tiles that one copy from global memory fills as a whole and that only gemms read, as a whole."""
    uses: dict[Buffer, list[Stmt]] = {}
    for stmt in walk(launch.body):
        for storage in set(shared_storages(stmt)):
            uses.setdefault(storage, []).append(stmt)
    return [tile for tile, stmts in uses.items() if tile.view_of is None and _is_operand(tile, stmts)]


def _is_operand(tile: Buffer, stmts: list[Stmt]) -> bool:
    copies = [stmt for stmt in stmts if isinstance(stmt, Copy)]
    gemms = [stmt for stmt in stmts if isinstance(stmt, Gemm)]
    if len(copies) != 1 or type(copies[0]) is not Copy or not gemms or len(copies) + len(gemms) < len(stmts):
        return False
    (copy,) = copies
    if copy.src.buffer.scope is not Scope.GLOBAL or copy.dst.buffer is not tile or not is_whole(copy.dst):
        return False
    columns = axes(copy.src)[-1:] == (copy.src.buffer.rank - 1,) and axes(copy.dst)[-1:] == (tile.rank - 1,)
    operands = [region for gemm in gemms for region in (gemm.a, gemm.b, gemm.c)]
    return columns and all(is_whole(region) for region in operands if region.buffer.storage is tile)


def padded(tile: Buffer) -> Buffer:
    """The tile with padded rows; itself where padding does not pay."""
    shape = tile.static_shape
    if shape is None or tile.strides is not None:
        return tile
    size = tile.dtype.storage_bytes
    row = shape[-1] * size
    wanted = -(-row // SWIZZLE_SPAN) * SWIZZLE_SPAN
    if row <= SWIZZLE_SPAN or not row < wanted <= _MAX_GROWTH * row or wanted % size:
        return tile
    return dataclasses.replace(tile, shape=(*tile.shape[:-1], const(wanted // size, INT32)))


class _PadRows(Rewriter):
    def __init__(self, tiles: Mapping[Buffer, Buffer]) -> None:
        self._tiles = tiles

    def region(self, node: Region) -> Region:
        """The region that an access to the original tile has in the padded one."""
        inner = Rewriter.region(self, node)
        new = self._tiles.get(node.buffer)
        return inner if new is None else dataclasses.replace(inner, buffer=new)

    def stmt(self, node: Stmt) -> Stmt | None:
        """Allocates the padded tiles."""
        if isinstance(node, Alloc) and node.buffer in self._tiles:
            return dataclasses.replace(node, buffer=self._tiles[node.buffer])
        return self.rebuild_stmt(node)
