"""Which warp runs next: any that is ready, chosen by seed; and what to say when none is.

Takes the generators of a block's warps, runs them to their ends or until all wait for other blocks. Invariant: the same
seed gives the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from tilelang.errors import BarrierDivergence, Deadlock, Loc, Note, SimulationError, TileLangError
from tilelang.isa.machine import Wait
from tilelang.sim.barriers import Barriers


class Runner(Protocol):
    """A warp as the scheduler sees it.

    Attributes:
        index: Its number in the block.
        loc: The statement it executes.
    """

    loc: Loc

    @property
    def index(self) -> int:
        """Its number in the block."""


R = TypeVar("R", bound=Runner)


class Schedule(Generic[R]):
    """The warps of one block on their way.

    Args:
        warps: The warps.
        start: Begins the program of one.
        choice: Where the order comes from.
        barriers: Asked what went wrong if all wait.
    """

    def __init__(
        self, warps: Sequence[R], start: Callable[[R], Iterator[Wait]], choice: random.Random, barriers: Barriers
    ) -> None:
        self._warps, self._choice, self._barriers = warps, choice, barriers
        self._running = {warp.index: start(warp) for warp in warps}
        self._waits: dict[int, Wait] = {}

    def run(self) -> bool:
        """Runs all warps until they have ended; False if those that have not wait for other blocks.

        Raises:
            BarrierDivergence: Warps wait at a barrier that another never reached.
            Deadlock: All warps that have not ended wait for something else.
        """
        running, waits, warps = self._running, self._waits, self._warps
        while running:
            ready = [index for index in running if index not in waits or waits[index].ready()]
            if not ready and all(wait.beyond for wait in waits.values()):
                return False
            if not ready:
                raise _stuck(warps, waits, set(range(len(warps))) - set(running), self._barriers)
            index = self._choice.choice(ready)
            waits.pop(index, None)
            try:
                waits[index] = next(running[index])
            except StopIteration:
                del running[index]
            except TileLangError as error:
                if error.loc is None and warps[index].loc.file:
                    error.loc = warps[index].loc
                raise
        return True


def _stuck(
    warps: Sequence[Runner], waits: dict[int, Wait], ended: set[int], barriers: Barriers
) -> SimulationError:
    notes = tuple(
        Note(f"warp {index} waits for {_told(wait)}", warps[index].loc) for index, wait in sorted(waits.items())
    )
    first = warps[min(waits)].loc
    absent = barriers.absent(ended)
    if absent is not None:
        number, barrier, missing = absent
        came = ", ".join(str(warp) for warp, _ in sorted(barrier.arrived, key=lambda arrival: arrival[0]))
        return BarrierDivergence(
            f"barrier {number}: {_warps(len(barrier.arrived))} {came} of the block arrived, but "
            f"{_warps(len(missing))} {', '.join(map(str, missing))} ended without doing so",
            loc=first,
            notes=notes,
            hint="let all threads that the barrier counts reach it: move it out of the branch or loop",
        )
    return Deadlock(
        f"{_warps(len(waits))} {', '.join(map(str, sorted(waits)))} wait forever",
        loc=first,
        notes=notes,
        hint="something that one of them waits for must happen before the warp that does it waits itself",
    )


def _told(wait: Wait) -> str:
    return wait.what if wait.detail is None else f"{wait.what}: {wait.detail()}"


def _warps(count: int) -> str:
    return "warp" if count == 1 else "warps"
