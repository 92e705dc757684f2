"""The last accesses of a block's threads to each unit of memory, and whether they are ordered before a new access.

Takes the accesses of warps as arrays of units (the smallest pieces that any access of the memory uses) with one stamp
per thread, gives the first `Conflict` with an earlier access that is not ordered before. Invariant: it never changes
the memory.

The state of a unit is its last writer, its last reader, a reader of another warp, another reader of the same warp, and
the last atomic access. That finds every conflict where blocks synchronize as a whole; where only parts of a block do, a
conflict with a reader that two later ones replaced is missed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilelang.errors import NOWHERE, Loc
from tilelang.records import record
from tilelang.sim.clocks import Clocks

# A stamp is one number: the time, the number of the access site, the thread. 0: there was no access.
_TIME_SHIFT = 32
_SITE_SHIFT = 15  # the threads of 16 blocks and the agents
_THREAD_MASK = (1 << _SITE_SHIFT) - 1
_SITE_MASK = (1 << (_TIME_SHIFT - _SITE_SHIFT)) - 1


@record(slots=True)
class AccessSite:
    """The statement of an access, and the buffer by which it named the memory."""

    loc: Loc
    buffer: str


@record(slots=True)
class Conflict:
    """Two accesses to one unit that nothing orders.

    Attributes:
        position: The index of the unit in the array of the new access.
        thread: The thread of the new access.
        other: The thread of the earlier access.
        before: The earlier access: "written", "read", "updated by an atomic".
        now: The new access.
        site: The statement of the earlier access.
        pending: Whether the earlier access is part of an asynchronous operation that has not completed.
        from_async_unit: Whether the earlier access is a completed one of an asynchronous unit.
        one_warp: Whether both belong to one warp.
        per_block: Thread numbers per block of a cluster; 0 without a cluster.
    """

    position: tuple[int, ...]
    thread: int
    other: int
    before: str
    now: str
    site: AccessSite
    pending: bool = False
    from_async_unit: bool = False
    one_warp: bool = False
    per_block: int = 0

    @property
    def across_blocks(self) -> bool:
        """Whether the two belong to different blocks of a cluster."""
        return self.per_block > 0 and self.thread // self.per_block != self.other // self.per_block

    def name(self, thread: int) -> str:
        """One of the two threads as a user counts it."""
        if not self.per_block:
            return str(thread)
        rank, number = divmod(thread, self.per_block)
        return f"{number} of block {rank}"


def thread_of(stamps: np.ndarray) -> np.ndarray:
    """The threads of stamps. Any shape."""
    return stamps & _THREAD_MASK


def time_of(stamps: np.ndarray) -> np.ndarray:
    """The times of stamps. Any shape."""
    return stamps >> _TIME_SHIFT


class AccessSites:
    """Numbers for access sites, so that a stamp can hold one."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Loc, str], int] = {}
        self._sites: list[AccessSite] = []

    def number(self, loc: Loc, buffer: str) -> int:
        """The number of a site."""
        number = self._numbers.get((loc, buffer))
        if number is None:
            number = self._numbers[loc, buffer] = len(self._sites)
            self._sites.append(AccessSite(loc, buffer))
        return number

    def site(self, number: int) -> AccessSite:
        """The site with a number."""
        return self._sites[number] if number < len(self._sites) else AccessSite(NOWHERE, "")


class History:
    """The accesses to one memory.

    Args:
        units: How many the memory has.
        clocks: What is ordered before what.
        sites: Shared by all histories of a launch.
    """

    def __init__(self, units: int, clocks: Clocks, sites: AccessSites) -> None:
        self._clocks, self._sites = clocks, sites
        self._units = units
        self._writer = np.zeros(units, np.int64)
        self._reader = np.zeros(units, np.int64)
        self._other = np.zeros(units, np.int64)
        self._peer = np.zeros(units, np.int64)
        self._atomic: np.ndarray | None = None
        self._observer: np.ndarray | None = None  # the last atomic that changed nothing
        self._pending_writes: np.ndarray | None = None  # stamps of asynchronous writes that have not completed
        self._pending_reads: np.ndarray | None = None  # and of the reads of their sources

    def stamps(self, threads: np.ndarray, loc: Loc, buffer: str) -> np.ndarray:
        """One stamp per thread for accesses that happen now. Shape: as `threads`."""
        base = (self._clocks.now << _TIME_SHIFT) | (self._sites.number(loc, buffer) << _SITE_SHIFT)
        return threads | base

    # -- accesses -------------------------------------------------------------------------------------------
    def read(self, units: np.ndarray, stamps: np.ndarray, *, enter: bool = True) -> Conflict | None:
        """Threads read units.

        Shapes: units (n, ...), stamps the same, or () if one thread does it all.
        """
        conflict = (
            self._pending(self._pending_writes, units, stamps, "read")
            or self._against(self._writer, units, stamps, "written", "read")
            or self._against(self._atomic, units, stamps, "updated by an atomic", "read")
        )
        if conflict is None and enter:
            self._enter_reader(units, stamps)
        return conflict

    def write(
        self, units: np.ndarray, stamps: np.ndarray, differs: Callable[[], np.ndarray], *, enter: bool = True
    ) -> Conflict | None:
        """Threads write units; two writes of one value do not conflict.

        Args:
            units: Shape (n, ...).
            stamps: As in `read`.
            differs: Called when two writes conflict: where the memory will change, in the shape of `units`.
            enter: Whether the access happens now; False only checks it.
        """
        conflict = (
            self._pending(self._pending_writes, units, stamps, "written")
            or self._pending(self._pending_reads, units, stamps, "written")
            or self._against(self._writer, units, stamps, "written", "written", differs)
            or self._against(self._atomic, units, stamps, "updated by an atomic", "written")
            or self._against(self._observer, units, stamps, "read by an atomic", "written")
            or self._against_readers(units, stamps, "written")
        )
        if conflict is None and enter:
            self._writer[units] = stamps
        return conflict

    def atomic(self, units: np.ndarray, stamps: np.ndarray, *, stores: bool = True) -> Conflict | None:
        """Threads update units atomically, or only read them so: that conflicts with plain writes alone."""
        now = "updated by an atomic" if stores else "read by an atomic"
        conflict = (
            self._pending(self._pending_writes, units, stamps, now)
            or (self._pending(self._pending_reads, units, stamps, now) if stores else None)
            or self._against(self._writer, units, stamps, "written", now)
            or (self._against_readers(units, stamps, now) if stores else None)
        )
        if conflict is not None:
            return conflict
        if stores:
            if self._atomic is None:
                self._atomic = np.zeros(self._units, np.int64)
            self._atomic[units] = stamps
        else:
            if self._observer is None:
                self._observer = np.zeros(self._units, np.int64)
            self._observer[units] = stamps
        return None

    def follow_atomics(self, units: np.ndarray, threads: np.ndarray) -> None:
        """Threads that update units atomically are ordered after those that updated the same units before.

        Shapes: (n,) both.
        """
        for unit, thread in zip(units.tolist(), threads.tolist(), strict=True):
            self._clocks.acquire_release((id(self), unit), thread)

    def collisions(self, units: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Which of the units that were just written have another thread of the same access as their last writer."""
        collided: np.ndarray = self._writer[units] != stamps
        return collided

    def collided_with(self, unit: int) -> int:
        """The thread that wrote the unit last."""
        return int(self._writer[unit]) & _THREAD_MASK

    # -- asynchronous work ----------------------------------------------------------------------------------
    def begin_pending_write(self, units: np.ndarray, stamps: np.ndarray) -> None:
        """Units will be written at some time up to `end_pending_write`."""
        if self._pending_writes is None:
            self._pending_writes = np.zeros(self._units, np.int64)
        self._pending_writes[units] = stamps

    def end_pending_write(self, units: np.ndarray) -> None:
        """The write is about to complete."""
        if self._pending_writes is not None:
            self._pending_writes[units] = 0

    def begin_pending_read(self, units: np.ndarray, stamps: np.ndarray) -> None:
        """Units will be read at some time up to `end_pending_read`."""
        if self._pending_reads is None:
            self._pending_reads = np.zeros(self._units, np.int64)
        self._pending_reads[units] = stamps

    def end_pending_read(self, units: np.ndarray) -> None:
        """The read happens now."""
        if self._pending_reads is not None:
            self._pending_reads[units] = 0

    # -- asynchronous units: their accesses were checked when they began, and are recorded when they complete ----
    def has_read(self, units: np.ndarray, stamps: np.ndarray) -> None:
        """Units were read."""
        self._enter_reader(units, stamps)

    def has_written(self, units: np.ndarray, stamps: np.ndarray) -> None:
        """Units were written."""
        self._writer[units] = stamps

    def writers(self, units: np.ndarray) -> np.ndarray:
        """The stamps of the last writers; 0 where there was none. Shape: as `units`."""
        stamps: np.ndarray = self._writer[units]
        return stamps

    def site(self, stamp: int) -> AccessSite:
        """The statement of the access of a stamp."""
        return self._sites.site(stamp >> _SITE_SHIFT & _SITE_MASK)

    # -- the rules: on the arrays of a warp `np.count_nonzero` takes a quarter of the time of `any` ------------------
    def _enter_reader(self, units: np.ndarray, stamps: np.ndarray) -> None:
        earlier = self._reader[units]
        late = earlier >= (self._clocks.floor + 1) << _TIME_SHIFT
        if np.count_nonzero(late):  # record the replaced reader elsewhere, unless it is the same thread
            warp_size = self._clocks.warp_size
            same_warp = thread_of(earlier) // warp_size == thread_of(stamps) // warp_size
            elsewhere = late & ~same_warp
            if np.count_nonzero(elsewhere):
                self._other[units[elsewhere]] = earlier[elsewhere]
            same_warp_reader = late & same_warp & (thread_of(earlier) != thread_of(stamps))
            if np.count_nonzero(same_warp_reader):
                self._peer[units[same_warp_reader]] = earlier[same_warp_reader]
        self._reader[units] = stamps
        if not stamps.ndim:
            return
        doubled = self._reader[units] != stamps
        if np.count_nonzero(doubled):
            self._peer[units[doubled]] = stamps[doubled]

    def _against_readers(self, units: np.ndarray, stamps: np.ndarray, now: str) -> Conflict | None:
        for slots in (self._reader, self._other, self._peer):
            conflict = self._against(slots, units, stamps, "read", now)
            if conflict is not None:
                return conflict
        return None

    def _against(
        self,
        slots: np.ndarray | None,
        units: np.ndarray,
        stamps: np.ndarray,
        before: str,
        now: str,
        differs: Callable[[], np.ndarray] | None = None,
    ) -> Conflict | None:
        if slots is None:
            return None
        earlier = slots[units]
        late = earlier >= (self._clocks.floor + 1) << _TIME_SHIFT
        if not np.count_nonzero(late):  # nearly always: a barrier lies between
            return None
        each = earlier
        if not stamps.ndim and np.count_nonzero(earlier == earlier[0]) == earlier.size:  # of one transfer, for example
            each = earlier[:1]
        ordered = self._clocks.happened_before(stamps & _THREAD_MASK, each & _THREAD_MASK, each >> _TIME_SHIFT)
        conflicts = late & ~ordered
        if differs is not None and np.count_nonzero(conflicts):
            conflicts &= differs()
        return self._first(conflicts, earlier, stamps, before, now)

    def _pending(self, slots: np.ndarray | None, units: np.ndarray, stamps: np.ndarray, now: str) -> Conflict | None:
        if slots is None:
            return None
        before = "written" if slots is self._pending_writes else "read"
        earlier = slots[units]
        return self._first(earlier != 0, earlier, stamps, before, now, pending=True)

    def _first(
        self,
        where: np.ndarray,
        earlier: np.ndarray,
        stamps: np.ndarray,
        before: str,
        now: str,
        *,
        pending: bool = False,
    ) -> Conflict | None:
        if not np.count_nonzero(where):
            return None
        at = tuple(int(i) for i in np.argwhere(where)[0])
        stamp = int(earlier[at])
        site, other = self.site(stamp), stamp & _THREAD_MASK
        clocks, thread = self._clocks, int(np.broadcast_to(stamps, earlier.shape)[at]) & _THREAD_MASK
        from_async_unit, is_cluster = other >= clocks.threads, clocks.threads > clocks.per_block
        one_warp = thread // clocks.warp_size == other // clocks.warp_size
        per_block = clocks.per_block if is_cluster else 0
        return Conflict(at, thread, other, before, now, site, pending, from_async_unit, one_warp, per_block)
