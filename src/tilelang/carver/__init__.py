"""Templates that recommend configurations, and what is known about machines: `tilelang.carver.arch`."""

from tilelang.carver import arch
from tilelang.carver.arch import CDNA, CUDA, RDNA
from tilelang.carver.roller import Hint, NoRasterization, Rasterization2DColumn, Rasterization2DRow
from tilelang.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

__all__ = [
    "CDNA",
    "CUDA",
    "RDNA",
    "ConvTemplate",
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "Hint",
    "MatmulTemplate",
    "NoRasterization",
    "Rasterization2DColumn",
    "Rasterization2DRow",
    "arch",
]
