"""Vector clocks of the threads of a block or cluster, joined where they synchronize: happens-before.

Takes synchronizations of threads as they happen, answers whether an earlier access of one thread happened before what
another does now. Invariant: only barriers, warp synchronization and atomics order threads; the order in which the
scheduler happened to run them never does.

One counter of synchronizations serves as the clock of every thread. A barrier of the whole block moves `floor`:
whatever happened up to then is ordered before everything after it, and needs no entry per thread.

Asynchronous units have clocks as well: what they do is ordered before what a thread does only once the thread has
acquired their completion. Each completion mechanism has an agent, with a number after those of the threads; where there
are more than `AGENTS`, several share one, and a missing order may go undetected. Causality, which decides about phases
of barriers, covers more: the completion of a transfer orders no accesses of the thread that started it, but implies
that this thread got so far. So a vector clock has a second part for causality, with an entry per thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

AGENTS = 64


class Clocks:
    """The clocks of one launch; blocks, or clusters of them, run one after another, each from a `begin_block`.

    Args:
        threads: Threads of a block.
        blocks: How many blocks run together; the threads of each are counted from a multiple of `warp_size`.
        warp_size: Threads of a warp.

    Attributes:
        now: Counts synchronizations; an access is stamped with it.
        floor: Accesses stamped with at most this are ordered before whatever happens now.
        threads: Threads that run together, gaps between blocks included.
        per_block: Thread numbers per block.
        warp_size: As given.
    """

    def __init__(self, threads: int, blocks: int = 1, *, warp_size: int = 1) -> None:
        self.warp_size = warp_size
        self.per_block = threads if blocks == 1 else -(-threads // warp_size) * warp_size
        self.threads = self.per_block * blocks
        self.now = 1
        self.floor = 0
        self._seen: np.ndarray | None = None  # [t, u]: up to when accesses of u happened before t; allocated lazily
        self._atomics: dict[object, np.ndarray] = {}
        self._agents: dict[object, int] = {}

    def begin_block(self) -> None:
        """All that happened so far is ordered before the block that begins."""
        self.synchronize_all()
        self._seen = None
        self._atomics.clear()
        self._agents.clear()

    # -- blocks that run together ---------------------------------------------------------------------------
    def of_block(self, rank: int) -> slice:
        """The threads of one of the blocks."""
        return slice(rank * self.per_block, (rank + 1) * self.per_block)

    def name(self, thread: int) -> str:
        """A thread as a user counts it."""
        rank, number = divmod(thread, self.per_block)
        return str(thread) if self.threads == self.per_block else f"{number} of block {rank}"

    def observed_any(self, thread: int, others: slice) -> bool:
        """Whether anything that one of the others did since all began is ordered before what a thread does now."""
        return self._seen is not None and bool(self._seen[thread, others].max() > 0)

    def observed_until(self, threads: slice, other: int, time: int) -> bool:
        """Whether what another thread did up to a time is ordered before what one of these does now."""
        return time <= self.floor or (self._seen is not None and bool(self._seen[threads, other].max() >= time))

    # -- asynchronous units -----------------------------------------------------------------------------------
    def tick(self) -> int:
        """The time, which nothing that happens later shares."""
        self.now += 1
        return self.now - 1

    def agent(self, key: object) -> int:
        """The number of the agent that signals completion by this key: a barrier, or a group of commits."""
        return self._agents.setdefault(key, self.threads + len(self._agents) % AGENTS)

    def release_agent(self, agent: int, causes: np.ndarray | None = None) -> np.ndarray:
        """The vector clock of what asynchronous units have done for an agent so far, for threads to acquire."""
        clock = np.zeros(self._width, np.int64)
        clock[agent] = self.tick()
        if causes is not None:
            clock[-self.threads :] = causes
        return clock

    def causes(self, thread: int) -> np.ndarray:
        """The causality part of a thread's vector clock. Shape (threads,)."""
        clock: np.ndarray = self._table()[thread, -self.threads :].copy()
        clock[thread] = self.now
        return clock

    def vector_clock(self, thread: int) -> np.ndarray:
        """Up to when accesses of each thread and agent happened before a thread. Shape (threads + agents,)."""
        clock: np.ndarray = np.maximum(self._table()[thread, : self.threads + AGENTS], self.floor)
        clock[thread] = self.now
        return clock

    # -- synchronization ---------------------------------------------------------------------------------------------
    def synchronize_all(self) -> None:
        """A barrier of all threads."""
        self.floor = self.now
        self.now += 1

    def synchronize(self, threads: np.ndarray) -> None:
        """A barrier of these threads: joins their vector clocks."""
        self.acquire(threads, self.release(threads))

    def release(self, threads: np.ndarray, *, accesses: bool = True) -> np.ndarray:
        """The joined vector clock of these threads, their own accesses included, for others to acquire; both parts.

        Without `accesses` there is the part for causality only.
        """
        clock: np.ndarray = self._table()[self._rows(threads)].max(axis=0)
        clock[threads] = clock[threads + (self._width - self.threads)] = self.now
        if not accesses:
            clock[: -self.threads] = 0
        self.now += 1
        return clock

    def moment(self, threads: np.ndarray) -> Callable[[np.ndarray], bool]:
        """Whether one of these threads got where it is now before all that a vector clock releases."""
        self.now += 2
        time, causes = self.now - 1, threads + (self._width - self.threads)
        return lambda clock: time <= self.floor or bool(clock[causes].max() >= time)

    def acquire(self, threads: np.ndarray, clock: np.ndarray) -> None:
        """Joins what was released into the vector clocks of these threads."""
        rows, seen = self._rows(threads), self._table()
        if isinstance(rows, slice):
            np.maximum(seen[rows], clock, out=seen[rows])
        else:
            seen[rows] = np.maximum(seen[rows], clock)

    def has_observed(self, threads: np.ndarray, clock: np.ndarray) -> bool:
        """Whether all that was released happened before one of these threads got where it is."""
        causes = clock[-self.threads :]
        observed = (self._table()[self._rows(threads), -self.threads :] >= causes) | (causes <= self.floor)
        observed[np.arange(len(threads)), threads] = True  # each thread has observed itself
        return bool(observed.all(axis=1).any())

    def acquire_release(self, key: object, thread: int) -> None:
        """A thread updates an element atomically: acquires from those that did so before, releases to those after."""
        one = np.array([thread])
        clock = self._atomics.get(key)
        if clock is not None:
            self.acquire(one, clock)
        released = self.release(one)
        self._atomics[key] = released if clock is None else np.maximum(clock, released)

    def happened_before(self, threads: np.ndarray, earlier: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether accesses of the threads `earlier` at `times` are ordered before what `threads` do now.

        Shapes: all the same, which is also that of the answer.
        """
        ordered: np.ndarray = (times <= self.floor) | (threads == earlier)
        if self._seen is not None:
            ordered |= self._seen[threads, earlier] >= times
        return ordered

    def _rows(self, threads: np.ndarray) -> slice | np.ndarray:
        """Threads of one warp, in their order, as a slice if none is missing: of rows that NumPy need not gather."""
        first, last = int(threads[0]), int(threads[-1])
        return slice(first, last + 1) if last - first == len(threads) - 1 else threads

    @property
    def _width(self) -> int:
        return 2 * self.threads + AGENTS

    def _table(self) -> np.ndarray:
        if self._seen is None:
            self._seen = np.zeros((self.threads, self._width), np.int64)
        return self._seen
