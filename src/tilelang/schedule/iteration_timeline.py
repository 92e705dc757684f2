"""The cost model of an iteration of a pipelined loop: when each statement begins and ends, in a given order.

Takes a `LoopGraph` and the stages of its statements, and then these one by one. Warps issue statements in order; the
matrix unit executes asynchronous ones one after another while the warps go on until they need a result. Sets of
statements are the set bits of a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.records import record
from tilelang.schedule.loop_graph import LoopGraph


@record(slots=True)
class Span:
    """When a statement occupies its unit, in cycles from the beginning of an iteration of the pipelined loop."""

    start: int
    end: int


class IterationTimeline:
    """An iteration of the pipelined loop, statement by statement.

    Attributes:
        order: The statements so far.
        placed: The set of them.
        warps: When the warps have done them.
        unit: When the matrix unit has done them.
        end: When all is done.
    """

    def __init__(self, graph: LoopGraph, stage: Sequence[int]) -> None:
        self._work = graph.work
        count = len(graph.work)
        self._before = [0] * count  # of each statement, the set of those that must run before it
        self._awaited: list[tuple[int, ...]] = [()] * count  # the asynchronous ones that must be done when it begins
        self._awaited_by = {number: 0 for number, work in enumerate(graph.work) if work.asynchronous}
        for number, run in enumerate(graph.runs):
            self._before[number] = sum(1 << other for other, lower in enumerate(graph.runs) if lower < run)
        for edge in graph.edges:
            source, target = edge.source, edge.target
            if stage[source] == stage[target] + edge.distance:
                self._before[target] |= 1 << source
                if edge.waits and graph.work[source].asynchronous and source not in self._awaited[target]:
                    self._awaited[target] += (source,)
                    self._awaited_by[source] |= 1 << target
        self._hindering = any(work.hinders for work in graph.work)
        self._begun, self._done = [0] * count, [0] * count
        self._states: list[tuple[int, int, int, int]] = []  # before each statement
        self.order: list[int] = []
        self.placed = self.warps = self.unit = self.end = 0
        self._in_flight = 0  # the asynchronous statements for which no statement has waited yet

    def span(self, number: int) -> Span:
        """When a statement that has been appended occupies its unit."""
        return Span(self._begun[number], self._done[number] - self._work[number].latency)

    def ready(self) -> list[int]:
        """The statements that may be next."""
        left = ~self.placed
        return [number for number, before in enumerate(self._before) if left >> number & 1 and not before & left]

    def start(self, number: int) -> int:
        """When a statement can begin that is ready."""
        start = self.warps
        for earlier in self._awaited[number]:
            if self._done[earlier] > start:
                start = self._done[earlier]
        return start

    def times(self) -> tuple[int, ...]:
        """The times on which those of other statements depend, but for what hinders warps."""
        left = ~self.placed
        awaited = (self._done[n] for n, by in self._awaited_by.items() if not left >> n & 1 and by & left)
        return (self.warps, self.unit, self.end, *(max(self.warps, done) for done in awaited))

    def waits(self, number: int) -> bool:
        """Whether a statement would be the first that waits for some asynchronous one."""
        return any(self._in_flight >> earlier & 1 for earlier in self._awaited[number])

    def append(self, number: int) -> None:
        """Adds a statement that is ready."""
        start, work = self.start(number), self._work[number]
        self._states.append((self.warps, self.unit, self.end, self._in_flight))
        for earlier in self._awaited[number]:
            self._in_flight &= ~(1 << earlier)
        if work.asynchronous:
            self._begun[number] = max(self.unit, start)
            self.unit = self._begun[number] + work.cycles
            self._done[number] = self.unit + work.latency
            self.warps = start + work.issue
            self._in_flight |= 1 << number
        else:
            self._begun[number] = start
            self.warps = self._done[number] = self._end_of(start, work.cycles)
        self.end = max(self.end, self.warps, self._done[number])
        self.order.append(number)
        self.placed |= 1 << number

    def hindering(self) -> list[Span]:
        """When statements hinder the warps from now on."""
        if not self._hindering:
            return []
        spans = [self.span(number) for number in self.order if self._work[number].hinders]
        return [span for span in spans if span.end >= self.warps]

    def _end_of(self, start: int, cycles: int) -> int:
        """When warps have done a statement that they begin: it takes twice as long beside what hinders them."""
        for span in self.hindering():  # the unit does these one after another
            if span.start < start + cycles:
                after = cycles - max(0, span.start - start)
                cycles += min(after, max(0, span.end - max(start, span.start) + 1) // 2)
        return start + cycles

    def pop(self) -> None:
        """Removes the last statement."""
        self.placed &= ~(1 << self.order.pop())
        self.warps, self.unit, self.end, self._in_flight = self._states.pop()
