"""The barriers of a block: arrivals, completion, and the order that they establish.

Takes arrivals of whole warps, gives waits to yield. Invariant: a barrier completes exactly when as many threads as it
expects have arrived, and then starts its next generation; accesses before an arrival are ordered before those after a
wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np

from tilelang.errors import BarrierDivergence, Loc, Note
from tilelang.isa.simulated import Wait
from tilelang.records import record
from tilelang.sim.clocks import Clocks


@record(frozen=False)
class Barrier:
    """One barrier in its current generation.

    Attributes:
        generation: How often it has completed.
        expected: Threads that it waits for; 0 before the first arrival.
        arrived: The warps that have arrived, and where.
        waiting: Those of them that wait.
        released: The joined vector clock of the arrived threads.
        before: The warps of the previous generation, and their joined vector clock.
        orders_all: Whether all accesses of the warps that have arrived are ordered before what follows the barrier.
    """

    generation: int = 0
    expected: int = 0
    arrived: list[tuple[int, Loc]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    released: np.ndarray | None = None
    before: tuple[frozenset[int], np.ndarray] | None = None
    orders_all: bool = True


class Barriers:
    """All barriers of a running block.

    Args:
        threads: The threads of each warp, by number in the block.
        clocks: What orders accesses.
    """

    def __init__(self, threads: list[np.ndarray], clocks: Clocks) -> None:
        self._threads, self._clocks = threads, clocks
        self._barriers: dict[int, Barrier] = {}
        self.full_syncs = 0
        self._split = Barrier()
        self._signalled: dict[int, tuple[int, Loc]] = {}  # warps that have signalled: the generation, and where

    def arrive(self, number: int, warp: int, loc: Loc, threads: int | None, *, waits: bool) -> Barrier:
        """A warp arrives.

        Raises:
            BarrierDivergence: It expects another number of threads than the arrivals before it, or is one too many.
        """
        warp_size = self._clocks.warp_size
        expected = len(self._threads) * warp_size if threads is None else threads
        if expected <= 0 or expected % warp_size:
            raise BarrierDivergence(
                f"barrier {number} of {expected} threads: a barrier counts whole warps of {warp_size} threads"
            )
        barrier = self._barriers.setdefault(number, Barrier())
        if not barrier.arrived:
            barrier.expected = expected
        elif barrier.expected != expected:
            raise BarrierDivergence(
                f"barrier {number}: warp {warp} expects {expected} threads, but warp {barrier.arrived[0][0]} expects "
                f"{barrier.expected}",
                notes=(Note(f"warp {barrier.arrived[0][0]} arrived here", barrier.arrived[0][1]),),
                hint="give all arrivals at one barrier the same number of threads",
            )
        for other, place in barrier.arrived:
            if other == warp:
                raise BarrierDivergence(
                    f"barrier {number}: warp {warp} arrives twice before the others have arrived once",
                    notes=(Note("it arrived here before", place),),
                    hint="let every warp arrive once per use of the barrier, or use a second barrier",
                )
        self._check_generation(number, barrier, warp)
        barrier.arrived.append((warp, loc))
        if waits:
            barrier.waiting.append(warp)
        if len(barrier.arrived) * warp_size == expected:
            self._open(barrier, warp)
        else:
            self._release(barrier, warp)
        return barrier

    def _check_generation(self, number: int, barrier: Barrier, warp: int) -> None:
        """Refuses a warp that may arrive in the previous generation, to which it does not belong."""
        if barrier.before is None:
            return
        members, clock = barrier.before
        if warp not in members and not self._clocks.has_observed(self._threads[warp], clock):
            raise BarrierDivergence(
                f"barrier {number}: warp {warp} may arrive while warps {', '.join(map(str, sorted(members)))} still "
                "synchronize there, and is then counted among them",
                hint="use a different barrier number for each group of threads, or synchronize the groups in between",
            )

    def barrier_sync(self, number: int, warp: int, loc: Loc, threads: int | None) -> Iterator[Wait]:
        """A warp arrives and waits for the others."""
        barrier = self._barriers.setdefault(number, Barrier())
        generation = barrier.generation
        self.arrive(number, warp, loc, threads, waits=True)
        yield Wait(self._text(number, barrier), lambda: barrier.generation > generation)

    # -- arrivals that wait for no memory access ------------------------------------------------------------------
    def signal(self, warp: int, loc: Loc, *, orders_all: bool) -> None:
        """A warp arrives at the barrier of all warps, without waiting.

        Args:
            warp: Which.
            loc: The statement.
            orders_all: Whether it has waited for all its accesses, and accesses nothing until it waits.

        Raises:
            BarrierDivergence: It has arrived before, and not waited since.
        """
        if warp in self._signalled:
            raise BarrierDivergence(
                f"barrier of the block: warp {warp} arrives twice without waiting in between",
                notes=(Note("it arrived here before", self._signalled[warp][1]),),
                hint="let every arrival be followed by a wait",
            )
        barrier = self._split
        self._signalled[warp] = barrier.generation, loc
        barrier.expected = len(self._threads) * self._clocks.warp_size
        barrier.orders_all &= orders_all
        barrier.arrived.append((warp, loc))
        self._release(barrier, warp)
        if len(barrier.arrived) == len(self._threads):
            self.full_syncs += 1
            assert barrier.released is not None
            if barrier.orders_all and self._clocks.threads == self._clocks.per_block:
                self._clocks.synchronize_all()
            barrier.before = frozenset(range(len(self._threads))), barrier.released
            barrier.generation += 1
            barrier.arrived, barrier.released, barrier.orders_all = [], None, True

    def wait(self, warp: int) -> Iterator[Wait]:
        """A warp that has arrived waits for the others.

        Raises:
            BarrierDivergence: It has not arrived.
        """
        if warp not in self._signalled:
            raise BarrierDivergence(
                f"barrier of the block: warp {warp} waits without having arrived",
                hint="let every wait follow an arrival of the same threads",
            )
        barrier, (generation, _) = self._split, self._signalled[warp]
        barrier.waiting.append(warp)
        yield Wait(self._text(0, barrier), lambda: barrier.generation > generation)
        barrier.waiting.remove(warp)
        del self._signalled[warp]
        assert barrier.before is not None
        self._clocks.acquire(self._threads[warp], barrier.before[1])

    def absent(self, ended: set[int]) -> tuple[int | str, Barrier, list[int]] | None:
        """A barrier that waits for warps that have ended: its number, itself, and these warps."""
        numbered: list[tuple[int | str, Barrier]] = [*self._barriers.items()]
        for number, barrier in [*numbered, ("of the block", self._split)]:
            missing = ended - {warp for warp, _ in barrier.arrived}
            if barrier.waiting and missing:
                return number, barrier, sorted(missing)
        return None

    def check_complete(self) -> None:
        """Checks at the end of the block that every arrival at a numbered barrier has been waited for.

        Raises:
            BarrierDivergence: A barrier still expects threads.
        """
        for number, barrier in self._barriers.items():
            if barrier.arrived:
                count = len(barrier.arrived) * self._clocks.warp_size
                (warp, loc), *_ = barrier.arrived
                raise BarrierDivergence(
                    f"barrier {number}: the block ends when {count} of {barrier.expected} threads have arrived",
                    loc=loc,
                    notes=(Note(f"warp {warp} arrived here", loc),),
                    hint="let as many threads wait as others arrive for",
                )

    def _text(self, number: int, barrier: Barrier) -> str:
        threads = "all" if barrier.expected == len(self._threads) * self._clocks.warp_size else str(barrier.expected)
        return f"barrier {number} of {threads} threads"

    def _release(self, barrier: Barrier, warp: int) -> None:
        clock = self._clocks.release(self._threads[warp])
        barrier.released = clock if barrier.released is None else np.maximum(barrier.released, clock)

    def _open(self, barrier: Barrier, last: int) -> None:
        everybody = len(barrier.waiting) == len(self._threads)
        self.full_syncs += everybody
        if everybody and self._clocks.threads == self._clocks.per_block:
            self._clocks.synchronize_all()
            barrier.before = None
        else:
            self._release(barrier, last)
            assert barrier.released is not None
            for warp in barrier.waiting:
                self._clocks.acquire(self._threads[warp], barrier.released)
            barrier.before = frozenset(warp for warp, _ in barrier.arrived), barrier.released
        barrier.generation += 1
        barrier.arrived, barrier.waiting, barrier.released = [], [], None
