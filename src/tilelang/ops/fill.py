"""`T.fill` and `T.clear`."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import TileOp


@dataclass(frozen=True, eq=False)
class Fill(TileOp):
    """Every element of `dst` becomes `value`, converted to its dtype; nothing beyond the region changes."""

    dst: Region
    value: Expr
