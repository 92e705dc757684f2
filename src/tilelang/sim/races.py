"""Data races between the blocks of one launch: which block accessed which element of global memory, and how.

Takes the accesses of a launch as they happen, raises `DataRace` when two blocks touch one element and at least one of
them writes without an atomic. Invariant: only atomics order blocks, so that a race is reported whatever order the
simulator runs them in. Only memory that some statement of the launch may write is tracked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from tilelang.analysis.tensor_map_stores import stored_by_tensor_maps
from tilelang.errors import NOWHERE, DataRace, Loc, MissingProxyFence, Note
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.stmt import Atomic, CallStmt, Launch, TileOp
from tilelang.ir.visit import expressions, loads_of, walk, written_buffers
from tilelang.sim.clocks import Clocks
from tilelang.sim.release_acquire import AtomicAccess, ReleaseAcquire, releases_and_acquires

Where = tuple[int, ...] | tuple[slice, ...] | tuple[np.ndarray]  # one element, a box, or places in a row

# An access is kept as one number: the block, counted from 1, above the place in the program. 0: there was none.
_PLACE_BITS = 32


def element_text(buffer: Buffer, where: tuple[int, ...]) -> str:
    """An element as a user would write it."""
    return f"{buffer.name}[{', '.join(map(str, where))}]" if where else buffer.name


class RaceDetector:
    """The accesses of the blocks of one launch to global memory.

    Args:
        launch: The launch.
        cluster_size: Blocks per cluster, which are numbered consecutively; `sim.history` finds races among them.
        clocks: What orders the threads of a block; those of one that is a sequential program if absent.

    Attributes:
        loc: The place of the statement being executed.
        block: The number of the running block, counted from 1 in the order of beginning.
        release_acquire: Which accesses of other blocks happened before; None if no atomics of the launch order any.
    """

    def __init__(self, launch: Launch, cluster_size: int = 1, clocks: Clocks | None = None) -> None:
        self.loc = NOWHERE
        self.release_acquire = ReleaseAcquire(clocks or Clocks(1)) if releases_and_acquires(launch) else None
        self._cluster_size = cluster_size
        self._units = _accessed_units(launch)
        self._records: dict[Hashable, np.ndarray] = {}
        self._blocks: list[tuple[int, ...]] = []
        self._places: dict[Loc, int] = {}
        self._locs: list[Loc] = []
        self._flat: list[np.ndarray] = []
        self.block = 0

    def enter(self, block: tuple[int, ...]) -> int:
        """A block begins; gives its number."""
        self._blocks.append(block)
        self.block = len(self._blocks)
        return self.block

    def own(self, stamps: np.ndarray) -> np.ndarray:
        """Which stamps are of the running block or its cluster."""
        own: np.ndarray = self._clusters_of(stamps) == self._cluster()
        return own

    def happened_before(self, stamps: np.ndarray, now: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Which accesses of other blocks happened before what happens now.

        Args:
            stamps: Which blocks they are of.
            now: Stamps of `sim.history` of what happens now.
            earlier: Such stamps of the accesses. Shapes: all alike.
        """
        assert self.release_acquire is not None
        self.release_acquire.cluster = self._cluster()
        return self.release_acquire.happened_before(now, self._clusters_of(stamps), earlier)

    def visible_to_async_proxy(self, stamps: np.ndarray, thread: int, earlier: np.ndarray) -> np.ndarray:
        """Which writes of other blocks are visible to a transfer that a thread starts now.

        Args:
            stamps: Which blocks they are of.
            thread: Who starts it.
            earlier: Stamps of `sim.history` of the writes. Shapes: as `stamps`.
        """
        assert self.release_acquire is not None
        self.release_acquire.cluster = self._cluster()
        return self.release_acquire.visible_to_async_proxy(thread, self._clusters_of(stamps), earlier)

    def fence(self, threads: Iterable[int]) -> None:
        """Threads of the running block execute a proxy fence for global memory."""
        if self.release_acquire is not None:
            self.release_acquire.cluster = self._cluster()
            for thread in threads:
                self.release_acquire.fence(thread)

    def atomic_access(self, element: Hashable, thread: int, atomic: AtomicAccess) -> None:
        """A thread of the running block accesses an element of global memory by an atomic."""
        if self.release_acquire is not None:
            self.release_acquire.cluster = self._cluster()
            self.release_acquire.update(element, thread, atomic)

    def _clusters_of(self, stamps: np.ndarray) -> np.ndarray:
        """The clusters of the blocks of stamps, counted from 0."""
        blocks: np.ndarray = stamps >> _PLACE_BITS
        return blocks - 1 if self._cluster_size == 1 else (blocks - 1) // self._cluster_size

    def _cluster(self) -> int:
        return (self.block - 1) // self._cluster_size

    def grid_sync(self) -> None:
        """A barrier of all blocks: what they did happens before what they will do."""
        for slots in (*self._records.values(), *self._flat):
            slots[...] = 0

    def stamp(self) -> int:
        """The running block and statement as one number."""
        place = self._places.get(self.loc)
        if place is None:
            place = self._places[self.loc] = len(self._locs)
            self._locs.append(self.loc)
        return self.block << _PLACE_BITS | place

    def describe(self, stamp: int) -> tuple[tuple[int, ...], Loc]:
        """The block and the place that a number stands for."""
        return self._blocks[(stamp >> _PLACE_BITS) - 1], self._locs[stamp & (1 << _PLACE_BITS) - 1]

    def unit(self, storage: Buffer) -> int | None:
        """Bytes of the smallest element by which the memory is accessed, or None if it is read-only."""
        return self._units.get(storage)

    def shadow(
        self, buffer: Buffer, shape: tuple[int, ...], storage_bytes: int, place: Hashable = None
    ) -> ShadowMemory | None:
        """The shadow memory of a buffer's elements, or None if its memory is read-only.

        Args:
            buffer: A global buffer, possibly a view.
            shape: The shape of the array that holds it.
            storage_bytes: Size of the memory that it names.
            place: By which the memory is known; the buffer that owns it without one.
        """
        unit = self._units.get(buffer.storage)
        if unit is None:
            return None
        place = buffer.storage if place is None else place
        if place not in self._records:
            self._records[place] = self._slots(storage_bytes // unit)
        per_element = buffer.dtype.numpy.itemsize // unit
        units = (per_element,) if per_element > 1 else ()
        count = math.prod((*shape, *units))  # a view may name the first bytes only
        slots = self._records[place][:, :count]
        return ShadowMemory(self, buffer, slots.reshape(len(slots), *shape, *units))

    def flat_shadow(self, storage: Buffer, storage_bytes: int, text: Callable[[tuple[int, ...]], str]) -> ShadowMemory:
        """The shadow memory of a storage as one row of units.

        Args:
            storage: A global buffer that owns its bytes and that the launch may write.
            storage_bytes: Size of its memory.
            text: A unit as a user would write it.
        """
        self._flat.append(self._slots(storage_bytes // self._units[storage]))
        return ShadowMemory(self, storage, self._flat[-1], text)

    def _slots(self, units: int) -> np.ndarray:
        """Slots per unit for the last accesses, and as many for their times and threads if atomics order blocks."""
        return np.zeros((_SLOTS if self.release_acquire is None else 2 * _SLOTS, units), np.int64)


_WRITER, _READERS, _ATOMICS, _ATOMIC_LOADS = 0, (1, 2), (3, 4), (5, 6)
_SLOTS = 7


class ShadowMemory:
    """The shadow memory of one buffer: per element the last writer, and two each of readers, atomic updates and loads.

    Two of a kind are enough to know whether a block other than the one that asks was there: the second is never of
    the same block as the first. Where atomics order blocks, a race with a third block may go undetected.
    """

    def __init__(
        self,
        races: RaceDetector,
        buffer: Buffer,
        slots: np.ndarray,
        text: Callable[[tuple[int, ...]], str] | None = None,
    ) -> None:
        self._races = races
        self._buffer = buffer
        self._text = text or functools.partial(element_text, buffer)
        self._blocks, self._whens = slots[:_SLOTS], slots[_SLOTS:] if races.release_acquire is not None else None

    def at(self, loc: Loc) -> ShadowMemory:
        """The same record, for an access of this statement."""
        self._races.loc = loc
        return self

    def read(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block reads elements.

        Args:
            where: Which.
            stamps: When, and who does it, as of `sim.history`; None if a block is one thread.

        Raises:
            DataRace: Another block wrote one of them.
        """
        self.may_read(where, stamps)
        self.has_read(where, stamps)

    def may_read(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block is about to read elements; as `read`."""
        now = self._now(stamps)
        for slot in (_WRITER, *_ATOMICS):
            self._refuse(slot, where, now, "written", "read")

    def has_read(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block has read elements; as `read`."""
        self._enter(_READERS, where, self._now(stamps))

    def write(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block writes elements.

        Args:
            where: Which.
            stamps: As in `read`.

        Raises:
            DataRace: Another block touched one of them.
        """
        self.may_write(where, stamps)
        self.has_written(where, stamps)

    def may_write(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block is about to write elements; as `write`."""
        every_kind = (slice(None), *where)
        earlier = self._blocks[every_kind]
        if not ((earlier != 0) & ~self._races.own(earlier)).any():
            return
        now = self._now(stamps)
        self._refuse(_WRITER, where, now, "written", "written")
        for slot in _ATOMICS:
            self._refuse(slot, where, now, "updated by an atomic", "written")
        for slot in _ATOMIC_LOADS:
            self._refuse(slot, where, now, "read by an atomic", "written")
        for slot in _READERS:
            self._refuse(slot, where, now, "read", "written")

    def has_written(self, where: Where, stamps: np.ndarray | None = None) -> None:
        """The running block has written elements; as `write`."""
        self._blocks[_WRITER][where] = self._races.stamp()
        if self._whens is not None:
            self._whens[_WRITER][where] = self._now(stamps)

    def is_foreign(self, where: Where) -> np.ndarray:
        """Which elements a block of another cluster wrote last."""
        earlier = self._blocks[_WRITER][where]
        foreign: np.ndarray = (earlier != 0) & ~self._races.own(earlier)
        return foreign

    def need_fence(self, where: Where, thread: int, does: str) -> None:
        """A thread of the running block starts a transfer of elements.

        Args:
            where: Which.
            thread: Who.
            does: What the transfer does to them: "read" or "written".

        Raises:
            MissingProxyFence: Another block wrote one of them, and no fence makes that visible to the async proxy.
        """
        if self._whens is None:
            return
        for slot in (_WRITER, *_ATOMICS):
            earlier = self._blocks[slot][where]
            hidden = (earlier != 0) & ~self._races.own(earlier)
            if hidden.any():
                hidden &= ~self._races.visible_to_async_proxy(earlier, thread, self._whens[slot][where])
            if hidden.any():
                at = np.argwhere(hidden)[0]
                raise self._unfenced(_element(where, at), int(earlier[tuple(at)]), does)

    def _unfenced(self, element: tuple[int, ...], stamp: int, does: str) -> MissingProxyFence:
        (here, _), (there, loc) = self._races.describe(self._races.stamp()), self._races.describe(stamp)
        return MissingProxyFence(
            f"{self._text(element)} was written by a thread of block {_block_text(there)} and is {does} by an "
            f"asynchronous copy of block {_block_text(here)}, without a proxy fence between the two",
            notes=(Note(f"written here by block {_block_text(there)}", loc),),
            hint='write T.fence_proxy_async("global") after the acquire, in the thread that issues the copy',
        )

    def atomic(self, where: Where, stamps: np.ndarray | None = None, *, stores: bool = True) -> None:
        """The running block updates elements atomically, or only reads them so.

        Args:
            where: Which.
            stamps: As in `read`.
            stores: Whether it updates them.

        Raises:
            DataRace: Another block touched one of them without an atomic, unless both only read.
        """
        now = self._now(stamps)
        self._refuse(_WRITER, where, now, "written", "updated by an atomic" if stores else "read by an atomic")
        if not stores:
            self._enter(_ATOMIC_LOADS, where, now)
            return
        for slot in _READERS:
            self._refuse(slot, where, now, "read", "updated by an atomic")
        self._enter(_ATOMICS, where, now)

    def atomic_access(self, element: Hashable, thread: int, atomic: AtomicAccess) -> None:
        """A thread of the running block accesses an element by an atomic, which may release and acquire."""
        self._races.atomic_access(element, thread, atomic)

    def _now(self, stamps: np.ndarray | None) -> np.ndarray:
        release_acquire = self._races.release_acquire
        return np.asarray(0 if release_acquire is None else release_acquire.stamp()) if stamps is None else stamps

    def _enter(self, slots: tuple[int, int], where: Where, now: np.ndarray) -> None:
        stamp = self._races.stamp()
        first, second = (self._blocks[slot] for slot in slots)
        earlier = first[where]
        own = (earlier == 0) | self._races.own(earlier)
        first[where] = np.where(own, stamp, earlier)
        second[where] = np.where(own, second[where], stamp)
        if self._whens is not None:
            first, second = (self._whens[slot] for slot in slots)
            first[where] = np.where(own, now, first[where])
            second[where] = np.where(own, second[where], now)

    def _refuse(self, slot: int, where: Where, now: np.ndarray, before: str, does: str) -> None:
        earlier = self._blocks[slot][where]
        foreign = (earlier != 0) & ~self._races.own(earlier)
        if not (foreign if foreign.ndim == 0 else foreign.any()):  # the first form is much the faster of the two
            return
        if self._whens is not None:
            times = self._whens[slot][where]
            foreign &= ~self._races.happened_before(earlier, np.broadcast_to(now, foreign.shape), times)
            if not foreign.any():
                return
        at = np.argwhere(np.atleast_1d(foreign))[0]
        stamp = int(np.atleast_1d(earlier)[tuple(at)])
        raise self._race(_element(where, at), stamp, before, does)

    def _race(self, element: tuple[int, ...], stamp: int, before: str, now: str) -> DataRace:
        name = self._buffer.name
        (here, _), (there, loc) = self._races.describe(self._races.stamp()), self._races.describe(stamp)
        if "read" in (before, now) and loc.file and loc.is_same_place(self._races.loc):
            hint = (
                f"if this adds to '{name}', write T.atomic_add; otherwise let a second T.Kernel read '{name}', which "
                "starts when all blocks of the first are done"
            )
        elif "read" in (before, now):
            hint = f"let a second T.Kernel read '{name}', which starts when all blocks of the first are done"
        elif before == now:
            hint = (
                f"let every block write its own part of '{name}' and combine the parts in a second T.Kernel, or use "
                "T.atomic_add"
            )
        else:
            hint = f"use atomics for all accesses to '{name}', or write it in a T.Kernel of its own"
        return DataRace(
            f"{self._text(element)} is {before} by block {_block_text(there)} and {now} by block "
            f"{_block_text(here)} of one launch, and blocks run in no order",
            notes=(Note(f"{before} here by block {_block_text(there)}", loc),),
            hint=hint,
        )


def _block_text(block: tuple[int, ...]) -> str:
    return str(block[0]) if len(block) == 1 else str(block)


def _element(where: Where, at: np.ndarray) -> tuple[int, ...]:
    """The indices of the element at a position within what was accessed."""
    offsets = [*at, *[0] * len(where)]  # of a single element only the position among its units is given
    element: list[int] = []
    parts: list[Any] = list(where)
    for part, offset in zip(parts, offsets, strict=False):
        if isinstance(part, slice):
            element.append(int(part.start) + int(offset))
        else:
            element.append(int(part[tuple(at)] if isinstance(part, np.ndarray) else part))
    return tuple(element)


def _accessed_units(launch: Launch) -> dict[Buffer, int]:
    """Per global memory that the launch may write, the size in bytes of the smallest element it is accessed by."""
    named = {each.tensor for each in launch.plan.tensor_maps}
    written = {buffer.storage for buffer in stored_by_tensor_maps(launch)}
    for stmt in walk(launch.body):
        targets = {buffer for buffer in written_buffers(stmt) if not buffer.scope.on_chip}
        written |= {buffer.storage for buffer in targets}
        named |= targets
        if isinstance(stmt, Atomic):
            named.add(stmt.buffer)
        for root in expressions(stmt):
            named |= {node.buffer for node in loads_of(root)}
        if isinstance(stmt, TileOp):
            named |= {region.buffer for region in stmt.reads()}
        if isinstance(stmt, CallStmt):
            named |= {operand.buffer for operand in (*stmt.args, *stmt.reads) if isinstance(operand, Region)}
    return {
        storage: min(b.dtype.numpy.itemsize for b in named | {storage} if b.storage is storage) for storage in written
    }
