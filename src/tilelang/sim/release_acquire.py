"""Release and acquire between blocks: which accesses to global memory happened before what another block does.

Takes atomics as they happen, answers whether an earlier access of another block happened before what a thread does
now. Invariant: a value stored by a release carries the vector clock of its thread, which includes what the thread
synchronized with and what it acquired from other blocks; a load that acquires joins it, for the thread and for those
that synchronize with it later. Read-modify-writes keep the clock of the value before them, stores do not.

The async proxy sees writes of other blocks if a proxy fence lies on that path: the write happened before the fence, and
the fence before the start of the transfer.

Blocks of one cluster share the clocks of `sim.clocks`; here they are one cluster.

Source: PTX ISA, "Memory Consistency Model", "Release and Acquire Patterns", "Causality order" and "Proxy-preserved base
causality order".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Atomic, AtomicOp, Launch
from tilelang.ir.visit import walk
from tilelang.ops.atomic import AtomicTile
from tilelang.records import record
from tilelang.sim.clocks import Clocks
from tilelang.sim.history import thread_of, time_of

ClusterClocks = Mapping[int, np.ndarray]
"""Per cluster, a vector clock over its threads and agents."""


@record(slots=True)
class AtomicAccess:
    """The memory order of an atomic, as far as it matters to other blocks.

    Attributes:
        loads: Whether it reads the value before.
        stores: Whether it writes a new value.
        acquires: Whether the release of the value that it loads happens before what follows.
        releases: Whether what went before happens before acquiring loads of the value that it stores.
    """

    loads: bool
    stores: bool
    acquires: bool
    releases: bool


def atomic_access(atomic: Atomic) -> AtomicAccess:
    """The memory order of an atomic statement."""
    loads, stores = atomic.op is not AtomicOp.STORE, atomic.op is not AtomicOp.LOAD
    return AtomicAccess(loads, stores, atomic.acquires, atomic.releases)


@record(slots=True)
class _Acquire:
    """An acquire by a thread of a cluster.

    Attributes:
        thread: Who.
        time: When; it covers what this happened before.
        clocks: The clocks that it acquired.
    """

    thread: int
    time: int
    clocks: ClusterClocks


@record(slots=True)
class _Fence:
    """A fence between the proxies.

    Attributes:
        cluster: Of the thread that executed it.
        thread: Which.
        time: When.
        clocks: The clocks of the thread then, its own accesses included.
    """

    cluster: int
    thread: int
    time: int
    clocks: ClusterClocks


class ReleaseAcquire:
    """The release and acquire relations between the blocks of one launch.

    Args:
        clocks: The vector clocks of the threads of a cluster.

    Attributes:
        cluster: The cluster that is running.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self.cluster = 0
        self._carried: dict[Hashable, ClusterClocks] = {}  # by the values of elements
        self._acquired: dict[int, list[_Acquire]] = {}  # by cluster
        self._fences: list[_Fence] = []

    def update(self, element: Hashable, thread: int, atomic: AtomicAccess) -> None:
        """A thread accesses an element by an atomic.

        Args:
            element: Which.
            thread: Which, by number among all threads of the cluster.
            atomic: How.
        """
        carried = self._carried.get(element)
        if atomic.acquires and carried is not None:
            self._acquire(thread, carried)
        if not atomic.stores:
            return
        clocks = self._vector_clocks(thread) if atomic.releases else {}
        if atomic.loads and carried is not None:
            clocks = _joined(clocks, carried)
        self._carried[element] = clocks

    def fence(self, thread: int) -> None:
        """A thread executes a proxy fence for global memory."""
        clocks = self._vector_clocks(thread)
        self._fences.append(_Fence(self.cluster, thread, self._clocks.tick(), clocks))

    def stamp(self) -> int:
        """A stamp of now for blocks that are one thread each."""
        return self._clocks.now << 32

    def happened_before(self, now: np.ndarray, clusters: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Whether accesses of other clusters happened before what happens now.

        Shapes: the stamps `now` and `earlier`, and the clusters of the latter, alike; that of the answer, too.
        """
        answer = np.zeros(np.shape(earlier), bool)
        threads, others, times = thread_of(now), thread_of(earlier), time_of(earlier)
        distinct = [int(cluster) for cluster in np.unique(clusters)]
        for each in reversed(self._acquired.get(self.cluster, [])):
            when = np.full(answer.shape, each.time)
            ordered = self._clocks.happened_before(threads, np.full(answer.shape, each.thread), when)
            for cluster in distinct:
                if cluster in each.clocks and ordered.any():
                    answer |= ordered & (clusters == cluster) & (each.clocks[cluster][others] >= times)
            if answer.all():
                break
        return answer

    def visible_to_async_proxy(self, thread: int, clusters: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Whether transfers that a thread starts now see writes of other clusters; writes of transfers are always seen.

        Shapes: the clusters and the stamps of the writes alike; that of the answer, too.
        """
        writers, times = thread_of(earlier), time_of(earlier)
        answer: np.ndarray = writers >= self._clocks.threads
        clocks = self._vector_clocks(thread)
        for fence in self._fences:
            if answer.all():
                break
            if fence.cluster in clocks and clocks[fence.cluster][fence.thread] >= fence.time:
                for cluster, seen in fence.clocks.items():
                    answer |= (clusters == cluster) & (seen[writers] >= times)
        return answer

    def _acquire(self, thread: int, clocks: ClusterClocks) -> None:
        acquired = self._acquired.setdefault(self.cluster, [])
        if not any(each.thread == thread and each.clocks is clocks for each in acquired):
            acquired.append(_Acquire(thread, self._clocks.tick(), clocks))

    def _vector_clocks(self, thread: int) -> ClusterClocks:
        """The vector clocks of a thread, one per cluster that it acquired from."""
        clocks: ClusterClocks = {self.cluster: self._clocks.vector_clock(thread)}
        self._clocks.tick()
        for each in self._acquired.get(self.cluster, []):
            if self._clocks.happened_before(np.array([thread]), np.array([each.thread]), np.array([each.time]))[0]:
                clocks = _joined(clocks, each.clocks)
        return clocks


def _joined(first: ClusterClocks, second: ClusterClocks) -> ClusterClocks:
    both = dict(first)
    for cluster, clock in second.items():
        mine = both.get(cluster)
        both[cluster] = clock if mine is None or mine is clock else np.maximum(mine, clock)
    return both


def releases_and_acquires(launch: Launch) -> bool:
    """Whether a launch both releases and acquires by atomics on global memory."""
    releases = acquires = False
    for stmt in walk(launch.body):
        if isinstance(stmt, Atomic) and stmt.buffer.scope is Scope.GLOBAL:
            releases, acquires = releases or stmt.releases, acquires or stmt.acquires
        if isinstance(stmt, AtomicTile) and stmt.dst.buffer.scope is Scope.GLOBAL:
            releases, acquires = releases or stmt.order.releases, acquires or stmt.order.acquires
    return releases and acquires
