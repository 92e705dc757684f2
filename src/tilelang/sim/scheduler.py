"""Runs the warps of blocks: any ready warp is next, chosen by seed; where none is ready, reports the deadlock.

One warp may be held back: it runs only where no other one can, as if the GPU did not issue it for as long as possible.

Takes the generators of a block's warps, runs them to their ends or until all wait for other blocks. Invariant: the same
seed gives the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from tilelang.errors import BarrierDivergence, Deadlock, Loc, Note, SimulationError, TileLangError
from tilelang.isa.simulated import Wait
from tilelang.sim.barriers import Barriers


class Runner(Protocol):
    """A warp as the scheduler sees it.

    Attributes:
        index: Its number in the block.
        rank: The rank of its block in the cluster.
        loc: The statement it executes.
    """

    loc: Loc

    @property
    def rank(self) -> int:
        """The rank of its block in the cluster."""

    @property
    def index(self) -> int:
        """Its number in the block."""


R = TypeVar("R", bound=Runner)


class Schedule(Generic[R]):
    """The schedule of the warps of one block, or of all blocks of a cluster.

    Args:
        warps: The warps.
        start: Starts the program of a warp.
        rng: The source of the order.
        barriers: Of each block, for the report of a deadlock.
        resumed: Called with a warp before it continues.
        held_back: The place of the warp that is held back; None: `rng` draws whether one is, and which.
    """

    def __init__(
        self,
        warps: Sequence[R],
        start: Callable[[R], Iterator[Wait]],
        rng: random.Random,
        barriers: Sequence[Barriers],
        resumed: Callable[[R], None] = lambda warp: None,
        held_back: int | None = None,
    ) -> None:
        self._warps, self._rng, self._barriers, self._resumed = warps, rng, barriers, resumed
        self._running = {number: start(warp) for number, warp in enumerate(warps)}
        self._waits: dict[int, Wait] = {}
        self._held_back = rng.choice((None, rng.randrange(len(warps)))) if held_back is None else held_back

    def run(self) -> bool:
        """Runs all warps until they have ended; False if those that have not wait for other blocks.

        Raises:
            BarrierDivergence: Warps wait at a barrier that another never reached, or arrive at one where none waits.
            Deadlock: All warps that have not ended wait for something else.
        """
        running, waits, warps = self._running, self._waits, self._warps
        while running:
            ready = [number for number in running if number not in waits or waits[number].ready()]
            if not ready and all(wait.by_other_blocks for wait in waits.values()):
                return False
            if not ready:
                raise _stuck(warps, waits, set(range(len(warps))) - set(running), self._barriers)
            if self._held_back in ready:
                ready = [each for each in ready if each != self._held_back and not self._polls(each)] or ready
            number = self._rng.choice(ready)
            waits.pop(number, None)
            self._resumed(warps[number])
            try:
                waits[number] = next(running[number])
            except StopIteration:
                del running[number]
            except TileLangError as error:
                if error.loc is None and warps[number].loc.file:
                    error.loc = warps[number].loc
                raise
        for barriers in self._barriers:
            barriers.check_complete()
        return True

    def _polls(self, number: int) -> bool:
        """Whether a warp waits for nothing that others do, but lets them go on in between."""
        return number in self._waits and self._waits[number].polls


def _stuck(
    warps: Sequence[Runner], waits: dict[int, Wait], ended: set[int], barriers: Sequence[Barriers]
) -> SimulationError:
    several = len(barriers) > 1
    names = [f"{warp.index} of block {warp.rank}" if several else str(warp.index) for warp in warps]
    notes = tuple(
        Note(f"warp {names[number]} waits for {_wait_text(wait)}", warps[number].loc)
        for number, wait in sorted(waits.items())
    )
    first = warps[min(waits)].loc
    for rank, ours in enumerate(barriers):
        absent = ours.absent({warps[number].index for number in ended if warps[number].rank == rank})
        if absent is None:
            continue
        number, barrier, missing = absent
        block = f"block {rank}" if several else "the block"
        came = ", ".join(str(warp) for warp, _ in sorted(barrier.arrived, key=lambda arrival: arrival[0]))
        return BarrierDivergence(
            f"barrier {number}: {_warps(len(barrier.arrived))} {came} of {block} arrived, but "
            f"{_warps(len(missing))} {', '.join(map(str, missing))} ended without doing so",
            loc=first,
            notes=notes,
            hint="let all threads that the barrier counts reach it: move it out of the branch or loop",
        )
    return Deadlock(
        f"{_warps(len(waits))} {', '.join(names[number] for number in sorted(waits))} wait forever",
        loc=first,
        notes=notes,
        hint="something that one of them waits for must happen before the warp that does it waits itself",
    )


def _wait_text(wait: Wait) -> str:
    return wait.what if wait.detail is None else f"{wait.what}: {wait.detail()}"


def _warps(count: int) -> str:
    return "warp" if count == 1 else "warps"
