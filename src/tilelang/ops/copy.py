"""`T.copy` between regions of any two scopes, and `T.transpose` of a tile."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileOp


@dataclass(frozen=True, eq=False)
class Copy(TileOp):
    """`dst[...] = src[...]`, converting the dtype.

    Both regions have the same extents once unit extents are dropped; the front end has resolved element positions
    and the alignment of ranks. A global source reads 0 (or its safe value) out of bounds; a global destination drops
    what is out of bounds.
    """

    src: Region
    dst: Region


@dataclass(frozen=True, eq=False)
class Transpose(TileOp):
    """`dst[j, i] = src[i, j]` on two-dimensional regions."""

    src: Region
    dst: Region
