"""`T.c2d_im2col`: the patches of an image as rows of a matrix."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import TileOp


@dataclass(frozen=True, eq=False)
class Im2Col(TileOp):
    """One tile of the im2col matrix of an NHWC image.

    Row m of the matrix is output pixel (n, oh, ow) in row-major order; column k is (kh, kw, c) in row-major order.
    `dst[i, j] = image[n, oh * stride + kh * dilation - pad, ow * stride + kw * dilation - pad, c]` for
    m = row_tile * rows + i and k = column_tile * columns + j, with 0 where the pixel or the column lies outside.

    Shapes: image (N, H, W, C); dst (rows, columns).
    """

    image: Region
    dst: Region
    row_tile: Expr
    column_tile: Expr
    kernel: int
    stride: int
    dilation: int
    pad: int
