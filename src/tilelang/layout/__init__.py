"""Layouts: integer maps from coordinates to memory offsets and to threads; independent of the IR."""

from tilelang.layout.fragment import (
    Fragment,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
)
from tilelang.layout.gemm_sp import make_cutlass_metadata_layout
from tilelang.layout.layout import Layout, make_linear_layout
from tilelang.layout.partial_fragment import PartialFragment, make_fully_replicated_partial_fragment
from tilelang.layout.swizzle import (
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_mma_swizzle_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_tcgen05mma_swizzled_layout,
    make_volta_swizzled_layout,
    make_wgmma_swizzled_layout,
)
from tilelang.layout.swizzle_mode import SwizzleMode

__all__ = [
    "Fragment",
    "Layout",
    "PartialFragment",
    "SwizzleMode",
    "make_cutlass_metadata_layout",
    "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment",
    "make_fully_replicated_partial_fragment",
    "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_mma_swizzle_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "make_tcgen05mma_swizzled_layout",
    "make_volta_swizzled_layout",
    "make_wgmma_swizzled_layout",
]
