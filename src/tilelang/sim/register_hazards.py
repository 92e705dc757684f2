"""Hazards on registers that asynchronous instructions of a warp still read or write.

Takes accesses to registers by offset; raises `DataRace` where a pending instruction uses them. Lanes are not
distinguished, since such instructions are executed by whole warps.
"""

from __future__ import annotations

import numpy as np

from tilelang.errors import DataRace, Loc, Note
from tilelang.isa.instruction import AsyncUnit
from tilelang.sim.storage import Accessor, Index


class RegisterHazards:
    """The pending accesses to the registers of one array.

    Args:
        name: The array's.
        size: Its elements.

    Attributes:
        fences_at_last_access: How many fences the warp had executed at its last synchronous access; at first 0.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self.fences_at_last_access = 0
        self._pending_writes = np.zeros(size, np.int64)
        self._pending_reads = np.zeros(size, np.int64)
        self._pending = 0
        self._loc: Loc | None = None
        self._unit: AsyncUnit | None = None

    # -- asynchronous work ----------------------------------------------------------------------------------
    def begin_pending_write(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Work of the warp will write registers. Shapes: lanes (n,), units (n, ...), the same for all."""
        self._begin(self._pending_writes, warp, units)

    def begin_pending_read(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Work of the warp will read registers. Shapes: lanes (n,), units (n, ...), the same for all."""
        self._begin(self._pending_reads, warp, units)

    def end_pending_write(self, units: np.ndarray) -> None:
        """The registers are about to be written."""
        self._end(self._pending_writes, units)

    def end_pending_read(self, units: np.ndarray) -> None:
        """The registers are about to be read."""
        self._end(self._pending_reads, units)

    def _begin(self, marks: np.ndarray, warp: Accessor, units: np.ndarray) -> None:
        marks[units[0]] += 1
        self._pending += 1
        self._loc = warp.loc

    def _end(self, marks: np.ndarray, units: np.ndarray) -> None:
        marks[units[0]] -= 1
        self._pending -= 1

    # -- accesses -------------------------------------------------------------------------------------------
    def access(self, warp: Accessor, offset: Index, count: int, *, write: bool) -> bool:
        """Checks an access to `count` elements; False where only the footprint of asynchronous work is recorded.

        Raises:
            DataRace: The program accesses registers of pending asynchronous work.
        """
        if warp.footprint is not None:
            units = np.broadcast_to(int(np.min(offset)) + np.arange(count), (1, count))
            self._unit = warp.footprint.unit
            marks = warp.footprint.writes if write else warp.footprint.reads
            marks.append((self, np.flatnonzero(warp.mask)[:1], units))
            return False
        if warp.completing:
            return True
        self.fences_at_last_access = warp.fences
        if self._pending:
            self._check_not_pending(warp, offset, count, write=write)
        return True

    def access_any(self, warp: Accessor) -> bool:
        """An access to any registers: whether nothing can be wrong with it, since no asynchronous work is pending."""
        if warp.footprint is not None or warp.completing or self._pending:
            return False
        self.fences_at_last_access = warp.fences
        return True

    def _check_not_pending(self, warp: Accessor, offset: Index, count: int, *, write: bool) -> None:
        marks = self._pending_writes + self._pending_reads if write else self._pending_writes
        offsets = np.unique(np.broadcast_to(offset, warp.mask.shape)[warp.mask])
        pending = offsets[marks[offsets[:, None] + np.arange(count)].any(axis=1)]
        if not pending.size:
            return
        uses = "accumulates in" if self._pending_writes[pending[0] : pending[0] + count].any() else "reads"
        accessed = "written" if write else "read"
        thread = int(warp.threads[np.flatnonzero(warp.mask)[0]])
        unit = self._unit
        assert unit is not None
        raise DataRace(
            f"registers of '{self._name}' are {accessed} by thread {thread} while a {unit.name} that {uses} them may "
            "still be pending",
            notes=() if self._loc is None else (Note(f"the {unit.name} was started here", self._loc),),
            hint=f"wait for it first: {unit.wait_call}, or with a number that leaves fewer groups pending",
        )
