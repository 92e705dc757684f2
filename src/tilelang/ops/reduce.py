"""`T.reduce_*`: one dimension of a tile folded away."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileOp


class ReduceOp(enum.Enum):
    """The associative operators; the value is the suffix of `T.reduce_`."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ABSSUM = "abssum"
    ABSMAX = "absmax"
    BITAND = "bitand"
    BITOR = "bitor"
    BITXOR = "bitxor"


@dataclass(frozen=True, eq=False)
class Reduce(TileOp):
    """`dst = fold(op, src, dim)`, or `dst = op(dst, fold)` if not `clear`.

    Shapes: dst is src without `dim`, or with extent 1 there. NaN wins in max and min. Floats narrower than 32 bits
    are accumulated in float32. An empty dimension gives the operator's neutral element.
    """

    op: ReduceOp
    src: Region
    dst: Region
    dim: int
    clear: bool = True
