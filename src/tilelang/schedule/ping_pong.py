"""Phases of a loop in which two groups of warps ping-pong: one uses the matrix unit while the other accesses memory.

Takes the steps of an iteration in program order, gives their phases, alternately of memory and of the matrix unit. Both
groups run the same phases, one of them a phase behind the other; a barrier of the block ends each phase:

    first group    load 0   multiply 0   load 1       multiply 1   load 0 ...
    second group            load 0       multiply 0   load 1       multiply 1   ...

Invariant: steps keep their order, but for those after the last one on the matrix unit, which run before it. Since an
access of the first group may come a phase early, two accesses of different warps are ordered if two of these barriers
lie between them; one is not enough. `PingPong` only says when steps run: callers check that this orders their accesses.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tilelang.records import record

BARRIER_CYCLES = 40
"""What a barrier costs, of which a phase has one. An assumption: it was measured on no machine."""


@record(slots=True)
class Step:
    """A step of an iteration.

    Attributes:
        matrix: Cycles for which a group occupies the matrix units; 0 for a step that does not use them.
        memory: Cycles for which a group occupies shared memory.
        needs: The numbers of earlier steps that it must follow.
    """

    matrix: int = 0
    memory: int = 0
    needs: frozenset[int] = frozenset()


@record(slots=True)
class PingPong:
    """The phases of an iteration.

    Attributes:
        phases: The numbers of the steps of each phase; those with even numbers access memory.
        cycles: Of an iteration of both groups.
        cycles_together: The same without ping-pong, where both groups load and then multiply.
    """

    phases: tuple[tuple[int, ...], ...]
    cycles: int
    cycles_together: int

    @property
    def gains(self) -> bool:
        """Whether an iteration takes fewer cycles in ping-pong."""
        return self.cycles < self.cycles_together


def alternating_phases(steps: Sequence[Step]) -> PingPong | None:
    """The phases of these steps, or None if they cannot alternate."""
    last = max((number for number, step in enumerate(steps) if step.matrix), default=-1)
    behind = range(last + 1, len(steps))
    if last < 0 or any(last in _all_needs(steps, number) for number in behind):
        return None
    sequence = [*range(last), *behind, last]
    phases = [tuple(group) for _, group in itertools.groupby(sequence, lambda number: bool(steps[number].matrix))]
    if steps[phases[0][0]].matrix:
        return None
    busy = [sum(steps[number].matrix + steps[number].memory for number in phase) for phase in phases]
    cycles = sum(max(own, other) + BARRIER_CYCLES for own, other in zip(busy, busy[-1:] + busy, strict=False))
    return PingPong(tuple(phases), cycles, _cycles_together(steps, last))


def _all_needs(steps: Sequence[Step], number: int) -> set[int]:
    """The steps that one must follow, directly or not."""
    found: set[int] = set()
    left = [number]
    while left:
        new = steps[left.pop()].needs - found
        found |= new
        left += new
    return found


def _cycles_together(steps: Sequence[Step], last: int) -> int:
    """The cycles of an iteration of both groups at once.

    Nothing hides the loads that the first product waits for, and what comes after the last one.
    """
    first = next(number for number, step in enumerate(steps) if step.matrix)
    exposed = {*_all_needs(steps, first), *range(last + 1, len(steps))}
    before_and_after: int = sum(step.memory for number, step in enumerate(steps) if number in exposed)
    beside: int = sum(step.memory for number, step in enumerate(steps) if number not in exposed)
    return 2 * (before_and_after + max(beside, sum(step.matrix for step in steps)))
