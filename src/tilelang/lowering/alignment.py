"""Alignment of global tensors: strides and divisibility, derived from the terms of expressions.

Takes buffers and index expressions; gives strides, and whether divisibility is proven. Invariant: a proof holds for
every call that the program accepts.
"""

from __future__ import annotations

from tilelang.arith.affine import Linearizer
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, const


def strides(buffer: Buffer) -> tuple[Expr, ...]:
    """The stride of each dimension, in elements."""
    if buffer.strides is not None:
        return buffer.strides
    result: list[Expr] = [const(1, INT32)]
    for extent in reversed(buffer.shape[1:]):
        result.append(result[-1] * extent)
    return tuple(reversed(result[: buffer.rank]))


def is_multiple(expr: Expr, count: int) -> bool:
    """Whether an index is provably a multiple of a number."""
    linear = Linearizer().sum(expr) if expr.dtype.is_int else None
    return linear is not None and linear.constant % count == 0 and (not linear.terms or linear.divisor % count == 0)


def starts_aligned(buffer: Buffer, width: int) -> bool:
    """Whether the address of a global buffer is a multiple of `width` bytes."""
    return buffer.storage.alignment_bytes % width == 0
