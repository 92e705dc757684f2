"""What operators along one dimension have in common: the tile whose dimensions they count.

Gives `AlongDimension`. Invariant: `dim` of such an operator is a dimension of `counted`, and changes where that gets
dimensions in front of its own.
"""

from __future__ import annotations

import abc

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileOp


class AlongDimension(TileOp):
    """An operator that goes along dimension `dim` of a tile."""

    dim: int

    @property
    @abc.abstractmethod
    def counted(self) -> Region:
        """The tile whose dimensions are counted."""
