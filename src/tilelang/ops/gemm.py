"""`T.gemm`: the product of two tiles added to a third."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import TileOp


class GemmWarpPolicy(enum.Enum):
    """How warps share the tile on a GPU; without meaning elsewhere."""

    Square = "square"
    FullRow = "full_row"
    FullCol = "full_col"


@dataclass(frozen=True, eq=False)
class Gemm(TileOp):
    """`C = (0 if clear_accum else C) + op(A) @ op(B)`, accumulated in C's dtype (float32 for narrower floats).

    Shapes: A (M, K), or (K, M) if `transpose_a`; B (K, N), or (N, K) if `transpose_b`; C (M, N). Leading unit extents
    of the regions are dropped. An operand in the accumulator's dtype beside one in a 16-bit dtype is first rounded to
    the other's dtype.
    """

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    clear_accum: Expr | None = None  # None: never; else a truth value
    policy: GemmWarpPolicy = GemmWarpPolicy.Square
