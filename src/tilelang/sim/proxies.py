"""What threads wrote by ordinary stores and engines beside them are certain to see: the fences between the proxies.

Takes the fences of threads and the stamps of writes (`sim.history`), answers which writes no fence made visible.
Invariant: a write is visible to an engine that a thread starts if its writer executed a fence afterwards, and the
thread that starts the engine knows of that fence by barriers; for global memory, whoever knew of the write may have
executed it. Engines see what engines wrote without fences. What blocks that do not run together show each other is in
`sim.handover`.

Source: PTX ISA, "Memory Consistency Model: Proxies", "Causality order".
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from tilelang.sim.clocks import Clocks
from tilelang.sim.history import thread_of, time_of

_KEPT = 1024  # fences remembered per thread and kind
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
        self._shown: list[tuple[int, int, np.ndarray]] = []  # by fences for global memory: who, when, what it knew

    def fence(self, what: str, threads: np.ndarray) -> None:
        """These threads make visible what they wrote: to "shared" or "global" memory, or as "barriers"."""
        if what == "global":
            known = [self._clocks.known_by(thread) for thread in threads.tolist()]
            self._shown += zip(threads.tolist(), [self._clocks.now] * len(known), known, strict=True)
            del self._shown[:-_KEPT]
        time = self._clocks.tick()
        for thread in threads.tolist():
            times = self._fences.setdefault((what, thread), [])
            times.append(time)
            if len(times) > _KEPT:
                del times[: _KEPT // 2]
                self._forgotten.add((what, thread))

    def invisible(self, what: str, thread: int, writes: np.ndarray) -> np.ndarray:
        """Which of these writes an engine is not certain to see that a thread starts now.

        Shapes: `writes` (any), stamps; the answer the same.
        """
        clocks, writers = self._clocks, thread_of(writes)
        ordinary: np.ndarray = (writes != 0) & (writers < clocks.threads)
        if not ordinary.any():
            return ordinary
        known = clocks.known_by(thread)
        fenced = np.zeros(clocks.threads, np.int64)
        for writer in np.unique(writers[ordinary]).tolist():
            fenced[writer] = max(self._last(kind, writer, int(known[writer])) for kind in _COVERS[what])
        for teller, time, shown in self._shown if what == "global" else ():
            if known[teller] >= time:
                fenced = np.maximum(fenced, shown[: clocks.threads])
        wrong: np.ndarray = ordinary & (time_of(writes) > fenced[np.where(ordinary, writers, 0)])
        return wrong

    def _last(self, kind: str, thread: int, until: int) -> int:
        """The time of a thread's last fence up to a time; 0 if there was none."""
        times = self._fences.get((kind, thread), [])
        place = bisect_right(times, until)
        if place:
            return times[place - 1]
        return until if (kind, thread) in self._forgotten else 0
