"""The memory that threads share, as a warp accesses it: the arena of a block, and the arrays of a kernel.

Takes one offset per lane and gives values per lane, or stores them. Invariant: every access is checked before it
happens: bounds per dimension, alignment of vectors, undefined contents, races with other threads and blocks, pending
asynchronous work. Tiles that share bytes of the arena share them here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.errors import ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.sim import violations
from tilelang.sim.history import Conflict
from tilelang.sim.races import element_text
from tilelang.sim.release_acquire import AtomicAccess
from tilelang.sim.storage import MAX_VECTOR_BYTES, UNSIGNED, Accessor, Change, Index, Storage, active_lanes, all_set


class Window:
    """A buffer in a storage.

    Args:
        buffer: What is named.
        storage: Where it lies.
        begin: Byte of the storage at which index 0 of every dimension lies.
        extents: The shape in numbers.
        strides: In elements, per dimension; row-major if None.
        mark: What flags say of bytes that were written through this window, or another one of the same memory.
    """

    def __init__(
        self,
        buffer: Buffer,
        storage: Storage,
        begin: int,
        extents: tuple[int, ...],
        strides: Sequence[int] | None = None,
        mark: int = 1,
    ) -> None:
        self.buffer, self.storage, self.extents, self.mark = buffer, storage, extents, mark
        dtype = buffer.dtype
        self.itemsize = dtype.numpy.itemsize
        self.per_element = dtype.lanes
        self.memory = "global" if buffer.scope is Scope.GLOBAL else "shared"
        dense = row_major(extents)
        self.strides = tuple(s * dtype.lanes for s in (dense if strides is None else strides))
        self._begin = begin
        first = begin % self.itemsize
        usable = (storage.bytes.size - first) // self.itemsize * self.itemsize
        self.data = storage.bytes[first : first + usable].view(dtype.numpy)
        self._first = begin // self.itemsize  # of `data`, where offset 0 lies
        self._flags: np.ndarray | None = None
        self._flags_of: np.ndarray | None = None
        self._whole = np.full(self.itemsize, mark, np.uint8).view(f"u{self.itemsize}")[0]
        self._low, self._high = self._reach()
        self.size = self._high + 1

    @property
    def begin(self) -> int:
        """The byte of the storage at which index 0 of every dimension lies."""
        return self._begin

    def _reach(self) -> tuple[int, int]:
        """The least and the greatest offset of an element, in scalars; empty if the second is less."""
        if 0 in self.extents:
            return 0, -1
        ends = [(extent - 1) * stride for extent, stride in zip(self.extents, self.strides, strict=True)]
        return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends) + self.per_element - 1

    # -- addresses ------------------------------------------------------------------------------------------
    def offset(self, warp: Accessor, indices: tuple[Index, ...], count: int) -> Index:
        """The offset of an element in scalars, checked per dimension.

        Args:
            warp: The accessing warp; inactive lanes may have any index.
            indices: One per dimension.
            count: Neighboring scalars along the last dimension that are accessed.

        Raises:
            OutOfBounds: The index of an active lane is out of bounds.
        """
        total: Index = 0
        last = len(indices) - 1
        for axis, index in enumerate(indices):
            extent = self.extents[axis]
            if axis == last and count > self.per_element:
                extent -= count // self.per_element - 1
                if self.strides[axis] != self.per_element and self.extents[axis] > 1:
                    raise violations.scattered_vector(self.buffer.name, count, axis, self.strides[axis])
            if isinstance(index, int):
                if not 0 <= index < extent:
                    self._raise_out_of_bounds(warp, indices, axis, index, count)
            elif np.count_nonzero(index.view(UNSIGNED) >= extent):  # negative ones are the largest then
                outside = ((index < 0) | (index >= extent)) & warp.mask
                if np.count_nonzero(outside):
                    lane = int(np.flatnonzero(outside)[0])
                    of_lane = tuple(_of_lane(i, lane) for i in indices)
                    self._raise_out_of_bounds(warp, of_lane, axis, int(index[lane]), count, lane)
            stride = self.strides[axis]
            total = total + (index if stride == 1 else index * stride)
        return total

    def _raise_out_of_bounds(
        self, warp: Accessor, indices: tuple[Index, ...], axis: int, index: int, count: int, lane: int | None = None
    ) -> None:
        lane = int(np.flatnonzero(warp.mask)[0]) if lane is None else lane
        element = element_text(self.buffer, tuple(_of_lane(i, lane) for i in indices))
        thread, width = int(warp.threads[lane]), count // self.per_element
        raise violations.outside_dimension(element, thread, index, width, axis, self.extents[axis])

    def contain(self, warp: Accessor, offset: np.ndarray, count: int) -> None:
        """Checks offsets that no indices belong to.

        Raises:
            OutOfBounds: The index of an active lane is out of bounds.
        """
        outside = ((offset < self._low) | (offset + count - 1 > self._high)) & warp.mask
        if np.count_nonzero(outside):
            lane = int(np.flatnonzero(outside)[0])
            raise violations.outside_buffer(
                self.buffer.name, int(warp.threads[lane]), int(offset[lane]), count, self._high + 1
            )

    def _aligned(self, warp: Accessor, elements: np.ndarray, count: int) -> None:
        size = count * self.itemsize
        width = min(MAX_VECTOR_BYTES, size & -size)
        bad = (elements * self.itemsize + (self.storage.base + self._begin)) & (width - 1)
        if np.count_nonzero(bad):
            at = int(np.flatnonzero(bad)[0])
            lane = at if warp.lanes is None else int(warp.lanes[at])
            byte = int(elements[at]) * self.itemsize + self._begin + self.storage.base
            raise violations.misaligned(
                self._element(int(elements[at])), int(warp.threads[lane]), count, size, byte, width
            )

    # -- access ---------------------------------------------------------------------------------------------
    def read(
        self, warp: Accessor, offset: Index, count: int = 1, *, moving: bool = False
    ) -> tuple[Any, np.ndarray | None]:
        """Reads `count` neighbors per active lane.

        Args:
            warp: Who reads.
            offset: Where, in scalars; checked by `offset` or `contain`.
            count: How many.
            moving: Whether undefined contents may be read, because they are only moved.

        Returns:
            The values, of shape (lanes,) or (lanes, count), or one that all lanes share; and which of them are defined,
            or None if all are.

        Raises:
            ReadBeforeWrite: The contents are undefined, or a pending copy writes them.
            DataRace: Another thread or block may be writing them.
        """
        storage = self.storage
        if storage.guard is not None:
            self._need_wait(warp, offset, reads=True)
        if isinstance(offset, int) and count == 1 and storage.history is None and storage.flags is None:
            if warp.counters is not None:
                self._count(warp, "load", np.full(_active(warp), offset), 1)
            return self.data[offset + self._first], None
        where, elements = self._elements(warp, offset, count)
        if count > 1:
            self._aligned(warp, where, count)
        if storage.history is not None:  # first, because a race is the better explanation of undefined contents
            self._note_read(warp, elements)
        at = elements + self._first if self._first else elements
        values = self.data[at]
        defined = None
        if storage.flags is not None:
            flags = self._typed_flags()[at]
            if not all_set(flags, self.mark):
                defined = flags == self._whole
                if not moving:
                    raise self._undefined(warp, elements, defined)
        if warp.counters is not None:
            self._count(warp, "load", where, count)
        if warp.lanes is None:
            return values, defined
        return _spread(warp, values), None if defined is None else _spread(warp, defined)

    def write(
        self, warp: Accessor, offset: Index, values: Any, count: int = 1, *, defined: np.ndarray | None = None
    ) -> None:
        """Writes `count` neighbors per active lane.

        Args:
            warp: Who writes.
            offset: Where, in scalars; checked by `offset` or `contain`.
            values: One for all, or of shape (lanes,) or (lanes, count).
            count: How many.
            defined: Which of the values are; None means all.

        Raises:
            ReadBeforeWrite: An undefined value is stored to an argument of the kernel.
            DataRace: Another thread or block may be accessing them, or lanes write different values.
        """
        if self.storage.guard is not None:
            self._need_wait(warp, offset, reads=False)
        where, elements = self._elements(warp, offset, count)
        if count > 1:
            self._aligned(warp, where, count)
        values = self._of_active(warp, values, elements.shape)
        at = elements + self._first
        footprint = warp.footprint
        if self.storage.history is not None:
            units, stamps = self._units(warp, elements)
            found = self.storage.history.write(
                units, stamps, lambda: self._differs(at, values, units), enter=footprint is None
            )
            if found is not None:
                raise self._conflict(found, elements)
            if footprint is None:
                self._note_blocks_write(warp, units, stamps)
                self._note_unretired(warp, units, "store")
        if warp.counters is not None:
            self._count(warp, "store", where, count)
        if footprint is not None:
            footprint.writes.append((self, active_lanes(warp), self._plain_units(elements)))
            return
        before = self.data[at].tobytes() if warp.tracks_changes else None
        self.data[at] = values
        if before is None or before != self.data[at].tobytes():
            warp.changed()
        if defined is not None:
            defined_elements = self._of_active(warp, defined, elements.shape)
            if self.memory == "global" and self.storage.flags is None and not defined_elements.all():
                first = tuple(np.argwhere(~defined_elements)[0])
                thread = int(warp.threads[active_lanes(warp)[first[0]]])
                raise violations.undefined_result(self._element(int(elements[first])), f" by thread {thread}")
            self.storage.track_contents()
            self._typed_flags()[at] = np.where(defined_elements, self._whole, 0)
        elif self.storage.flags is not None:
            self._typed_flags()[at] = self._whole
        if self.storage.history is not None:
            collided = self.storage.history.collisions(units, stamps)
            if np.count_nonzero(collided):
                self._lanes_agree(warp, elements, units, collided & self._differs(at, values, units))

    def update(
        self, warp: Accessor, offset: np.ndarray, change: Change, *, stores: bool = True, loads: bool = True
    ) -> np.ndarray:
        """Replaces one element per active lane, lane after lane where lanes name the same; gives the old values.

        Args:
            warp: Who does it.
            offset: Where, in scalars, per lane; checked by `offset` or `contain`.
            change: From old values to new ones, both of shape (lanes,), and the lanes for which the new ones matter.
            stores: Whether the element may change.
            loads: Whether its old contents matter.
        """
        if self.storage.guard is not None:
            self._need_wait(warp, offset, reads=False)
        lanes = active_lanes(warp)
        elements = offset[lanes]
        at = elements + self._first
        if loads and self.storage.flags is not None:
            defined = self._typed_flags()[at] == self._whole
            if not defined.all():
                raise self._undefined(warp, elements, defined)
        if self.storage.history is not None:
            self._note_atomic(warp, elements, lanes, stores)
        if warp.counters is not None:
            self._count(warp, "atomic", elements, 1)
        old = np.zeros(warp.size, self.data.dtype)
        before = self.data[at].tobytes() if warp.tracks_changes else None
        left = np.arange(len(lanes))
        while len(left):  # one lane per element and round
            _, first = np.unique(at[left], return_index=True)
            chosen = left[first]
            old[lanes[chosen]] = self.data[at[chosen]]
            if stores:
                self.data[at[chosen]] = np.asarray(change(old, lanes[chosen]))[lanes[chosen]]
            left = np.delete(left, first)
        if stores and (before is None or before != self.data[at].tobytes()):
            warp.changed()
        if stores and self.storage.flags is not None:
            self._typed_flags()[at] = self._whole
        return old

    def atomic_access(self, warp: Accessor, offset: np.ndarray, atomic: AtomicAccess) -> None:
        """The active lanes have updated these elements by atomics, of which other blocks may learn."""
        shadow, lanes = self.storage.shadow, active_lanes(warp)
        if shadow is not None:
            places, threads = (offset[lanes] + self._first).tolist(), warp.thread_ids[lanes].tolist()
            for place, thread in zip(places, threads, strict=True):
                shadow.atomic_access((id(self.storage), place * self.itemsize), thread, atomic)

    # -- asynchronous work ----------------------------------------------------------------------------------
    def begin_pending_write(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Asynchronous work of these lanes will write units. Shapes: lanes (n,), units (n, ...)."""
        if self.storage.history is not None:
            self.storage.history.begin_pending_write(units, self._stamps(warp, lanes, units))

    def begin_pending_read(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Asynchronous work of these lanes will read units. Shapes: lanes (n,), units (n, ...)."""
        if self.storage.history is not None:
            self.storage.history.begin_pending_read(units, self._stamps(warp, lanes, units))

    def end_pending_write(self, units: np.ndarray) -> None:
        """Asynchronous work is about to write units."""
        if self.storage.history is not None:
            self.storage.history.end_pending_write(units)

    def end_pending_read(self, units: np.ndarray) -> None:
        """Asynchronous work is about to read units."""
        if self.storage.history is not None:
            self.storage.history.end_pending_read(units)

    def _need_wait(self, warp: Accessor, offset: Index, *, reads: bool) -> None:
        """Reports an access by a thread that has not waited for the launches in front."""
        guard = self.storage.guard
        assert guard is not None
        thread = guard.first_missing(warp.thread_ids[warp.mask], reads=reads)
        if thread is not None:
            lane = int(np.flatnonzero(warp.thread_ids == thread)[0])
            raise violations.too_early(self._element(_of_lane(offset, lane)), int(warp.threads[lane]), reads=reads)

    # -- parts of an access -----------------------------------------------------------------------------------
    def _elements(self, warp: Accessor, offset: Index, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Offsets of the active lanes, and of all elements they access. Shapes: (active,) and (active[, count])."""
        if isinstance(offset, int):
            where = np.full(_active(warp), offset)
        else:
            where = offset if warp.lanes is None else offset[warp.lanes]
        return where, where if count == 1 else where[:, None] + np.arange(count)

    def _of_active(self, warp: Accessor, values: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(values)
        if array.ndim and warp.lanes is not None:
            array = array[warp.lanes]
        if array.ndim == 1 and len(shape) == 2:
            array = array[:, None]
        return array if array.shape == shape else np.broadcast_to(array, shape)

    def _typed_flags(self) -> np.ndarray:
        flags = self.storage.flags
        assert flags is not None
        if self._flags is None or self._flags_of is not flags:
            first = self._begin % self.itemsize
            self._flags_of = flags
            self._flags = flags[first : first + self.data.size * self.itemsize].view(f"u{self.itemsize}")
        return self._flags

    def _plain_units(self, elements: np.ndarray) -> np.ndarray:
        per, begin = self.itemsize // self.storage.unit, self._begin // self.storage.unit
        if per == 1:
            return elements + begin if begin else elements
        units: np.ndarray = (elements * per + begin)[..., None] + np.arange(per)
        return units

    def _units(self, warp: Accessor, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        units = self._plain_units(elements)
        return units, self._stamps(warp, warp.lanes, units)

    def _stamps(self, warp: Accessor, lanes: np.ndarray | None, units: np.ndarray) -> np.ndarray:
        history = self.storage.history
        assert history is not None
        threads = warp.thread_ids if lanes is None else warp.thread_ids[lanes]
        stamps = history.stamps(threads, warp.loc, self.buffer.name)
        return stamps if units.ndim == 1 else stamps.repeat(units[0].size).reshape(units.shape)

    def _note_read(self, warp: Accessor, elements: np.ndarray) -> None:
        history, footprint = self.storage.history, warp.footprint
        assert history is not None
        units, stamps = self._units(warp, elements)
        found = history.read(units, stamps, enter=footprint is None)
        if found is not None:
            raise self._conflict(found, elements)
        if footprint is not None:
            footprint.reads.append((self, active_lanes(warp), units))
            return
        if self.storage.shadow is not None:
            self.storage.shadow.at(warp.loc).read((units,), stamps)
        self._note_unretired(warp, units, "load")

    def _note_unretired(self, warp: Accessor, units: np.ndarray, kind: str) -> None:
        """Notes an access of threads, which barriers may not wait for; asynchronous work has waits of its own."""
        if warp.unretired is not None and not warp.completing:
            warp.unretired.add(self, warp.thread_ids[active_lanes(warp)], units, kind, warp.loc)

    def _note_blocks_write(self, warp: Accessor, units: np.ndarray, stamps: np.ndarray) -> None:
        if self.storage.shadow is not None:
            self.storage.shadow.at(warp.loc).write((units,), stamps)

    def _note_atomic(self, warp: Accessor, elements: np.ndarray, lanes: np.ndarray, stores: bool) -> None:
        history = self.storage.history
        assert history is not None
        units, stamps = self._units(warp, elements)
        history.follow_atomics(self._plain_units(elements).reshape(len(lanes), -1)[:, 0], warp.thread_ids[lanes])
        found = history.atomic(units, stamps, stores=stores)
        if found is not None:
            raise self._conflict(found, elements)
        if self.storage.shadow is not None:
            self.storage.shadow.at(warp.loc).atomic((units,), stamps, stores=stores)

    def _differs(self, at: np.ndarray, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        changed = _bits(self.data[at]) != _bits(values)
        return changed if changed.ndim == units.ndim else np.broadcast_to(changed[..., None], units.shape)

    def _count(self, warp: Accessor, kind: str, where: np.ndarray, count: int) -> None:
        counters = warp.counters
        assert counters is not None
        width = count * self.itemsize
        addresses = where * self.itemsize + (self._begin + self.storage.base)
        counters.count(f"{kind} {self.memory} {width * 8}")
        if self.memory == "global":
            counters.global_access(kind, addresses, width, warp.loc)
        else:
            counters.shared_access(kind, addresses, active_lanes(warp), width, warp.loc, warp.machine)

    # -- errors ------------------------------------------------------------------------------------------------
    def _element(self, offset: int) -> str:
        """An element by its offset, as a user would write it."""
        rest = offset - self._low
        found = [0] * len(self.extents)
        for axis in sorted(range(len(self.extents)), key=lambda axis: -abs(self.strides[axis])):
            extent, stride = self.extents[axis], self.strides[axis]
            if extent > 1 and stride:
                steps = rest // abs(stride)
                rest -= steps * abs(stride)
                found[axis] = steps if stride > 0 else extent - 1 - steps
        return element_text(self.buffer, tuple(found))

    def element_of_unit(self, where: tuple[int, ...]) -> str:
        """An element by a unit of the storage, for the race detector."""
        return self._element((where[0] * self.storage.unit - self._begin) // self.itemsize)

    def _undefined(self, warp: Accessor, elements: np.ndarray, defined: np.ndarray) -> ReadBeforeWrite:
        at = tuple(np.argwhere(~defined)[0])
        thread = int(warp.threads[active_lanes(warp)[at[0]]])
        return violations.undefined(self._element(int(elements[at])), thread, self.memory)

    def _conflict(self, found: Conflict, elements: np.ndarray) -> SimulationError:
        element = self._element(int(elements[found.position[: elements.ndim]]))
        return violations.conflicting(element, self.buffer.name, found)

    def _lanes_agree(
        self, warp: Accessor, elements: np.ndarray, units: np.ndarray, wrong: np.ndarray
    ) -> None:
        """Raises if lanes wrote to one unit in one statement what another lane's write replaced."""
        if wrong.any():
            position = tuple(np.argwhere(wrong)[0])
            history = self.storage.history
            assert history is not None
            raise violations.disagreeing(
                self._element(int(elements[position[: elements.ndim]])),
                int(warp.threads[active_lanes(warp)[position[0]]]),
                history.collided_with(int(units[position])) - int(warp.thread_ids[0] - warp.threads[0]),
            )


def row_major(extents: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense array whose last dimension runs fastest."""
    strides: list[int] = []
    step = 1
    for extent in reversed(extents):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _active(warp: Accessor) -> int:
    return warp.size if warp.lanes is None else len(warp.lanes)


def _of_lane(index: Index, lane: int) -> int:
    return int(index) if np.ndim(index) == 0 else int(index[lane])


def _spread(warp: Accessor, values: np.ndarray) -> np.ndarray:
    """Values of the active lanes in their places among all lanes."""
    out = np.zeros((warp.size, *values.shape[1:]), values.dtype)
    out[warp.lanes] = values
    return out


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
