"""What blocks know of each other's accesses to global memory, by the atomics that they release and acquire.

Takes atomics as they happen, answers whether an earlier access of another block is ordered before what a thread does
now. Invariant: a value stored by a release carries what its thread knows: its own accesses, those of the threads that
met it, those of blocks it acquired from; who loads the value and acquires knows that, and so do the threads that meet
it later. Updates keep what the value before them carried, stores do not.

Engines see what threads of other blocks wrote if a fence between the proxies stands somewhere on that way: it was
executed by somebody who knew of the write, and who starts the engine knows of the fence.

Blocks that run together know of each other by their clocks; here they are one team.

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

Knowledge = Mapping[int, np.ndarray]
"""Per team, up to when each of its threads and agents is known."""


@record(slots=True)
class Handing:
    """What an atomic does for others.

    Attributes:
        loads: Whether it builds on the value before.
        stores: Whether there is a new value.
        acquires: Whether what follows is ordered behind the release of the value that it loads.
        releases: Whether what went before is ordered before the loads of the value that it stores.
    """

    loads: bool
    stores: bool
    acquires: bool
    releases: bool


def handing(atomic: Atomic) -> Handing:
    """What an atomic does for others."""
    loads, stores = atomic.op is not AtomicOp.STORE, atomic.op is not AtomicOp.LOAD
    return Handing(loads, stores, atomic.acquires, atomic.releases)


@record(slots=True)
class _Acquired:
    """Something that a thread of a team has learned.

    Attributes:
        thread: Who.
        time: When; threads that know what it did then know it, too.
        knowledge: What.
    """

    thread: int
    time: int
    knowledge: Knowledge


@record(slots=True)
class _Fence:
    """A fence between the proxies.

    Attributes:
        team: Of the thread that executed it.
        thread: Which.
        time: When.
        knowledge: What the thread knew then, its own accesses included.
    """

    team: int
    thread: int
    time: int
    knowledge: Knowledge


class Handover:
    """What the blocks of one launch know of each other.

    Args:
        clocks: What is ordered before what among threads that run together.

    Attributes:
        team: The team that is running.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self.team = 0
        self._carried: dict[Hashable, Knowledge] = {}  # by the values of elements
        self._acquired: dict[int, list[_Acquired]] = {}  # by team
        self._fences: list[_Fence] = []

    def update(self, element: Hashable, thread: int, atomic: Handing) -> None:
        """A thread accesses an element by an atomic.

        Args:
            element: Which.
            thread: Who, by number among those that run together.
            atomic: How.
        """
        carried = self._carried.get(element)
        if atomic.acquires and carried is not None:
            self._learn(thread, carried)
        if not atomic.stores:
            return
        known = self._known(thread) if atomic.releases else {}
        if atomic.loads and carried is not None:
            known = _joined(known, carried)
        self._carried[element] = known

    def fence(self, thread: int) -> None:
        """A thread makes visible to engines what it knows of global memory."""
        knowledge = self._known(thread)
        self._fences.append(_Fence(self.team, thread, self._clocks.tick(), knowledge))

    def stamp(self) -> int:
        """A stamp of now for blocks that are one thread each."""
        return self._clocks.now << 32

    def orders(self, now: np.ndarray, teams: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Whether accesses of other teams are ordered before what happens now.

        Shapes: the stamps `now` and `earlier`, and the teams of the latter, alike; that of the answer, too.
        """
        answer = np.zeros(np.shape(earlier), bool)
        threads, others, times = thread_of(now), thread_of(earlier), time_of(earlier)
        asked = [int(team) for team in np.unique(teams)]
        for each in reversed(self._acquired.get(self.team, [])):
            when = np.full(answer.shape, each.time)
            told = self._clocks.knows(threads, np.full(answer.shape, each.thread), when)
            for team in asked:
                if team in each.knowledge and told.any():
                    answer |= told & (teams == team) & (each.knowledge[team][others] >= times)
            if answer.all():
                break
        return answer

    def shows(self, thread: int, teams: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Whether engines that a thread starts now see what threads of other teams wrote; if engines did, they do.

        Shapes: the teams and the stamps of the writes alike; that of the answer, too.
        """
        writers, times = thread_of(earlier), time_of(earlier)
        answer: np.ndarray = writers >= self._clocks.threads
        known = self._known(thread)
        for fence in self._fences:
            if answer.all():
                break
            if fence.team in known and known[fence.team][fence.thread] >= fence.time:
                for team, seen in fence.knowledge.items():
                    answer |= (teams == team) & (seen[writers] >= times)
        return answer

    def _learn(self, thread: int, knowledge: Knowledge) -> None:
        acquired = self._acquired.setdefault(self.team, [])
        if not any(each.thread == thread and each.knowledge is knowledge for each in acquired):
            acquired.append(_Acquired(thread, self._clocks.tick(), knowledge))

    def _known(self, thread: int) -> Knowledge:
        """What a thread knows."""
        known: Knowledge = {self.team: self._clocks.known_by(thread)}
        self._clocks.tick()
        for each in self._acquired.get(self.team, []):
            if self._clocks.knows(np.array([thread]), np.array([each.thread]), np.array([each.time]))[0]:
                known = _joined(known, each.knowledge)
        return known


def _joined(first: Knowledge, second: Knowledge) -> Knowledge:
    both = dict(first)
    for team, known in second.items():
        mine = both.get(team)
        both[team] = known if mine is None or mine is known else np.maximum(mine, known)
    return both


def hands_over(launch: Launch) -> bool:
    """Whether blocks of a launch may tell each other what they did to global memory."""
    releases = acquires = False
    for stmt in walk(launch.body):
        if isinstance(stmt, Atomic) and stmt.buffer.scope is Scope.GLOBAL:
            releases, acquires = releases or stmt.releases, acquires or stmt.acquires
        if isinstance(stmt, AtomicTile) and stmt.dst.buffer.scope is Scope.GLOBAL:
            releases, acquires = releases or stmt.order.releases, acquires or stmt.order.acquires
    return releases and acquires
