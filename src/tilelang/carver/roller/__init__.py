"""The parts of a kernel's configuration: `Hint` and the orders in which blocks are visited."""

from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DColumn, Rasterization2DRow

__all__ = ["Hint", "NoRasterization", "Rasterization2DColumn", "Rasterization2DRow"]
