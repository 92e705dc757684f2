"""What operators share that combine the elements along one dimension by a function of two values.

Takes tiles of equal extents, which are seen as lines along one dimension: the values of one place of all tiles belong
together, and the function makes one group of values of two. Invariant: running values have the dtypes of `vars`, and
each is converted to its destination's dtype once, where it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, binary
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.stmt import TileMemory
from tilelang.ir.visit import substitute, variables_of
from tilelang.ops.along import AlongDimension
from tilelang.ops.describe import (
    check_dim,
    check_extents,
    check_left,
    check_memory,
    check_scalars,
)
from tilelang.records import record


@record(eq=False)
class LineOp(AlongDimension):
    """Combines values along a dimension.

    Attributes:
        label: The user's name for it.
        vars: The values that come first along the line, and then those that come later: the function's parameters.
        body: What it makes of them.
        srcs: The tiles.
        dsts: Where results go, one for each tile.
        dim: The dimension, in the count of the first tile's buffer.
    """

    label: str
    vars: tuple[Var, ...]
    body: tuple[Expr, ...]
    srcs: tuple[Region, ...]
    dsts: tuple[Region, ...]
    dim: int

    @property
    def name(self) -> str:
        """The user's name for it."""
        return self.label

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes of the running values."""
        return tuple(var.dtype for var in self.vars[: len(self.srcs)])

    @property
    def counted(self) -> Region:
        """The first tile."""
        return self.srcs[0]

    def reads(self) -> tuple[Region, ...]:
        """The tiles."""
        return self.srcs

    def writes(self) -> tuple[Region, ...]:
        """The destinations."""
        return self.dsts

    def check(self) -> None:
        """The dimension exists, and all tiles have the same extents."""
        check_memory(self.name, *self.srcs, *self.dsts)
        check_scalars(self.name, *self.srcs, *self.dsts)
        check_dim(self.name, self.srcs[0], self.dim)
        for other in self.srcs[1:]:
            check_extents(self.name, self.srcs[0], other)

    def combine(self, first: Sequence[Expr], then: Sequence[Expr]) -> tuple[Expr, ...]:
        """One group of values for two, of which `first` comes earlier along the line."""
        values = dict(zip(self.vars, (*first, *then), strict=True))
        return tuple(substitute(expr, values) for expr in self.body)

    def lines(self, memory: TileMemory) -> list[np.ndarray]:
        """The tiles' values with the dimension in front, in the running dtypes."""
        shape = memory.read(self.srcs[0]).shape
        arrays = [
            np.asarray(convert(memory.read(src), dtype)).reshape(shape)
            for src, dtype in zip(self.srcs, self.dtypes, strict=True)
        ]
        return [np.moveaxis(array, self.dim, 0) for array in arrays]

    def combine_arrays(
        self, memory: TileMemory, first: Sequence[np.ndarray], then: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """`combine` for all lines at once."""
        values: dict[Var, object] = dict(zip(self.vars, (*first, *then), strict=True))
        for expr in self.body:
            values.update({v: memory.value(v) for v in variables_of(expr) - values.keys()})
        return [
            np.broadcast_to(np.asarray(convert(evaluate(expr, values), dtype)), first[0].shape)
            for expr, dtype in zip(self.body, self.dtypes, strict=True)
        ]


def operator_of_lines(op: BinaryOp, dtype: DType) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """The parameters and the body of a function that is one operator."""
    a, b = Var("a", dtype), Var("b", dtype)
    return (a, b), (binary(op, a, b),)


@record(eq=False)
class LineFold(LineOp):
    """`dst = fold(function, src, dim)`: all values of a line become one, in any order.

    Shapes: each dst is its src without `dim`, or with extent 1 there. The function is associative and commutative.
    Where a line has no elements, its destination keeps what it holds.
    """

    def check(self) -> None:
        """The destinations have the extents that are left."""
        super().check()
        for dst in self.dsts:
            check_left(self.name, self.srcs[0], dst, self.dim)

    def reference(self, memory: TileMemory) -> None:
        """Element after element."""
        lines = self.lines(memory)
        if not len(lines[0]):
            return
        running = [line[0] for line in lines]
        for k in range(1, len(lines[0])):
            running = self.combine_arrays(memory, running, [line[k] for line in lines])
        for dst, values in zip(self.dsts, running, strict=True):
            memory.write(dst, np.asarray(convert(np.ascontiguousarray(values), dst.dtype)))
