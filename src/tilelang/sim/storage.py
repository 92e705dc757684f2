"""Bytes that several buffers may alias, the warps that access them, and the footprints of pending asynchronous work.

Gives the words that memory, warps and asynchronous work share. Invariant: nothing here decides whether an access is
right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from tilelang.errors import Loc
from tilelang.isa.instruction import AsyncUnit
from tilelang.records import record
from tilelang.sim.counters import Counters
from tilelang.sim.early_launches import Guard
from tilelang.sim.history import History
from tilelang.sim.races import ShadowMemory
from tilelang.sim.unretired import Unretired
from tilelang.targets.machine import Machine

MAX_VECTOR_BYTES = 16  # of one access of a thread. Source: PTX ISA, "ld", vector sizes
Change = Callable[[np.ndarray, np.ndarray], Any]
Index = Any  # a Python int that all lanes share, or one int64 per lane
UNSIGNED = np.dtype(np.uint64)  # of indices, to compare them with both bounds at once


class Accessor(Protocol):
    """Who accesses memory: a warp.

    Attributes:
        size: How many lanes it has; the first dimension of all arrays with a value per lane.
        lane: Their numbers. Shape (size,).
        mask: Which lanes do. Shape (size,), bool.
        lanes: Their numbers, or None if all do.
        threads: Number in the block of every lane's thread. Shape (size,).
        thread_ids: The same among all threads that run together.
        loc: The statement.
        machine: What it runs on.
        counters: Where accesses are counted, if anywhere.
        footprint: Receives the accesses of asynchronous work when it is issued; None when accesses take place.
        fences: How often it ordered accesses to registers before matrix instructions.
        completing: Whether asynchronous work completes now.
        unretired: Receives accesses that barriers do not wait for; None where all barriers wait for all.
    """

    size: int
    lane: np.ndarray
    mask: np.ndarray
    lanes: np.ndarray | None
    threads: np.ndarray
    thread_ids: np.ndarray
    loc: Loc
    machine: Machine
    counters: Counters | None
    footprint: Footprint | None
    fences: int
    completing: bool
    unretired: Unretired | None

    @property
    def tracks_changes(self) -> bool:
        """Whether writes that change nothing must not be reported."""

    def changed(self) -> None:
        """Called after every write to shared or global memory; with `tracks_changes` only if it changed a value."""


class Marked(Protocol):
    """Memory that tracks which of its units pending asynchronous work accesses."""

    def begin_pending_write(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Asynchronous work of these lanes will write units. Shapes: lanes (n,), units (n, ...)."""

    def begin_pending_read(self, warp: Accessor, lanes: np.ndarray, units: np.ndarray) -> None:
        """Asynchronous work of these lanes will read units. Shapes: lanes (n,), units (n, ...)."""

    def end_pending_write(self, units: np.ndarray) -> None:
        """Asynchronous work is about to write units."""

    def end_pending_read(self, units: np.ndarray) -> None:
        """Asynchronous work is about to read units."""


@record(frozen=False)
class Footprint:
    """The memory that asynchronous work touches, with units per lane.

    Attributes:
        unit: What does the work.
        reads: The memory, lanes, and units of it; units have the lanes along axis 0.
        writes: The same.
    """

    unit: AsyncUnit
    reads: list[tuple[Marked, np.ndarray, np.ndarray]] = field(default_factory=list)
    writes: list[tuple[Marked, np.ndarray, np.ndarray]] = field(default_factory=list)


@record(frozen=False)
class Storage:
    """Bytes that several windows may name.

    Attributes:
        bytes: The contents.
        flags: For every byte the mark of the window through which it was written, 0 where it is undefined; None if all
            are defined. Buffers that share bytes of shared memory one after another have different marks.
        base: Where the bytes begin, modulo any alignment that matters.
        history: The accesses within the block; None if the memory is read-only.
        unit: Bytes per unit of the history and the shadow memory.
        shadow: The accesses by blocks; None if only one block accesses them, or the memory is read-only.
        guard: What must not happen to it before a wait for the launches in front; None if all is allowed.
    """

    bytes: np.ndarray
    flags: np.ndarray | None = None
    base: int = 0
    history: History | None = None
    unit: int = 1
    shadow: ShadowMemory | None = None
    guard: Guard | None = None

    def track_contents(self) -> np.ndarray:
        """The flags, made if all was defined so far."""
        if self.flags is None:
            self.flags = np.ones(self.bytes.size, np.uint8)
        return self.flags

    def undefine(self) -> None:
        """Marks all elements as never written."""
        self.flags = np.zeros(self.bytes.size, np.uint8)


def all_set(flags: np.ndarray, mark: int = 1) -> bool:
    """Whether all bytes of flags are `mark`; on those of a warp much faster than `all`."""
    contents = flags.tobytes()
    return contents == bytes((mark,)) * len(contents)


def active_lanes(warp: Accessor) -> np.ndarray:
    """The numbers of the active lanes."""
    return warp.lane if warp.lanes is None else warp.lanes
