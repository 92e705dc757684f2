"""The layout of the metadata of 2:4 sparse products, as programs ask for it by name."""

from __future__ import annotations

from typing import Any

from tilelang.api import public
from tilelang.layout.layout import Layout, static_shape


@public
def make_cutlass_metadata_layout(
    buffer: Any, mma_dtype: str = "float16", arch: str | None = None, **extra: Any
) -> Layout:
    """The row-major layout: `T.gemm_sp` reads metadata in logical order and arranges it as its instruction wants it.

    Args:
        buffer: The tile of metadata.
        mma_dtype: The dtype of the dense product, which steers nothing here; nor do the others.
        arch: The GPU.
        extra: Options of other arrangements.
    """
    del mma_dtype, arch, extra
    return Layout(static_shape(buffer, "make_cutlass_metadata_layout"), lambda *at: at)
