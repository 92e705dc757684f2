"""`T.c2d_im2col` as loops that gather patches of an image."""

from __future__ import annotations

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var
from tilelang.ir.plan import Plan
from tilelang.lowering.im2col import gather, patch
from tilelang.lowering.lowering import LoweringContext, PlainLowering
from tilelang.ops.im2col import Im2Col
from tilelang.targets.cpu.lowerings.nest import loop


class SerialIm2Col(PlainLowering):
    """Rows of the tile are pixels, columns are taps; elements outside the image or the matrix are 0."""

    name = "im2col.serial"

    def lower(self, op: Im2Col, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Emits what all columns of a row share in front of them."""
        rows, columns = op.dst.extent[-2:]

        def row(i: Var) -> None:
            pixel = patch(op, i, build)
            loop(build, "j", columns, lambda j: gather(op, pixel, i, j, build))

        loop(build, "i", rows, row)
