"""The registers that a schedule of a loop's statements keeps live at once.

Takes a `LoopGraph` and a schedule; gives the peak over the gaps between statements, or what is live in one of them,
which depends on the statements before it and not on their order. An asynchronous statement holds what it touches until
a statement that depends on it has waited, at the latest until the end of the iteration.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from tilelang.schedule.loop_graph import LoopGraph, Value


def live_registers(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> int:
    """The most registers of a thread that hold values at once in an iteration of the pipelined loop."""
    live = LiveRegisters(graph, stage)
    return max(map(live.behind, itertools.accumulate((1 << number for number in order), operator.or_)), default=0)


class LiveRegisters:
    """The registers of a thread that hold values between the statements of an iteration of the pipelined loop.

    Attributes:
        carried: Those that always do.
        most: An upper bound.
    """

    def __init__(self, graph: LoopGraph, stage: Sequence[int]) -> None:
        self._releasing = _releasing(graph, stage)
        self.carried = sum(value.registers for value in graph.values if value.carried)
        self._values = [self._ends(value, stage) for value in graph.values if not value.carried]
        self.most = self.carried + sum(registers for registers, *_ in self._values)

    def _ends(self, value: Value, stage: Sequence[int]) -> tuple[int, int, list[int], bool]:
        """A value's registers, its first statement, what releases it in its last stage, and whether that is later."""
        first, last = stage[value.touches[0]], max(stage[number] for number in value.touches)
        releasing = [self._releasing[number] for number in value.touches if stage[number] == last]
        return value.registers, 1 << value.touches[0], releasing, last > first

    def behind(self, placed: int) -> int:
        """Those behind some statements of an iteration, the set bits of a number."""
        live = self.carried
        for registers, first, releasing, crosses in self._values:
            begun, held = bool(first & placed), not all(placed & each for each in releasing)
            if (begun or held) if crosses else (begun and held):
                live += registers
        return live


def _releasing(graph: LoopGraph, stage: Sequence[int]) -> list[int]:
    """For each statement, those of which the first releases what it touches: itself, or all that wait for it."""
    found = [0 if work.asynchronous else 1 << number for number, work in enumerate(graph.work)]
    for edge in graph.edges:
        if edge.waits and graph.work[edge.source].asynchronous:
            if stage[edge.source] == stage[edge.target] + edge.distance:
                found[edge.source] |= 1 << edge.target
    return found
