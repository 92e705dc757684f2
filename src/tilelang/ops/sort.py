"""`T.sort` and `T.topk`: sorting along the last dimension of a tile."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.along import AlongDimension
from tilelang.ops.arg_reduce import check_integers
from tilelang.ops.describe import check_extents, check_memory, check_scalars, operand_text
from tilelang.ops.reduce import ReduceOp, neutral
from tilelang.records import record


def last_key(dtype: DType, *, descending: bool) -> int | float:
    """A key that sorts after all others of a dtype, or is equal to the last ones; the first key of the other order."""
    if descending:
        return neutral(ReduceOp.MAX, dtype)
    has_nan = dtype.is_float and math.isnan(float(convert(math.nan, dtype)))
    return math.nan if has_nan else neutral(ReduceOp.MIN, dtype)


@record(eq=False)
class SortOp(AlongDimension):
    """Base of `Sort` and `TopK`: a stable sort of the rows of a tile.

    A row is a 1-D slice along `dim`. NaN is greater than every number.

    Attributes:
        src: The keys; all extents are constant.
        dim: The dimension to sort along, the last one that the user sees.
        descending: Whether the greatest key is first.
        dst: Receives the sorted keys, if not None.
        indices: Receives the positions of the sorted keys in their row, if not None.
    """

    src: Region
    dim: int
    descending: bool
    dst: Region | None
    indices: Region | None

    @property
    def dim_operand(self) -> Region:
        """The keys."""
        return self.src

    def reads(self) -> tuple[Region, ...]:
        """The keys."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The outputs that are not None."""
        return tuple(region for region in (self.dst, self.indices) if region is not None)

    def check(self) -> None:
        """All extents are constant, and indices are integers."""
        check_memory(self.name, self.src, *self.writes())
        check_scalars(self.name, self.src, *self.writes())
        if self.src.static_extent is None:
            raise ProgramValueError(
                f"{self.name}: {operand_text(self.src)}, but only tiles of constant extents are sorted",
                hint="copy a tile of constant extents out of it",
            )
        if self.indices is not None:
            check_integers(self.name, self.indices)

    @property
    def outer_extents(self) -> tuple[int, ...]:
        """The extents of the dimensions other than `dim`, without units."""
        extent = self.src.static_extent or ()
        return tuple(e for axis, e in enumerate(extent) if axis != self.dim and e != 1)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return (self.src.static_extent or ())[self.dim]

    def order(self, memory: TileMemory) -> tuple[np.ndarray, np.ndarray]:
        """The keys as a matrix of rows, and the permutation that sorts each row."""
        values = memory.read(self.src).reshape(-1, self.length)
        wide = np.asarray(convert(values, accumulator_dtype(self.src.dtype, self.src.dtype)))
        if not self.descending:
            return values, np.argsort(wide, axis=1, kind="stable")
        backwards = np.argsort(wide[:, ::-1], axis=1, kind="stable")[:, ::-1]
        return values, self.length - 1 - backwards

    def store_sorted(self, memory: TileMemory, values: np.ndarray, order: np.ndarray) -> None:
        """Writes the outputs that are not None."""
        if self.dst is not None:
            memory.write(self.dst, np.asarray(convert(np.take_along_axis(values, order, 1), self.dst.dtype)))
        if self.indices is not None:
            memory.write(self.indices, np.asarray(convert(order, self.indices.dtype)))


@record(eq=False)
class Sort(SortOp):
    """Sorts each row.

    Shapes: dst, indices and all of payload have the shape of src.

    Attributes:
        payload: Tiles that are permuted like the keys, in place.
    """

    payload: tuple[Region, ...] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.sort"

    def reads(self) -> tuple[Region, ...]:
        """The keys and the payload."""
        return (self.src, *self.payload)

    def writes(self) -> tuple[Region, ...]:
        """The outputs and the payload."""
        return (*super().writes(), *self.payload)

    def check(self) -> None:
        """All operands have the same extents."""
        super().check()
        for region in self.writes():
            check_extents(self.name, self.src, region)

    def reference(self, memory: TileMemory) -> None:
        """NumPy's stable order."""
        values, order = self.order(memory)
        moved = [memory.read(tile).reshape(values.shape) for tile in self.payload]
        self.store_sorted(memory, values, order)
        for tile, old in zip(self.payload, moved, strict=True):
            memory.write(tile, np.take_along_axis(old, order, 1))


@record(eq=False)
class TopK(SortOp):
    """The first `count` elements of each sorted row.

    Shapes: dst and indices have the shape of src with extent `count` in its last dimension.
    """

    count: int = field(default=1, kw_only=True)

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.topk"

    def check(self) -> None:
        """A row has that many elements, and the outputs have the extents for them."""
        super().check()
        if not 1 <= self.count <= self.length:
            raise ProgramValueError(
                f"{self.name}: k is {self.count}, but a row of '{self.src.buffer.name}' has {self.length} elements"
            )
        for region in self.writes():
            extents = [e for e in region.static_extent or () if e != 1]
            if extents != [*self.outer_extents, *([self.count] if self.count != 1 else [])]:
                raise ProgramValueError(
                    f"{self.name}: {operand_text(self.src)} and k is {self.count}, but {operand_text(region)}",
                    hint=f"give '{region.buffer.name}' the shape {(*self.outer_extents, self.count)}",
                )

    def reference(self, memory: TileMemory) -> None:
        """The first elements in NumPy's stable order."""
        values, order = self.order(memory)
        self.store_sorted(memory, values, order[:, : self.count])
