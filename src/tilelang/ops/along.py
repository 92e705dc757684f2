"""Base class of operators along one dimension of a tile: reductions, scans, sorts, gather and scatter.

Invariant: `dim` is a dimension of `dim_operand`. A transform that prepends dimensions to its buffer adjusts `dim`.
"""

from __future__ import annotations

import abc

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileOp


class AlongDimension(TileOp):
    """An operator along dimension `dim` of a tile."""

    dim: int

    @property
    @abc.abstractmethod
    def dim_operand(self) -> Region:
        """The operand whose dimensions `dim` refers to."""
