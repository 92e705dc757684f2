"""What a configuration of a kernel is made of: `Hint` and the orders in which blocks are walked."""

from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DColumn, Rasterization2DRow

__all__ = ["Hint", "NoRasterization", "Rasterization2DColumn", "Rasterization2DRow"]
