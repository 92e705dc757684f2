"""Index arithmetic of `T.c2d_im2col`: the pixel of the image for each element of the matrix.

Takes the operator and the loop variables of its tile; emits bindings and the store of one element. Invariant: elements
outside of the image or the matrix are 0.
"""

from __future__ import annotations

from tilelang.dtypes import INT32, INT64
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Var, binary, cast, conjunction, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Store
from tilelang.lowering.regions import indices
from tilelang.ops.im2col import Im2Col
from tilelang.records import record


@record(slots=True)
class Patch:
    """A row of the matrix: the pixel `m`, its image `n`, and the origin of its window."""

    m: Var
    n: Var
    top: Var
    left: Var


def patch(op: Im2Col, row: Expr, build: Builder) -> Patch:
    """The pixel that a row of the tile belongs to."""
    _, height, width, _ = op.src.extent
    out_height, out_width = _out(op, height), _out(op, width)
    m = name_index(build, "m", op.row_tile * op.dst.extent[-2] + row)
    n = name_index(build, "n", m // (out_height * out_width))
    top = name_index(build, "top", m // out_width % out_height * op.stride - op.pad)
    left = name_index(build, "left", m % out_width * op.stride - op.pad)
    return Patch(m, n, top, left)


def gather(op: Im2Col, pixel: Patch, row: Expr, column: Expr, build: Builder) -> None:
    """Stores one element of the tile."""
    batch, height, width, channels = op.src.extent
    rank = len(op.dst.extent)
    k = name_index(build, "k", op.column_tile * op.dst.extent[-1] + column)
    tap = k // channels
    h = name_index(build, "h", pixel.top + tap // op.kernel * op.dilation)
    w = name_index(build, "w", pixel.left + tap % op.kernel * op.dilation)
    taps = channels * (op.kernel * op.kernel)
    pixels = batch * _out(op, height) * _out(op, width)
    inside = conjunction(
        test for x, end in ((pixel.m, pixels), (k, taps), (h, height), (w, width)) for test in (x >= 0, x < end)
    )
    value = select(
        inside, cast(_pixel(op.src, (pixel.n, h, w, k % channels)), op.dst.dtype), const(0, op.dst.dtype)
    )
    build.emit(Store(op.dst.buffer, indices(op.dst, (row, column), (rank - 2, rank - 1)), value))


def name_index(build: Builder, text: str, value: Expr) -> Var:
    """Binds an index to a new variable, which is signed: pixels in the padding have negative numbers."""
    dtype = INT32 if value.dtype.bits < 32 or value.dtype == INT32 else INT64
    var = Var(text, dtype, index=True)
    build.emit(Bind(var, cast(value, dtype)))
    return var


def _out(op: Im2Col, size: Expr) -> Expr:
    """Output pixels along one dimension of the image; 0 if the image is smaller than the kernel."""
    span = op.dilation * (op.kernel - 1) + 1
    return binary(BinaryOp.MAX, (size + (2 * op.pad - span)) // op.stride + 1, 0)


def _pixel(image: Region, at: tuple[Expr, ...]) -> Load:
    if len(at) != len(image.start):
        raise CompilerBug("T.c2d_im2col: an image has four dimensions")
    return Load(image.buffer, tuple(s + x for s, x in zip(image.start, at, strict=True)), image.dtype)
