"""The simulator's state of a barrier in shared memory that counts arrivals and bytes.

Gives `MBarrier`, and `PendingWork` for asynchronous work that arrives on one. Invariant: a phase is complete exactly
when its pending count of arrivals and its transaction count of bytes are zero, and the next one begins then.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from tilelang.errors import DataRace, SimulationError
from tilelang.isa.simulated import Moment, Transfer
from tilelang.records import record

# Source: PTX ISA, "Parallel Synchronization ...: mbarrier", "Contents"
MAX_ARRIVALS = (1 << 20) - 1
MAX_TX_BYTES = (1 << 20) - 1


@record(frozen=False)
class PendingWork:
    """Asynchronous work that arrives on a barrier when it completes.

    Attributes:
        complete: Completes it, and arrives.
        arrivals: How many arrivals it makes.
        bytes: How many it subtracts from the transaction count.
    """

    complete: Callable[[], None]
    arrivals: int = 0
    bytes: int = 0


@record(frozen=False, eq=False)
class PhaseWait:
    """A wait for a phase, by lanes of one warp.

    Attributes:
        phase: The number of the phase.
        moment: When it began, or, once it is over, when it ended.
        is_over: Whether it is.
    """

    phase: int
    moment: Moment
    is_over: bool = False

    def end(self, moment: Moment) -> None:
        """It is over."""
        self.moment, self.is_over = moment, True


@record(frozen=False, eq=False)
class MBarrier:
    """The state of one barrier.

    Attributes:
        name: For reports.
        count: Arrivals that complete a phase.
        pending: The arrivals that the current phase still needs.
        pending_bytes: The transaction count: bytes that are expected and not complete, less those that are complete
            and not expected.
        phase: How many phases are complete.
        phase_clock: The joined vector clocks of the arrivals of the current phase.
        completed_clock: The joined vector clocks of the completed phases.
        previous_clock: The same without the last completed phase.
        pending_work: Work that has not completed, in the order in which it began.
        waits: Waits for the current phase and for the one before, each with the number of its phase and where it is;
            for one that is over, when that was.
    """

    name: str
    count: int
    pending: int
    pending_bytes: int = 0
    phase: int = 0
    phase_clock: np.ndarray | None = None
    completed_clock: np.ndarray | None = None
    previous_clock: np.ndarray | None = None
    pending_work: list[PendingWork] = field(default_factory=list)
    waits: list[PhaseWait] = field(default_factory=list)

    def passes(self, parity: int) -> bool:
        """Whether the phase of this parity is complete."""
        return self.phase & 1 != parity

    def passes_by_now(self, parity: int) -> bool:
        """Whether the phase of this parity is complete, after such pending work as completes it."""
        if not self.passes(parity):
            self.complete_early()
        return self.passes(parity)

    def wait(self, parity: int, moment: Moment) -> PhaseWait:
        """Lanes begin to wait for the phase of a parity: the current one, or the one before."""
        wait = PhaseWait(self.phase - self.passes(parity), moment)
        self.waits.append(wait)
        return wait

    def clock_before(self, parity: int) -> np.ndarray | None:
        """The vector clock of the completion of the phase before the one that a wait for this parity awaits.

        A wait that is not ordered after it might begin one phase earlier, where it would return at once for the phase
        of the same parity before. None if there is no such phase.
        """
        return self.previous_clock if self.passes(parity) else self.completed_clock

    def arrive(self, count: int, clock: np.ndarray) -> None:
        """`count` threads arrive, with their joined vector clock."""
        for _ in range(count):
            if self.pending == 0:
                raise SimulationError(
                    f"mbarrier.arrive: one arrival too many at '{self.name}': {self.progress()}",
                    hint="initialize it with the number of arrivals of a phase, and let threads arrive only after the "
                    "previous phase is complete",
                )
            self.phase_clock = _joined(self.phase_clock, clock)
            self.pending -= 1
            self.advance()

    def expect_tx(self, count: int) -> None:
        """Adds bytes to the transaction count."""
        self._count_bytes(count)

    def complete_tx(self, count: int, clock: np.ndarray) -> None:
        """Subtracts bytes from the transaction count, and joins the vector clock of their copy."""
        self.phase_clock = _joined(self.phase_clock, clock)
        self._count_bytes(-count)
        self.advance()

    def add_transfer(self, count: int, transfer: Transfer) -> None:
        """Adds a transfer in flight of `count` bytes."""
        if transfer.completed:
            self.complete_tx(count, transfer.complete())
        else:
            self.pending_work.append(PendingWork(lambda: self.complete_tx(count, transfer.complete()), bytes=count))

    def _count_bytes(self, change: int) -> None:
        self.pending_bytes += change
        if abs(self.pending_bytes) > MAX_TX_BYTES:
            raise SimulationError(
                f"mbarrier: '{self.name}' counts up to {MAX_TX_BYTES} bytes, but there are {self.pending_bytes}",
                hint="expect as many bytes as the copies of the phase transfer",
            )

    def advance(self) -> None:
        """Begins the next phase if this one is complete."""
        if self.pending == 0 and self.pending_bytes == 0:
            assert self.phase_clock is not None
            self._check_waits(self.phase_clock)
            self.previous_clock = self.completed_clock
            self.completed_clock = _joined(self.completed_clock, self.phase_clock)
            self.phase, self.pending, self.phase_clock = self.phase + 1, self.count, None

    def _check_waits(self, clock: np.ndarray) -> None:
        """Reports a wait for the previous phase that may not have ended when the current one completes.

        It would see the parity of the current phase as complete, and that of its own as not.
        """
        for wait in self.waits:
            if wait.phase == self.phase - 1 and not (wait.is_over and wait.moment.happened_before(clock)):
                raise DataRace(
                    f"mbarrier.try_wait: warp {wait.moment.warp} may still wait for phase {wait.phase} of "
                    f"'{self.name}' when phase {self.phase} completes, and then waits for another one of the same "
                    "parity",
                    loc=wait.moment.loc,
                    hint="let a phase complete only after all that wait for the one before: by an arrival of each of "
                    "them, or a barrier between their waits and the arrival of one of them",
                )
        self.waits = [wait for wait in self.waits if wait.phase == self.phase]

    def complete_early(self) -> None:
        """Completes as much of the pending work as completes the phase, if it can: work may complete at any time."""
        arrivals, count = self.pending, self.pending_bytes
        for number, work in enumerate(self.pending_work, start=1):
            arrivals, count = arrivals - work.arrivals, count - work.bytes
            if arrivals <= 0 and count == 0:
                completion, self.pending_work = self.pending_work[:number], self.pending_work[number:]
                for work_done in completion:
                    work_done.complete()
                return

    def progress(self) -> str:
        """Describe the progress of the current phase."""
        arrived = self.count - self.pending
        in_flight = sum(work.bytes for work in self.pending_work)
        missing = f", and {self.pending_bytes} bytes have not come" if self.pending_bytes > 0 else ""
        missing = missing or (f", and {-self.pending_bytes} bytes that none announced" if self.pending_bytes else "")
        transfers = f" ({in_flight} are pending)" if in_flight else ""
        return f"in its phase {self.phase} {arrived} of {self.count} arrivals have come{missing}{transfers}"


def _joined(a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    return b if a is None else np.maximum(a, b)
