"""Proxy fences: which ordinary stores of threads the async proxy is certain to see.

Takes the fences of threads and the stamps of writes (`sim.history`), answers which writes no fence made visible.
Invariant: a write is visible to a transfer that a thread starts if its writer executed a fence afterwards, and that
fence happened before the start of the transfer; for global memory, any thread that the write happened before may have
executed it. Writes of the async proxy need no fence. Blocks of different clusters are the matter of
`sim.release_acquire`.

Source: PTX ISA, "Memory Consistency Model: Proxies", "Causality order".
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from tilelang.sim.clocks import Clocks
from tilelang.sim.history import thread_of, time_of

_MAX_FENCES = 1024  # fences remembered per thread and kind
_COVERS = {"shared": ("shared",), "global": ("global",), "barriers": ("shared", "barriers")}


class Proxies:
    """The proxy fences of one launch.

    Args:
        clocks: What is ordered before what.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._fences: dict[tuple[str, int], list[int]] = {}  # the times of a thread's fences
        self._forgotten: set[tuple[str, int]] = set()
        self._global_fences: list[tuple[int, int, np.ndarray]] = []  # thread, time, its vector clock

    def fence(self, what: str, threads: np.ndarray) -> None:
        """These threads make visible what they wrote: to "shared" or "global" memory, or as "barriers"."""
        if what == "global":
            clocks = [self._clocks.vector_clock(thread) for thread in threads.tolist()]
            self._global_fences += zip(threads.tolist(), [self._clocks.now] * len(clocks), clocks, strict=True)
            del self._global_fences[:-_MAX_FENCES]
        time = self._clocks.tick()
        for thread in threads.tolist():
            times = self._fences.setdefault((what, thread), [])
            times.append(time)
            if len(times) > _MAX_FENCES:
                del times[: _MAX_FENCES // 2]
                self._forgotten.add((what, thread))

    def invisible(self, what: str, thread: int, writes: np.ndarray) -> np.ndarray:
        """Which of these writes a transfer that a thread starts now is not certain to see.

        Shapes: `writes` (any), stamps; the answer the same.
        """
        clocks, writers = self._clocks, thread_of(writes)
        ordinary: np.ndarray = (writes != 0) & (writers < clocks.threads)
        if not np.count_nonzero(ordinary):
            return ordinary
        clock = clocks.vector_clock(thread)
        fenced = np.zeros(clocks.threads, np.int64)
        for writer in np.unique(writers[ordinary]).tolist():
            fenced[writer] = max(self._last(kind, writer, int(clock[writer])) for kind in _COVERS[what])
        for fencer, time, visible in self._global_fences if what == "global" else ():
            if clock[fencer] >= time:
                fenced = np.maximum(fenced, visible[: clocks.threads])
        wrong: np.ndarray = ordinary & (time_of(writes) > fenced[np.where(ordinary, writers, 0)])
        return wrong

    def _last(self, kind: str, thread: int, until: int) -> int:
        """The time of a thread's last fence up to a time; 0 if there was none."""
        times = self._fences.get((kind, thread), [])
        position = bisect_right(times, until)
        if position:
            return times[position - 1]
        return until if (kind, thread) in self._forgotten else 0
