"""Tile operators that write one value as users call them: `T.fill` and `T.clear`.

Takes operands in any spelling, emits one operator of `ops` each, checked on the spot so that an error has the user's
line. Invariant: options that only steer a GPU's schedule are accepted and change no result.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir.expr import ExprLike, as_expr
from tilelang.language.api import api
from tilelang.language.operators import emit_op
from tilelang.language.regions import Operand, scalar_operand, tile_region
from tilelang.language.stage import current
from tilelang.ops.fill import Fill

__all__ = [
    "clear",
    "fill",
]


@api
def fill(buffer: Operand, value: ExprLike, annotations: Mapping[str, object] | None = None) -> None:
    """Sets every element of a buffer or region to one value, converted to its dtype.

    Shapes: any; the value is a scalar.

    Args:
        buffer: What is written.
        value: The value.
        annotations: Steer GPU targets only.

    Raises:
        ProgramError: The value is a tile or no number, or the region leaves its on-chip buffer.

    Example:
        `T.fill(scores_max, -T.infinity(T.float32))`
    """
    del annotations
    _fill("T.fill", buffer, value)


@api
def clear(buffer: Operand, annotations: Mapping[str, object] | None = None) -> None:
    """Sets every element of a buffer or region to zero.

    Shapes: any.

    Args:
        buffer: What is written.
        annotations: Steer GPU targets only.

    Raises:
        ProgramError: The region leaves its on-chip buffer.

    Example:
        `T.clear(C_local)`
    """
    del annotations
    _fill("T.clear", buffer, 0)


def _fill(what: str, buffer: Operand, value: ExprLike) -> None:
    region = tile_region(buffer, what, element=True)
    expr = as_expr(scalar_operand(value, what, "the value"))
    stored = current(what).converted(expr, region.buffer) if region.dtype.lanes == 1 else expr
    emit_op(Fill(region, stored))
