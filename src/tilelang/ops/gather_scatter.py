"""`T.gather` and `T.scatter`: rows of a tensor selected by an index tile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, as_expr, const
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.along import AlongDimension
from tilelang.ops.arg_reduce import check_integers
from tilelang.ops.describe import (
    check_dim,
    check_lanes,
    check_memory,
    drop_units,
    operand_text,
    same_extents,
    shape_text,
)
from tilelang.records import record


@record(eq=False)
class GatherScatterOp(AlongDimension):
    """Copies rows between a tensor, where an index tile selects them, and a tile, where they are consecutive.

    A row is the tensor at one index of dimension `dim`.

    Attributes:
        tensor: The tensor, or a region of it.
        index: Indices into `dim`, relative to the start of the region: one dimension, and unit dimensions.
        tile: The tile.
        dim: The indexed dimension of the tensor.
    """

    tensor: Region
    index: Region
    tile: Region
    dim: int

    @property
    def source(self) -> Region:
        """The operand that is read."""
        return self.tensor

    @property
    def target(self) -> Region:
        """The operand that is written."""
        return self.tile

    @property
    def dim_operand(self) -> Region:
        """The tensor."""
        return self.tensor

    def reads(self) -> tuple[Region, ...]:
        """The source and the indices."""
        return (self.source, self.index)

    def writes(self) -> tuple[Region, ...]:
        """The target."""
        return (self.target,)

    @property
    def rows(self) -> tuple[Expr, ...]:
        """The extents of the index tile that are not 1: none or one."""
        return drop_units(self.index.extent)

    def check(self) -> None:
        """The tile has the tensor's extents, with the number of indices in place of the extent of `dim`."""
        check_memory(self.name, self.tensor, self.index, self.tile)
        check_lanes(self.name, self.source, self.target)
        check_dim(self.name, self.tensor, self.dim)
        check_integers(self.name, self.index)
        if len(self.rows) > 1:
            raise ProgramValueError(
                f"{self.name}: {operand_text(self.index)}, but indices of rows have one dimension",
                hint="pass one row of it, as in index[i, :]",
            )
        extent = (*self.tensor.extent[: self.dim], *(self.rows or (as_expr(1),)), *self.tensor.extent[self.dim + 1 :])
        if not same_extents(drop_units(extent), drop_units(self.tile.extent)):
            raise ProgramValueError(
                f"{self.name}: {operand_text(self.tensor)} and {operand_text(self.index)}, but "
                f"{operand_text(self.tile)}",
                hint=f"give '{self.tile.buffer.name}' the shape {shape_text(extent)}",
            )

    def indexed_rows(self, memory: TileMemory) -> Iterator[Region | None]:
        """The region of each row; None if its index is out of range."""
        count = int(memory.value(self.tensor.extent[self.dim]))
        for number in np.asarray(memory.read(self.index)).ravel():
            row = int(number)
            start, extent = list(self.tensor.start), list(self.tensor.extent)
            start[self.dim], extent[self.dim] = start[self.dim] + const(row, INT32), const(1, INT32)
            yield Region(self.tensor.buffer, tuple(start), tuple(extent)) if 0 <= row < count else None


@record(eq=False)
class GatherRows(GatherScatterOp):
    """`tile[i, ...] = tensor[index[i], ...]`; rows out of range read 0."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.gather"

    def reference(self, memory: TileMemory) -> None:
        """Copies row by row."""
        extent = [int(memory.value(e)) for e in self.tensor.extent]
        extent[self.dim] = 1
        dtype = self.tile.dtype.numpy
        rows = [
            np.zeros(extent, dtype) if row is None else np.asarray(convert(memory.read(row), self.tile.dtype))
            for row in self.indexed_rows(memory)
        ]
        if rows:
            memory.write(self.tile, np.concatenate(rows, axis=self.dim))


@record(eq=False)
class ScatterRows(GatherScatterOp):
    """`tensor[index[i], ...] = tile[i, ...]`; rows out of range are dropped.

    If several rows have the same index, one of them is stored; which one is unspecified.
    """

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.scatter"

    @property
    def source(self) -> Region:
        """The tile."""
        return self.tile

    @property
    def target(self) -> Region:
        """The tensor."""
        return self.tensor

    def reference(self, memory: TileMemory) -> None:
        """Copies row by row."""
        extent = [int(memory.value(e)) for e in self.tensor.extent]
        rows = list(self.indexed_rows(memory))
        extent[self.dim] = len(rows)
        values = np.asarray(convert(memory.read(self.tile), self.tensor.dtype)).reshape(extent)
        for number, row in enumerate(rows):
            if row is not None:
                memory.write(row, np.take(values, [number], axis=self.dim))
