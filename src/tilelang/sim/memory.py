"""The memory of an interpreted kernel: typed windows on bytes, with bounds and never-written tracking.

Takes buffers with concrete shapes, and arrays for the parameters; gives elements and boxes of them. Invariant: every
byte has a flag for whether its contents are defined; reading undefined contents is an error, moving them
moves the flag. Undefined bytes hold a pattern that shows (NaN for floats).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from tilelang.dtypes import DType, lane_dtype
from tilelang.errors import ArgumentError, OutOfBounds, ProgramSizeError, ReadBeforeWrite
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr
from tilelang.ir.host_memory import array_at
from tilelang.ir.scalar import Value, convert
from tilelang.records import record
from tilelang.sim.races import RaceDetector, ShadowMemory, element_text
from tilelang.sim.release_acquire import AtomicAccess
from tilelang.sim.violations import undefined_result

Slices = tuple[slice, ...]


@record(slots=True)
class Box:
    """A box of a buffer in numbers: where it starts, how far it extends, and what of it lies in the buffer.

    Attributes:
        start: First index per dimension.
        extent: Elements per dimension.
        inner: The part in bounds, as slices of a tile of shape `extent`.
        outer: The same part, as slices of the buffer.
    """

    start: tuple[int, ...]
    extent: tuple[int, ...]
    inner: Slices
    outer: Slices


def poison(dtype: DType) -> Value:
    """The contents of undefined memory of a dtype: NaN where there is one, otherwise an unlikely number."""
    if dtype.is_float:
        value = convert(math.nan, dtype)
        return value if math.isnan(float(value)) else convert(dtype.limits[0], dtype)
    return convert(0x5AD1CE5AD1CE5AD1 if dtype.is_int else True, dtype)


class Cells:
    """The elements of one buffer: its data, and per element whether it is defined.

    Attributes:
        data: The elements; a vector dtype adds a last axis for its lanes.
        written: One number per element, with a byte for each byte of the element; `whole` if all are defined.
        extents: The buffer's shape.
        outside: What an access out of bounds of a global buffer reads.
        shadow: The accesses of the launch's blocks to the elements, if they may race.
        place: The key of the memory for the race detector, of an owner of bytes.
        argument: Whether the caller of the kernel sees the contents.
    """

    def __init__(self, buffer: Buffer, data: np.ndarray, written: np.ndarray) -> None:
        self.buffer = buffer
        self.data = data
        self.written = written
        self.whole = np.full(written.itemsize, 1, np.uint8).view(written.dtype)[0]
        self.extents = data.shape[: buffer.rank]
        self.outside: Value = np.zeros(1, data.dtype)[0]
        self.shadow: ShadowMemory | None = None
        self.place: Hashable = buffer
        self.argument = False

    # -- single elements ------------------------------------------------------------------------------------
    def load(self, where: tuple[int, ...]) -> Value:
        """One element; out of bounds of a global buffer its safe value.

        Raises:
            OutOfBounds: Outside an on-chip buffer.
            ReadBeforeWrite: The element is undefined.
        """
        if not self._contains(where):
            return self.outside
        self._need_defined(where)
        if self.shadow is not None:
            self.shadow.read(where)
        value = self.data[where]
        return value.copy() if isinstance(value, np.ndarray | np.void) else value  # which are windows

    def store(self, where: tuple[int, ...], value: Value, *, atomic: bool = False) -> None:
        """Writes one element; out of bounds of a global buffer nothing happens.

        Raises:
            OutOfBounds: Outside an on-chip buffer.
        """
        if not self._contains(where):
            return
        if self.shadow is not None:
            (self.shadow.atomic if atomic else self.shadow.write)(where)
        self.data[where] = value
        self.written[where] = self.whole

    def exchange(self, where: tuple[int, ...], change: Callable[[Value], Value | None]) -> Value:
        """Replaces one element by `change` of it, atomically; gives the old value. None from `change` keeps it."""
        if not self._contains(where):
            return self.outside
        self._need_defined(where)
        old = self.data[where].copy()
        new = change(old)
        if self.shadow is not None:
            self.shadow.atomic(where, stores=new is not None)
        if new is not None:
            self.data[where] = new
        return old

    def atomic_access(self, where: tuple[int, ...], atomic: AtomicAccess) -> None:
        """An element was updated by an atomic, of which other blocks may learn."""
        if self.shadow is not None and self._contains(where):
            first = int(self.data.__array_interface__["data"][0])
            offset = sum(index * stride for index, stride in zip(where, self.data.strides, strict=False))
            self.shadow.atomic_access(first + offset, 0, atomic)  # an element has one address, whatever names it

    def atomic_access_all(self, box: Box, atomic: AtomicAccess) -> None:
        """All elements of a box were updated so."""
        for where in itertools.product(*(range(part.start, part.stop) for part in box.outer)):
            self.atomic_access(where, atomic)

    def _contains(self, where: tuple[int, ...]) -> bool:
        for index, extent in zip(where, self.extents, strict=True):
            if not 0 <= index < extent:
                if self.buffer.scope.on_chip:
                    raise self._outside(where, next(n for n, e in enumerate(self.extents) if not 0 <= where[n] < e))
                return False
        return True

    def _need_defined(self, where: tuple[int, ...]) -> None:
        defined = self.written[where] == self.whole
        if not (defined if defined.ndim == 0 else defined.all()):  # lanes of a vector are read together
            raise self._undefined(where)

    def _outside(self, where: tuple[int, ...], axis: int) -> OutOfBounds:
        return OutOfBounds(
            f"{element_text(self.buffer, where)}: index {where[axis]} is outside dimension {axis}, which has extent "
            f"{self.extents[axis]}",
            hint="only global memory is guarded: compare the index with the extent before the access",
        )

    def _undefined(self, where: tuple[int, ...]) -> ReadBeforeWrite:
        name = self.buffer.name
        match self.buffer.scope:
            case Scope.VAR:
                hint = f"give it a first value: {name} = T.alloc_var(dtype, init=0)"
            case Scope.GLOBAL:
                hint = "a workspace is undefined until a kernel writes it; launch one that does first"
            case _:
                hint = f"write all of it first, for example with T.clear({name})"
        element = element_text(self.buffer, where)
        return ReadBeforeWrite(f"{element} is read before anything was written there", hint=hint)

    # -- boxes ----------------------------------------------------------------------------------------------
    def box(self, start: tuple[int, ...], extent: tuple[int, ...]) -> Box:
        """The box with these numbers.

        Raises:
            OutOfBounds: It is outside of an on-chip buffer.
        """
        inner: list[slice] = []
        outer: list[slice] = []
        for axis, (first, count, size) in enumerate(zip(start, extent, self.extents, strict=True)):
            if self.buffer.scope.on_chip and 0 not in extent and not 0 <= first <= size - count:
                at = first if first < 0 or first >= size else size  # the first index that is outside
                raise self._outside((*start[:axis], at, *start[axis + 1 :]), axis)
            low = min(max(first, 0), size)
            high = max(low, min(first + count, size))
            inner.append(slice(low - first, high - first))
            outer.append(slice(low, high))
        if any(s.start == s.stop for s in outer):  # nothing of the box is in bounds
            inner = outer = [slice(0, 0)] * len(outer)
        return Box(start, extent, tuple(inner), tuple(outer))

    def fetch(self, box: Box, *, atomic: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """A copy of the box, and which elements of it are defined; what is out of bounds reads as `outside`."""
        if self.shadow is not None:
            (self.shadow.atomic if atomic else self.shadow.read)(box.outer)
        lanes = self.data.shape[self.buffer.rank :]
        values = np.full((*box.extent, *lanes), self.outside, self.data.dtype)
        values[box.inner] = self.data[box.outer]
        defined = np.ones(values.shape, bool)
        defined[box.inner] = self.written[box.outer] == self.whole
        return values, defined

    def read(self, box: Box, *, atomic: bool = False) -> np.ndarray:
        """A copy of the box.

        Raises:
            ReadBeforeWrite: An element of it is undefined.
        """
        values, defined = self.fetch(box, atomic=atomic)
        if not defined.all():
            at = np.argwhere(~defined)[0][: self.buffer.rank]
            raise self._undefined(tuple(int(i) + first for i, first in zip(at, box.start, strict=True)))
        return values

    def write(self, box: Box, values: np.ndarray, defined: np.ndarray | None = None, *, atomic: bool = False) -> None:
        """Stores one value everywhere, or as many as the box has elements; what is out of bounds is dropped.

        Args:
            box: Where.
            values: What, in row-major order.
            defined: Which of the values are; None means all.
            atomic: Whether the access is atomic.

        Raises:
            ReadBeforeWrite: Undefined values are stored to an argument of the kernel.
        """
        if self.shadow is not None:
            (self.shadow.atomic if atomic else self.shadow.write)(box.outer)
        shape = (*box.extent, *self.data.shape[self.buffer.rank :])
        self.data[box.outer] = (values.reshape(shape) if values.ndim else np.full(shape, values))[box.inner]
        if defined is None:
            self.written[box.outer] = self.whole
        elif self.argument and not (all_defined := defined.reshape(shape)[box.inner]).all():
            at = zip(np.argwhere(~all_defined)[0], box.outer, strict=False)
            raise undefined_result(element_text(self.buffer, tuple(int(i) + part.start for i, part in at)))
        else:
            self.written[box.outer] = np.where(defined.reshape(shape)[box.inner], self.whole, 0)


class Memory:
    """All buffers that exist at a moment of the run: per owner of bytes, the windows on them.

    Args:
        numbers: Evaluates extents or strides when a buffer is allocated.
    """

    def __init__(self, numbers: Callable[[tuple[Expr, ...]], tuple[int, ...]]) -> None:
        self._numbers = numbers
        self._windows: dict[Buffer, dict[Buffer, Cells]] = {}
        self._races: RaceDetector | None = None
        self._safe_values: Mapping[Buffer, Value] = {}

    def bind(self, buffer: Buffer, array: np.ndarray, place: Hashable = None) -> None:
        """Makes an argument the contents of a global buffer; all of it counts as written.

        Args:
            buffer: The buffer.
            array: The argument.
            place: The key of the memory for the race detector; the buffer itself without it.
        """
        flags = np.ones(array.size * array.itemsize, np.uint8)
        self._windows[buffer] = {}
        cells = Cells(buffer, array, _window(flags, _flag_dtype(array), array.shape))
        cells.place = buffer if place is None else place
        cells.argument = True
        self._add(cells)

    def place(self, buffer: Buffer, address: int) -> None:
        """Makes the memory of this process at an address the contents of a global buffer.

        Raises:
            OutOfBounds: The address is 0.
        """
        shape, strides = self._numbers(buffer.shape), buffer.strides
        steps = None if strides is None else self._numbers(strides)
        self.bind(buffer, array_of(buffer, address, shape, steps), (buffer, address, shape))

    def allocate(self, buffer: Buffer) -> None:
        """Allocates a buffer, undefined; replaces a previous allocation and all its views."""
        data = np.full(self._full_shape(buffer), poison(lane_dtype(buffer.dtype)), buffer.dtype.numpy)
        flags = np.zeros(data.size * data.itemsize, np.uint8)
        self._windows[buffer] = {}
        self._add(Cells(buffer, data, _window(flags, _flag_dtype(data), data.shape)))

    def cells(self, buffer: Buffer) -> Cells:
        """The elements of a buffer; a view is made on first use."""
        found = self._windows[buffer.storage].get(buffer)
        return found if found is not None else self._view(buffer)

    def begin_launch(self, races: RaceDetector | None, safe_values: Mapping[Buffer, Value]) -> None:
        """Watches the accesses of the launch that follows, and reads these values out of bounds."""
        self._races, self._safe_values = races, safe_values
        for windows in self._windows.values():
            for cells in windows.values():
                self._attach(cells)

    def _view(self, buffer: Buffer) -> Cells:
        owner = self._windows[buffer.storage][buffer.storage]
        shape, name = self._full_shape(buffer), buffer.storage.name
        if not owner.data.flags.c_contiguous:
            raise ArgumentError(
                f"'{name}': expected a dense row-major array, because '{buffer.name}' is a view of it",
                hint="pass a contiguous copy",
            )
        size_bytes = math.prod(shape) * buffer.dtype.numpy.itemsize
        if size_bytes > owner.data.nbytes:
            raise ProgramSizeError(
                f"'{buffer.name}' is {shape} of {buffer.dtype!s}, but '{name}' has {owner.data.nbytes} bytes",
                hint="another name of a buffer takes no more bytes than there are",
            )
        data = _window(owner.data.reshape(-1).view(np.uint8)[:size_bytes], buffer.dtype.numpy, shape)
        flags = _window(owner.written.reshape(-1).view(np.uint8)[:size_bytes], _flag_dtype(data), shape)
        cells = Cells(buffer, data, flags)
        cells.argument = owner.argument
        return self._add(cells)

    def _add(self, cells: Cells) -> Cells:
        self._windows[cells.buffer.storage][cells.buffer] = cells
        self._attach(cells)
        return cells

    def _attach(self, cells: Cells) -> None:
        buffer = cells.buffer
        cells.shadow = None
        if not buffer.scope.on_chip:
            if self._races is not None:
                owner = self._windows[buffer.storage][buffer.storage]
                cells.shadow = self._races.shadow(buffer, cells.data.shape, owner.data.nbytes, owner.place)
            cells.outside = self._safe_values.get(buffer, np.zeros(1, cells.data.dtype)[0])

    def _full_shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of the array that holds the buffer: lanes of a vector dtype are a last axis."""
        lanes = (buffer.dtype.lanes,) if buffer.dtype.lanes > 1 else ()
        return (*self._numbers(buffer.shape), *lanes)


def array_of(
    buffer: Buffer, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> np.ndarray:
    """The memory of this process where a tensor at an address lies; lanes of a vector dtype are a last axis.

    Raises:
        OutOfBounds: The address is 0.
    """
    if not address and 0 not in shape:
        raise OutOfBounds(f"'{buffer.name}' is a tensor at address 0", hint="pass the address of a tensor")
    lanes = buffer.dtype.lanes
    if lanes > 1:
        strides = strides and (*(stride * lanes for stride in strides), 1)
        shape = (*shape, lanes)
    return array_at(address, shape, buffer.dtype.numpy, strides)


def _window(flat: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return flat.view(dtype).reshape(shape)


def _flag_dtype(data: np.ndarray) -> np.dtype:
    return np.dtype(f"u{data.itemsize}")
