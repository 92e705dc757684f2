"""`T.cumsum` and `T.cummax`: running totals along one dimension."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileOp


class ScanOp(enum.Enum):
    """The running operators; the value is the suffix of `T.cum`."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, eq=False)
class Scan(TileOp):
    """`dst[..., i, ...] = fold(op, src[..., 0..i, ...])`; from the end if `reverse`. src and dst may be one buffer."""

    op: ScanOp
    src: Region
    dst: Region
    dim: int
    reverse: bool = False
