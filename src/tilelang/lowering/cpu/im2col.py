"""`T.c2d_im2col` as loops that gather patches of an image."""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Var, binary, cast, conjunction, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Store
from tilelang.lowering.cpu.nest import indices, loop
from tilelang.ops.im2col import Im2Col


def lower_im2col(op: Im2Col, build: Builder) -> None:
    """Rows of the tile are pixels, columns are taps; what lies outside the image or the matrix is 0."""
    rows, columns = op.dst.extent[-2:]
    rank = len(op.dst.extent)
    batch, height, width, channels = op.image.extent
    out_height, out_width = _out(op, height), _out(op, width)

    def name(text: str, value: Expr) -> Var:
        var = Var(text, INT32, index=True)
        build.emit(Bind(var, value))
        return var

    def row(i: Var) -> None:
        m = name("m", op.row_tile * rows + i)
        n = name("n", m // (out_height * out_width))
        top = name("top", m // out_width % out_height * op.stride - op.pad)
        left = name("left", m % out_width * op.stride - op.pad)

        def column(j: Var) -> None:
            k = name("k", op.column_tile * columns + j)
            tap = k // channels
            h = name("h", top + tap // op.kernel * op.dilation)
            w = name("w", left + tap % op.kernel * op.dilation)
            taps = channels * (op.kernel * op.kernel)
            ranges = ((m, batch * out_height * out_width), (k, taps), (h, height), (w, width))
            inside = conjunction(c for x, end in ranges for c in (x >= 0, x < end))
            pixel = _pixel(op.image, (n, h, w, k % channels))
            value = select(inside, cast(pixel, op.dst.dtype), const(0, op.dst.dtype))
            build.emit(Store(op.dst.buffer, indices(op.dst, (i, j), (rank - 2, rank - 1)), value))

        loop(build, "j", columns, column)

    loop(build, "i", rows, row)


def _out(op: Im2Col, size: Expr) -> Expr:
    """Pixels of the output along one dimension of the image; none if the image is smaller than the kernel."""
    span = op.dilation * (op.kernel - 1) + 1
    return binary(BinaryOp.MAX, (size + (2 * op.pad - span)) // op.stride + 1, 0)


def _pixel(image: Region, at: tuple[Expr, ...]) -> Load:
    if len(at) != len(image.start):
        raise CompilerBug("T.c2d_im2col: an image has four dimensions")
    return Load(image.buffer, tuple(s + x for s, x in zip(image.start, at, strict=True)), image.dtype)
