"""`T.c2d_im2col`: a tile of the im2col matrix of an image."""

from __future__ import annotations

import numpy as np

from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.copy import Copy
from tilelang.ops.describe import check_memory, check_scalars, operand_text
from tilelang.records import record


@record(eq=False)
class Im2Col(Copy):
    """One tile of the im2col matrix of an NHWC image: a copy whose source is a window of pixels.

    Row m of the matrix is output pixel (n, oh, ow) in row-major order; column k is (kh, kw, c) in row-major order.
    `dst[i, j] = src[n, oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad, c]` for
    m = row_tile * rows + i and k = column_tile * columns + j, with 0 for pixels and columns out of range.

    Shapes: src (N, H, W, C); dst (rows, columns).
    """

    row_tile: Expr
    column_tile: Expr
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.c2d_im2col"

    @property
    def source_indices(self) -> tuple[Expr, ...]:
        """The indices of the image, and of the tile."""
        return (*self.src.start, *self.src.extent, self.row_tile, self.column_tile)

    def check(self) -> None:
        """Ranks, and the ranges of kernel, stride, dilation and padding."""
        check_memory(self.name, self.src, self.dst)
        check_scalars(self.name, self.src, self.dst)
        if len(self.src.extent) != 4:
            raise ProgramError(
                f"{self.name}: {operand_text(self.src)}, but an image is (batch, height, width, channels)",
                hint="add the missing dimensions with T.reshape",
            )
        if len(self.dst.extent) < 2 or self.dst.static_extent is None:
            raise ProgramError(
                f"{self.name}: {operand_text(self.dst)}, but a tile of two constant extents is needed",
                hint="allocate it as T.alloc_shared((block_M, block_K), dtype)",
            )
        if any(extent != 1 for extent in self.dst.static_extent[:-2]):
            raise ProgramError(
                f"{self.name}: {operand_text(self.dst)}, but a tile of two dimensions is needed",
                hint="select one with an index: data_s[stage, :, :]",
            )
        for label, value, least in (
            ("kernel", self.kernel, 1),
            ("stride", self.stride, 1),
            ("dilation", self.dilation, 1),
            ("pad", self.pad, 0),
        ):
            if value < least:
                raise ProgramError(f"{self.name}: {label} is {value}, but at least {least} is needed")

    def reference(self, memory: TileMemory) -> None:
        """Gathers the patches by the formula of the class."""
        image = memory.read(self.src)
        batch, height, width, channels = image.shape
        out_height, out_width = (
            max(0, (size + 2 * self.pad - self.dilation * (self.kernel - 1) - 1) // self.stride + 1)
            for size in (height, width)
        )
        assert self.dst.static_extent is not None  # by `check`
        rows, columns = self.dst.static_extent[-2:]
        row = int(memory.value(self.row_tile)) * rows + np.arange(rows)[:, None]
        column = int(memory.value(self.column_tile)) * columns + np.arange(columns)[None, :]
        matrix = np.zeros((rows, columns), image.dtype)
        inside = (row >= 0) & (row < batch * out_height * out_width)
        inside = inside & (column >= 0) & (column < self.kernel * self.kernel * channels)
        i, j = np.nonzero(inside)
        n, pixel = np.divmod(row[i, 0], out_height * out_width)
        oh, ow = np.divmod(pixel, out_width)
        tap, c = np.divmod(column[0, j], channels)
        kh, kw = np.divmod(tap, self.kernel)
        h = oh * self.stride + kh * self.dilation - self.pad
        w = ow * self.stride + kw * self.dilation - self.pad
        hit = (h >= 0) & (h < height) & (w >= 0) & (w < width)
        matrix[i[hit], j[hit]] = image[n[hit], h[hit], w[hit], c[hit]]
        memory.write(self.dst, np.asarray(convert(matrix, self.dst.dtype)))
