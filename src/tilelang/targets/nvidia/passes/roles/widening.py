"""Makes the rows of tiles whole numbers of 128 bytes, which the copy engine brings fastest.

Takes a launch, gives one whose tiles of products are wider where that is worth it; copies bring what they brought, and
products read it. Invariant: the program computes the same; only tiles change that one copy fills and nothing but
products reads.

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

ROW_BYTES = 128  # what the widest mode permutes
_MOST = 1.25  # of the bytes that there were: 96 columns of 2 bytes had better stay three boxes of 64


def widened(launch: Launch, settled: Collection[Buffer]) -> Launch:
    """The launch with wider tiles; itself if none is worth it.

    Args:
        launch: A launch.
        settled: Tiles whose layout nobody may choose.
    """
    tiles = {tile: wider(tile) for tile in _candidates(launch) if tile not in settled}
    tiles = {old: new for old, new in tiles.items() if new is not old}
    if not tiles:
        return launch
    body = _Wider(tiles).visit(launch.body)
    assert body is not None
    return dataclasses.replace(launch, body=body)


def _candidates(launch: Launch) -> list[Buffer]:
    """Tiles that one copy from global memory fills as a whole, and that nothing but products reads, as a whole."""
    uses: dict[Buffer, list[Stmt]] = {}
    for stmt in walk(launch.body):
        for storage in set(shared_storages(stmt)):
            uses.setdefault(storage, []).append(stmt)
    return [tile for tile, stmts in uses.items() if tile.view_of is None and _is_operand(tile, stmts)]


def _is_operand(tile: Buffer, stmts: list[Stmt]) -> bool:
    copies = [stmt for stmt in stmts if isinstance(stmt, Copy)]
    products = [stmt for stmt in stmts if isinstance(stmt, Gemm)]
    if len(copies) != 1 or type(copies[0]) is not Copy or not products or len(copies) + len(products) < len(stmts):
        return False
    (copy,) = copies
    if copy.src.buffer.scope is not Scope.GLOBAL or copy.dst.buffer is not tile or not is_whole(copy.dst):
        return False
    columns = axes(copy.src)[-1:] == (copy.src.buffer.rank - 1,) and axes(copy.dst)[-1:] == (tile.rank - 1,)
    operands = [region for product in products for region in (product.a, product.b, product.c)]
    return columns and all(is_whole(region) for region in operands if region.buffer.storage is tile)


def wider(tile: Buffer) -> Buffer:
    """The tile with longer rows, if they are to be so."""
    shape = tile.static_shape
    if shape is None or tile.strides is not None:
        return tile
    size = tile.dtype.storage_bytes
    row = shape[-1] * size
    wanted = -(-row // ROW_BYTES) * ROW_BYTES
    if row <= ROW_BYTES or not row < wanted <= _MOST * row or wanted % size:
        return tile
    return dataclasses.replace(tile, shape=(*tile.shape[:-1], const(wanted // size, INT32)))


class _Wider(Rewriter):
    def __init__(self, tiles: Mapping[Buffer, Buffer]) -> None:
        self._tiles = tiles

    def region(self, node: Region) -> Region:
        """The part of a wider tile that there was."""
        inner = Rewriter.region(self, node)
        new = self._tiles.get(node.buffer)
        return inner if new is None else dataclasses.replace(inner, buffer=new)

    def stmt(self, node: Stmt) -> Stmt | None:
        """Allocations, of wider tiles."""
        if isinstance(node, Alloc) and node.buffer in self._tiles:
            return dataclasses.replace(node, buffer=self._tiles[node.buffer])
        return self.rebuild_stmt(node)
