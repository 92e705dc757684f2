"""The registers of a warp's threads: arrays and scalars that every lane has to itself.

Takes one offset that all lanes share, or one per lane; gives and stores one value (or vector) per lane. Invariant:
contents that a lane has not written are not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.dtypes import lane_dtype
from tilelang.errors import OutOfBounds, ReadBeforeWrite
from tilelang.ir.buffer import Buffer, Scope
from tilelang.sim.device_memory import row_major
from tilelang.sim.memory import poison
from tilelang.sim.races import element_text
from tilelang.sim.register_hazards import RegisterHazards
from tilelang.sim.storage import UNSIGNED, Accessor, Change, Index, all_set
from tilelang.sim.violations import outside_dimension

Columns = slice | np.ndarray  # the scalars of a buffer that an operation takes of every lane


class Registers:
    """A buffer of which every lane has its own.

    Args:
        buffer: A LOCAL or VAR buffer of constant shape.
        lanes: How many lanes the warp has.
        of: Whose bytes it names, for a view.
    """

    def __init__(self, buffer: Buffer, lanes: int, of: Registers | None = None) -> None:
        shape = buffer.static_shape
        assert shape is not None
        self.buffer, self.extents = buffer, shape
        self.per_element = buffer.dtype.lanes
        self.strides = tuple(s * self.per_element for s in row_major(shape))
        numpy = buffer.dtype.numpy
        self.size = int(np.prod(shape, dtype=np.int64)) * self.per_element
        self._whole = np.full(numpy.itemsize, 1, np.uint8).view(f"u{numpy.itemsize}")[0]
        if of is None:
            self.data = np.full((lanes, self.size), poison(lane_dtype(buffer.dtype)), numpy)
            self._flags = np.zeros((lanes, self.size * numpy.itemsize), np.uint8)
            self.hazards = RegisterHazards(buffer.name, self.size)
        else:
            self.data = of.data.view(numpy)
            self._flags = of._flags
            self.hazards = of.hazards
        self._scale = (numpy.itemsize, (self if of is None else of).data.itemsize)
        self._defined = self._flags.view(f"u{numpy.itemsize}")

    def forget(self, warp: Accessor) -> None:
        """The active lanes allocate the buffer again: its contents are undefined."""
        if warp.lanes is None:
            self._flags[:] = 0
        else:
            self._flags[warp.lanes] = 0

    # -- addresses ------------------------------------------------------------------------------------------
    def offset(self, warp: Accessor, indices: tuple[Index, ...], count: int) -> Index:
        """The offset of an element in scalars.

        Raises:
            OutOfBounds: The index of an active lane is out of bounds.
        """
        total: Index = 0
        for index, extent, stride in zip(indices, self.extents, self.strides, strict=True):
            if isinstance(index, int):
                if not 0 <= index < extent:
                    self._raise_out_of_bounds(warp, indices)
            elif np.count_nonzero((index.view(UNSIGNED) >= extent) & warp.mask):  # negative ones are the largest then
                self._raise_out_of_bounds(warp, indices)
            total = total + index * stride
        if count > self.per_element and not (isinstance(total, int) and total <= self.size - count):
            self.contain(warp, np.full(warp.size, total), count)
        return total

    def contain(self, warp: Accessor, offset: np.ndarray, count: int) -> None:
        """Checks the offsets of the active lanes.

        Raises:
            OutOfBounds: The index of a lane is out of bounds.
        """
        outside = ((offset < 0) | (offset > self.size - count)) & warp.mask
        if outside.any():
            lane = int(np.flatnonzero(outside)[0])
            raise OutOfBounds(
                f"'{self.buffer.name}': thread {warp.threads[lane]} accesses {count} elements at {int(offset[lane])}, "
                f"but it has {self.size}"
            )

    def _raise_out_of_bounds(self, warp: Accessor, indices: tuple[Index, ...]) -> None:
        for lane in np.flatnonzero(warp.mask):
            point = tuple(int(i) if isinstance(i, int) else int(i[lane]) for i in indices)
            for axis, (index, extent) in enumerate(zip(point, self.extents, strict=True)):
                if not 0 <= index < extent:
                    element, thread = element_text(self.buffer, point), int(warp.threads[lane])
                    raise outside_dimension(element, thread, index, 1, axis, extent)

    # -- access ---------------------------------------------------------------------------------------------
    def read(
        self, warp: Accessor, offset: Index, count: int = 1, *, moving: bool = False
    ) -> tuple[Any, np.ndarray | None]:
        """The values of shape (lanes,) or (lanes, count), and which are defined, or None if all are.

        Raises:
            ReadBeforeWrite: The active lanes have not written them, unless they are only moved.
        """
        self._access(warp, offset, count, write=False)
        where: Any
        if isinstance(offset, int):
            where = (slice(None), offset) if count == 1 else (slice(None), slice(offset, offset + count))
        else:
            offset = offset if warp.lanes is None else np.where(warp.mask, offset, 0)
            rows = warp.lane
            where = (rows, offset) if count == 1 else (rows[:, None], offset[:, None] + np.arange(count))
        values = self.data[where].copy()
        flags = self._defined[where]
        if not all_set(flags):
            defined = flags == self._whole
            if moving:
                return values, defined
            defined_lanes = defined if defined.ndim == 1 else defined.all(axis=1)
            unknown = ~defined_lanes & warp.mask
            if unknown.any():
                raise self._undefined(warp, offset, defined, int(np.flatnonzero(unknown)[0]))
        return values, None

    def write(
        self, warp: Accessor, offset: Index, values: Any, count: int = 1, *, defined: np.ndarray | None = None
    ) -> None:
        """Stores one value for all, or values of shape (lanes,) or (lanes, count)."""
        if not self._access(warp, offset, count, write=True):
            return
        array = np.asarray(values)
        if count > 1 and array.ndim == 1:
            array = array[:, None]
        flags = self._whole if defined is None else np.where(defined, self._whole, self._whole.dtype.type(0))
        lanes = warp.lanes
        where: Any
        if isinstance(offset, int):
            columns = offset if count == 1 else slice(offset, offset + count)
            where = (slice(None) if lanes is None else lanes, columns)
        else:
            rows = warp.lane if lanes is None else lanes
            columns = offset if lanes is None else offset[lanes]
            where = (rows, columns) if count == 1 else (rows[:, None], columns[:, None] + np.arange(count))
        if lanes is not None:
            array = array[lanes] if array.ndim and len(array) == warp.size else array
            flags = flags[lanes] if np.ndim(flags) else flags
        self.data[where] = array
        self._defined[where] = flags

    # -- many at once ---------------------------------------------------------------------------------------
    def read_columns(self, columns: Columns) -> tuple[np.ndarray, np.ndarray | None]:
        """The values of some registers of all lanes, and which are defined, or None if all are. Shapes: (lanes, n)."""
        flags = self._defined[:, columns]
        return self.data[:, columns].copy(), None if all_set(flags) else flags == self._whole

    def write_columns(
        self, columns: Columns, values: np.ndarray, *, mask: np.ndarray | None, defined: np.ndarray | None
    ) -> None:
        """Stores into different registers of all lanes, or where the mask says. Shapes: (lanes, n)."""
        known = self._whole if defined is None else np.where(defined, self._whole, self._whole.dtype.type(0))
        if mask is not None:
            values = np.where(mask, values.astype(self.data.dtype, copy=False), self.data[:, columns])
            known = np.where(mask, known, self._defined[:, columns])
        self.data[:, columns] = values
        self._defined[:, columns] = known

    def contents(self) -> tuple[np.ndarray, np.ndarray]:
        """All that `restore` needs."""
        return self.data.copy(), self._flags.copy()

    def restore(self, contents: tuple[np.ndarray, np.ndarray]) -> None:
        """Puts old contents back."""
        self.data[:], self._flags[:] = contents

    def _access(self, warp: Accessor, offset: Index, count: int, *, write: bool) -> bool:
        """Whether an access happens now; see `RegisterHazards.access`."""
        if self.hazards.access_any(warp):
            return True
        own, owner = self._scale
        if own != owner:  # a view of narrower or wider elements
            first = np.asarray(offset) * own // owner
            count = int(np.max((np.asarray(offset) + count) * own - 1) // owner - np.min(first)) + 1
            offset = np.min(first)
        return self.hazards.access(warp, offset, count, write=write)

    def update(
        self, warp: Accessor, offset: np.ndarray, change: Change, *, stores: bool = True, loads: bool = True
    ) -> np.ndarray:
        """Replaces one element per active lane by `change` of it and of the lanes; gives the old values."""
        old: np.ndarray = self.read(warp, offset, moving=not loads)[0]
        if stores:
            self.write(warp, offset, change(old, np.flatnonzero(warp.mask)))
        return old

    def _undefined(self, warp: Accessor, offset: Index, defined: np.ndarray, lane: int) -> ReadBeforeWrite:
        first = int(offset) if isinstance(offset, int) else int(offset[lane])
        if defined.ndim == 2:
            first += int(np.argmin(defined[lane]))
        name = self.buffer.name
        point: list[int] = []
        for stride in self.strides:
            point.append(first // stride)
            first %= stride
        if self.buffer.scope is Scope.VAR:
            hint = f"give it a first value: {name} = T.alloc_var(dtype, init=0)"
        elif self.buffer.loc.file:
            hint = f"write all of it first, for example with T.clear({name})"
        else:  # an array of the compiler, which holds a part of a tile
            hint = "write all of the tile first, for example with T.clear(tile)"
        return ReadBeforeWrite(
            f"{element_text(self.buffer, tuple(point))} of thread {warp.threads[lane]} is read before anything was "
            "written there",
            hint=hint,
        )
