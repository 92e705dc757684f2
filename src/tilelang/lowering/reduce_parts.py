"""Expressions that every lowering of `T.reduce_*` uses: source elements, start value, combination, final store.

Invariant: values are accumulated in the accumulator dtype and converted to the destination's dtype once, as in the
operator's reference.
"""

from __future__ import annotations

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, binary, cast, const, int_const
from tilelang.ir.stmt import Store
from tilelang.lowering.regions import axes, indices, load
from tilelang.ops.reduce import Reduce, neutral

At = tuple[Expr, ...]


class ReduceParts:
    """The parts of one `Reduce`.

    Attributes:
        op: The operator.
        dtype: The dtype of the running value.
        along: Extent of the reduced dimension, if constant.
        outer: Extents of the dimensions before it, constant units dropped.
        inner: Extents of the dimensions after it.
    """

    def __init__(self, op: Reduce) -> None:
        self.op, self.dtype = op, op.accumulator_dtype
        self.along = int_const(op.src.extent[op.dim])
        outer = [axis for axis in axes(op.src) if axis < op.dim]
        inner = [axis for axis in axes(op.src) if axis > op.dim]
        self.outer = [op.src.extent[axis] for axis in outer]
        self.inner = [op.src.extent[axis] for axis in inner]
        self._source_axes = (*outer, op.dim, *inner)

    @property
    def start(self) -> Expr:
        """The initial value: the neutral element, which is also the result over an empty dimension."""
        dtype = self.op.dst.dtype if self.along == 0 else self.dtype
        return cast(const(neutral(self.op.op, dtype), dtype), self.dtype)

    def source(self, outer: At, k: Expr, inner: At) -> Expr:
        """An element of the source in the accumulator's dtype."""
        value = cast(load(self.op.src, (*outer, k, *inner), self._source_axes), self.dtype)
        return abs(value) if self.op.op.takes_absolute and not self.dtype.is_bool else value

    def combine(self, a: Expr, b: Expr) -> Expr:
        """Combines two values."""
        return binary(self.op.operator, a, b)

    def result(self, build: Builder, at: At, value: Expr) -> None:
        """Stores one element of the destination."""
        dst = self.op.dst
        if not self.op.clear:
            value = self.combine(cast(load(dst, at), self.dtype), value)
        build.emit(Store(dst.buffer, indices(dst, at), cast(value, dst.dtype)))
