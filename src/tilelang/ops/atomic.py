"""`T.atomic_add` and friends on whole tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import AtomicOp, TileOp


@dataclass(frozen=True, eq=False)
class AtomicTile(TileOp):
    """`dst[...] = op(dst[...], src[...])`, each element indivisibly; `src` is a region or one scalar for all."""

    op: AtomicOp  # ADD, MAX or MIN
    src: Region | Expr
    dst: Region
