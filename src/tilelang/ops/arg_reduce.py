"""`T.argmax` and `T.argmin`: the index of the largest or smallest element along a dimension."""

from __future__ import annotations

import numpy as np

from tilelang.errors import ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import int_const
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.along import AlongDimension
from tilelang.ops.describe import check_dim, check_memory, check_reduced_extents, check_scalars, operand_text
from tilelang.ops.reduce import ReduceOp
from tilelang.records import record


@record(eq=False)
class ArgReduce(AlongDimension):
    """`dst = argmax(src, dim)` or argmin: the first of equal elements; the first NaN if there is one, as in NumPy.

    Shapes: dst and values are src without `dim`, or with extent 1 there.

    Attributes:
        op: MAX or MIN.
        src: The tile.
        dst: Receives the indices, relative to the start of the tile.
        dim: The dimension.
        values: Receives the selected elements, if not None.
    """

    op: ReduceOp
    src: Region
    dst: Region
    dim: int
    values: Region | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"T.arg{self.op.value}"

    @property
    def dim_operand(self) -> Region:
        """The source."""
        return self.src

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The indices, and the values."""
        return (self.dst,) if self.values is None else (self.dst, self.values)

    def check(self) -> None:
        """The dimension exists and has elements, and indices are integers."""
        check_memory(self.name, self.src, *self.writes())
        check_scalars(self.name, self.src, *self.writes())
        check_dim(self.name, self.src, self.dim)
        for region in self.writes():
            check_reduced_extents(self.name, self.src, region, self.dim)
        if int_const(self.src.extent[self.dim]) == 0:
            raise ProgramValueError(f"{self.name}: {operand_text(self.src)} and has no element in dimension {self.dim}")
        check_integers(self.name, self.dst)

    def reference(self, memory: TileMemory) -> None:
        """NumPy's argmax or argmin."""
        values = np.asarray(convert(memory.read(self.src), accumulator_dtype(self.src.dtype, self.src.dtype)))
        if values.shape[self.dim] == 0:
            return
        choose = np.argmax if self.op is ReduceOp.MAX else np.argmin
        where = choose(values, axis=self.dim)
        memory.write(self.dst, np.asarray(convert(where, self.dst.dtype)))
        if self.values is not None:
            best = np.take_along_axis(values, np.expand_dims(where, self.dim), self.dim)
            memory.write(self.values, np.asarray(convert(best, self.values.dtype)))


def check_integers(name: str, region: Region) -> None:
    """Checks that a region can hold indices.

    Raises:
        ProgramValueError: Its dtype is no integer.
    """
    if not region.dtype.is_int:
        raise ProgramValueError(
            f"{name}: '{region.buffer.name}' holds {region.dtype!s}, but indices are integers",
            hint='allocate it as "int32"',
        )
