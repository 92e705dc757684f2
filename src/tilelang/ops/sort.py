"""`T.sort` and `T.topk`: the last dimension of a tile in order."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from tilelang.errors import ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulate import accumulator
from tilelang.ops.along import AlongDimension
from tilelang.ops.arg_reduce import check_integers
from tilelang.ops.describe import check_extents, check_memory, check_scalars, operand_text
from tilelang.records import record


@record(eq=False)
class SortOp(AlongDimension):
    """What sorting and choosing the first few have in common: the order.

    NaN counts as greater than anything. Elements that are equal stay in the order in which they were.

    Attributes:
        src: The keys; all extents are constant.
        dim: The dimension along which they are ordered, the last one that the user sees.
        descending: Whether the greatest come first.
        dst: Where the keys go in order; None drops them.
        indices: Where the places go at which they were; None drops them.
    """

    src: Region
    dim: int
    descending: bool
    dst: Region | None
    indices: Region | None

    @property
    def counted(self) -> Region:
        """The keys."""
        return self.src

    def reads(self) -> tuple[Region, ...]:
        """The keys."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """What is wanted of keys and places."""
        return tuple(region for region in (self.dst, self.indices) if region is not None)

    def check(self) -> None:
        """All extents are known, and places are integers."""
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
    def lines(self) -> tuple[int, ...]:
        """The extents of the dimensions that tell lines apart, units dropped."""
        extent = self.src.static_extent or ()
        return tuple(e for axis, e in enumerate(extent) if axis != self.dim and e != 1)

    @property
    def length(self) -> int:
        """How many elements a line has."""
        return (self.src.static_extent or ())[self.dim]

    def order(self, memory: TileMemory) -> tuple[np.ndarray, np.ndarray]:
        """The keys as lines, and the places of each line in order."""
        values = memory.read(self.src).reshape(-1, self.length)
        wide = np.asarray(convert(values, accumulator(self.src.dtype, self.src.dtype)))
        if not self.descending:
            return values, np.argsort(wide, axis=1, kind="stable")
        backwards = np.argsort(wide[:, ::-1], axis=1, kind="stable")[:, ::-1]
        return values, self.length - 1 - backwards

    def give(self, memory: TileMemory, values: np.ndarray, order: np.ndarray) -> None:
        """Writes what is wanted."""
        if self.dst is not None:
            memory.write(self.dst, np.asarray(convert(np.take_along_axis(values, order, 1), self.dst.dtype)))
        if self.indices is not None:
            memory.write(self.indices, np.asarray(convert(order, self.indices.dtype)))


@record(eq=False)
class Sort(SortOp):
    """Each line in order.

    Shapes: dst, indices and all of payload have the shape of src.

    Attributes:
        payload: Tiles whose elements move with the keys.
    """

    payload: tuple[Region, ...] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        """The user's name for it."""
        return "T.sort"

    def reads(self) -> tuple[Region, ...]:
        """The keys and what moves with them."""
        return (self.src, *self.payload)

    def writes(self) -> tuple[Region, ...]:
        """What is wanted of keys and places, and what moves with them."""
        return (*super().writes(), *self.payload)

    def check(self) -> None:
        """All have the same extents."""
        super().check()
        for region in self.writes():
            check_extents(self.name, self.src, region)

    def reference(self, memory: TileMemory) -> None:
        """NumPy's stable order."""
        values, order = self.order(memory)
        moved = [memory.read(tile).reshape(values.shape) for tile in self.payload]
        self.give(memory, values, order)
        for tile, old in zip(self.payload, moved, strict=True):
            memory.write(tile, np.take_along_axis(old, order, 1))


@record(eq=False)
class TopK(SortOp):
    """The first `count` of each line in order.

    Shapes: dst and indices have the shape of src with extent `count` in its last dimension.
    """

    count: int = field(default=1, kw_only=True)

    @property
    def name(self) -> str:
        """The user's name for it."""
        return "T.topk"

    def check(self) -> None:
        """There are that many, and what is wanted has room for them."""
        super().check()
        if not 1 <= self.count <= self.length:
            raise ProgramValueError(
                f"{self.name}: k is {self.count}, but a line of '{self.src.buffer.name}' has {self.length} elements"
            )
        for region in self.writes():
            extents = [e for e in region.static_extent or () if e != 1]
            if extents != [*self.lines, *([self.count] if self.count != 1 else [])]:
                raise ProgramValueError(
                    f"{self.name}: {operand_text(self.src)} and k is {self.count}, but {operand_text(region)}",
                    hint=f"give '{region.buffer.name}' the shape {(*self.lines, self.count)}",
                )

    def reference(self, memory: TileMemory) -> None:
        """The beginning of NumPy's stable order."""
        values, order = self.order(memory)
        self.give(memory, values, order[:, : self.count])
