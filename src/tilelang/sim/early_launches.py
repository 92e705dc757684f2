"""What launches that begin before those in front of them have ended must not access until they have waited.

Takes the launches of a run in order and the waits of their threads, finds threads that access memory too early.
Invariant: a thread has waited if it did itself, or if the wait of another one happened before what it does now.

A launch that waits first must not access any global memory before, as launches in front of the program may. One that
waits where the user says so must not access what launches of the program in front of it write, nor write what they
read; what those in front of the program do, the user knows.
"""

from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.records import record
from tilelang.sim.clocks import Clocks


class Waits:
    """Which threads of the running blocks have waited for the launches in front.

    Args:
        clocks: What orders the threads.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self.begin_blocks()

    def begin_blocks(self) -> None:
        """Other blocks begin."""
        self._waited = np.zeros(self._clocks.threads, bool)
        self._all_waited = False
        self._released: list[np.ndarray] = []

    def wait(self, threads: np.ndarray) -> None:
        """These threads wait."""
        self._waited[threads] = True
        self._all_waited = bool(self._waited.all())
        self._released.append(self._clocks.release(threads))

    def first_missing(self, threads: np.ndarray) -> int | None:
        """The first of these threads that has not waited; None if all have."""
        if self._all_waited:
            return None
        for thread in threads[~self._waited[threads]]:
            alone = np.array([thread])
            if not any(self._clocks.has_observed(alone, clock) for clock in self._released):
                return int(thread)
            self._waited[thread] = True
        return None


@record(eq=False)
class Guard:
    """What must not happen to a memory before a wait.

    Attributes:
        waits: Who has waited.
        reads: Whether reads must not, too.
    """

    waits: Waits
    reads: bool

    def first_missing(self, threads: np.ndarray, *, reads: bool) -> int | None:
        """The first of the threads that access the memory too early; None if there is none."""
        return None if reads and not self.reads else self.waits.first_missing(threads)


class LaunchesInFront:
    """What the launches of a run have done so far."""

    def __init__(self) -> None:
        self._written: dict[Buffer, bool] = {}  # of each global memory that was accessed, whether it may be written

    def guard(self, storage: Buffer, waits: Waits, *, waits_first: bool) -> Guard | None:
        """What a launch behind these must not do with a global memory before it waits; None: nothing.

        Args:
            storage: The memory.
            waits: Of the launch.
            waits_first: Whether it waits before it accesses any.
        """
        if waits_first:
            return Guard(waits, reads=True)
        return Guard(waits, reads=self._written[storage]) if storage in self._written else None

    def end(self, accessed: dict[Buffer, bool]) -> None:
        """The launch has ended, which has accessed these memories; whether it may have written each of them."""
        for storage, written in accessed.items():
            self._written[storage] = written or self._written.get(storage, False)
