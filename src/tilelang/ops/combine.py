"""Reductions and scans by a combine function: `T.reduce` with a function, `T.cumsum`, `T.associative_scan`.

The operands are tiles of equal extents. Elements at the same position of all tiles form one tuple of values; the
combine function takes two such tuples and returns one. Invariant: running values have the dtypes of `vars`, and each
is converted to its destination's dtype once, where it is stored.
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
    check_memory,
    check_reduced_extents,
    check_scalars,
)
from tilelang.records import record


@record(eq=False)
class CombineOp(AlongDimension):
    """Combines the elements along a dimension.

    Attributes:
        label: Name of the operator in the user's program.
        vars: Parameters of the combine function: the values of the earlier position, then those of the later one.
        body: Results of the combine function, one per tile.
        srcs: Source tiles.
        dsts: Destinations, one per source.
        dim: The dimension, as numbered in the buffer of the first source.
    """

    label: str
    vars: tuple[Var, ...]
    body: tuple[Expr, ...]
    srcs: tuple[Region, ...]
    dsts: tuple[Region, ...]
    dim: int

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.label

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes of the running values."""
        return tuple(var.dtype for var in self.vars[: len(self.srcs)])

    @property
    def dim_operand(self) -> Region:
        """The first source."""
        return self.srcs[0]

    def reads(self) -> tuple[Region, ...]:
        """The sources."""
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
        """The combine function applied to the values of an earlier and a later position."""
        values = dict(zip(self.vars, (*first, *then), strict=True))
        return tuple(substitute(expr, values) for expr in self.body)

    def source_arrays(self, memory: TileMemory) -> list[np.ndarray]:
        """The sources with `dim` moved to the front, in the running dtypes."""
        shape = memory.read(self.srcs[0]).shape
        arrays = [
            np.asarray(convert(memory.read(src), dtype)).reshape(shape)
            for src, dtype in zip(self.srcs, self.dtypes, strict=True)
        ]
        return [np.moveaxis(array, self.dim, 0) for array in arrays]

    def combine_arrays(
        self, memory: TileMemory, first: Sequence[np.ndarray], then: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """`combine` on arrays of values."""
        values: dict[Var, object] = dict(zip(self.vars, (*first, *then), strict=True))
        for expr in self.body:
            values.update({v: memory.value(v) for v in variables_of(expr) - values.keys()})
        return [
            np.broadcast_to(np.asarray(convert(evaluate(expr, values), dtype)), first[0].shape)
            for expr, dtype in zip(self.body, self.dtypes, strict=True)
        ]


def binary_combine(op: BinaryOp, dtype: DType) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """Parameters and body of a combine function that is one binary operator."""
    a, b = Var("a", dtype), Var("b", dtype)
    return (a, b), (binary(op, a, b),)


@record(eq=False)
class CombineReduce(CombineOp):
    """`dst = reduce(src, dim, combine)`.

    Shapes: each dst is its src without `dim`, or with extent 1 there. The function is associative and commutative.
    If `dim` has no elements, the destination is unchanged.
    """

    def check(self) -> None:
        """The destinations have the extents of the sources without `dim`."""
        super().check()
        for dst in self.dsts:
            check_reduced_extents(self.name, self.srcs[0], dst, self.dim)

    def reference(self, memory: TileMemory) -> None:
        """Combines positions in order."""
        arrays = self.source_arrays(memory)
        if not len(arrays[0]):
            return
        running = [array[0] for array in arrays]
        for k in range(1, len(arrays[0])):
            running = self.combine_arrays(memory, running, [array[k] for array in arrays])
        for dst, values in zip(self.dsts, running, strict=True):
            memory.write(dst, np.asarray(convert(np.ascontiguousarray(values), dst.dtype)))
