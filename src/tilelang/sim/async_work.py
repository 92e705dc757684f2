"""Asynchronous operations of one warp in commit groups.

Takes operations, commits and waits of the active lanes; each lane counts its own groups, unless the unit counts those
of the whole warp. Invariant: lazily, an operation completes for a lane in the first wait that guarantees it; eagerly,
when it is queued. In between, its reads and writes are pending, and accesses that conflict with them are reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from tilelang.errors import Loc
from tilelang.isa.instruction import AsyncUnit
from tilelang.records import record
from tilelang.sim.storage import Accessor, Footprint

Work = Callable[[], None]


class Worker(Accessor, Protocol):
    """A warp that does the work.

    Attributes:
        cells: The memory of every buffer, by its slot.
        moves: Whether a buffer may lie elsewhere later on.
        present: The lanes that have a thread.
    """

    cells: list[Any]
    moves: bool
    present: np.ndarray

    def set_mask(self, mask: np.ndarray) -> None:
        """Makes these lanes the active ones."""


@record(frozen=False)
class _Pending:
    work: Work
    lanes: np.ndarray  # for which it has not completed
    group: np.ndarray  # of each lane
    footprint: Footprint
    loc: Loc
    cells: list[Any] | None  # where buffers lay when it was queued, if they may lie elsewhere when it completes


@record(frozen=False)
class _Queue:
    committed: np.ndarray  # groups that each lane closed
    pending: list[_Pending] = field(default_factory=list)


class AsyncWork:
    """The queues of one warp.

    Args:
        warp: Who does the work.
        lazy: Whether it happens as late as its waits allow.
    """

    def __init__(self, warp: Worker, lazy: bool) -> None:
        self._warp, self._lazy = warp, lazy
        self._queues: dict[AsyncUnit, _Queue] = {}

    def defer(self, unit: AsyncUnit, work: Work, touch: Work | None = None) -> None:
        """Queues work of the active lanes; `touch` accesses what it will, if that is not to be learned from itself."""
        warp = self._warp
        if not self._lazy:
            self._do(work)
            return
        footprint = warp.footprint = Footprint(unit)
        try:
            (touch or work)()
        finally:
            warp.footprint = None
        for window, lanes, units in footprint.writes:
            window.begin_pending_write(warp, lanes, units)
        for window, lanes, units in footprint.reads:
            window.begin_pending_read(warp, lanes, units)
        queue = self._queue(unit)
        cells = list(warp.cells) if warp.moves else None
        queue.pending.append(_Pending(work, warp.mask.copy(), queue.committed.copy(), footprint, warp.loc, cells))

    def commit(self, unit: AsyncUnit) -> None:
        """Closes the open group of the active lanes."""
        self._queue(unit).committed[self._lanes(unit)] += 1

    def wait(self, unit: AsyncUnit, pending: int) -> None:
        """Completes all groups of the active lanes but the newest `pending` ones."""
        queue = self._queue(unit)
        if not queue.pending:
            return
        limit, waiting = queue.committed - pending, self._lanes(unit)
        for item in queue.pending:
            due = item.lanes & waiting & (item.group < limit)
            if due.any():
                self._complete(item, due)
        queue.pending = [item for item in queue.pending if item.lanes.any()]

    def completion(self, unit: AsyncUnit, lanes: np.ndarray) -> Work | None:
        """A function that completes all work that these lanes have queued so far; None if none is in flight."""
        queue = self._queue(unit)
        items = [item for item in queue.pending if (item.lanes & lanes).any()]

        def complete() -> None:
            for item in items:
                due = item.lanes & lanes
                if due.any():
                    self._complete(item, due)
            queue.pending = [item for item in queue.pending if item.lanes.any()]

        return complete if items else None

    def finish(self) -> None:
        """Completes everything at the end of the block."""
        for queue in self._queues.values():
            for item in queue.pending:
                self._complete(item, item.lanes.copy())
            queue.pending = []

    def _lanes(self, unit: AsyncUnit) -> np.ndarray:
        """The lanes for which the active ones commit and wait."""
        return self._warp.present if unit.per_warp else self._warp.mask

    def _do(self, work: Work) -> None:
        self._warp.completing = True
        try:
            work()
        finally:
            self._warp.completing = False

    def _queue(self, unit: AsyncUnit) -> _Queue:
        queue = self._queues.get(unit)
        if queue is None:
            queue = self._queues[unit] = _Queue(np.zeros(self._warp.size, np.int64))
        return queue

    def _complete(self, item: _Pending, due: np.ndarray) -> None:
        warp = self._warp
        for window, lanes, units in item.footprint.writes:
            window.end_pending_write(units[due[lanes]])
        for window, lanes, units in item.footprint.reads:
            window.end_pending_read(units[due[lanes]])
        mask, loc, counters = warp.mask, warp.loc, warp.counters
        warp.set_mask(due)
        warp.loc, warp.counters = item.loc, None  # it was counted when it was queued
        cells = warp.cells
        if item.cells is not None:
            warp.cells = item.cells
        with item.loc:
            self._do(item.work)
        warp.cells = cells
        warp.set_mask(mask)
        warp.loc, warp.counters = loc, counters
        item.lanes = item.lanes & ~due

