"""The published place of layouts for matrix instructions: `from tilelang.intrinsics import make_mma_swizzle_layout`."""

from tilelang.layout.swizzle import make_mma_swizzle_layout

__all__ = ["make_mma_swizzle_layout"]
