"""Modulo schedules: in which stage, and in which order, the statements of a loop run.

Takes a `LoopGraph`, gives the `ModuloSchedule` with the fewest cycles per iteration. A statement of stage s runs in
iteration i - s of the original loop when the pipelined loop is in iteration i. Warps issue statements in order; the
matrix unit executes asynchronous ones one after another while the warps go on until they need a result. Invariant: all
dependences hold, nothing is in flight from one iteration of the pipelined loop to the next unless the graph allows it,
and the result depends on nothing but the graph.

The search is branch and bound over the stages of asynchronous statements, which take all that depends on them along,
and over orders. Source of the formulation: "Optimal Software Pipelining and Warp Specialization for Tensor Core GPUs"
(Twill, OSDI 2026).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from tilelang.records import record
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.loop_graph import Edge, LoopGraph

MIN_GAIN = 1 / 8
"""A schedule replaces another one if it saves at least such a part of its cycles.

Estimates are no more exact, and other warps fill what one leaves idle: on an H200 attention was not faster where the
accumulator was rescaled beside the first gemm of the next iteration, which saves 8 % by the estimate.
"""
MIN_REORDER_GAIN = 1 / 64
"""The same for another order of a single stage, which costs nothing but the registers that the graph limits."""
_MAX_STEPS = 1000  # of the search; the first order that it finds is that of a list scheduler
_REORDER_STEPS = 400  # of the search for an order of a single stage


@record(slots=True)
class ModuloSchedule:
    """When the statements of a loop run.

    Attributes:
        stage: Of each statement, in program order: how many iterations of the pipelined loop after the first ones it
            runs.
        order: The numbers of the statements in the order in which an iteration of the pipelined loop runs them.
        cycles: Of an iteration.
        in_flight: How many iterations later than they are issued asynchronous statements are awaited that nothing in
            the loop waits for, and what they have read is released.
    """

    stage: tuple[int, ...]
    order: tuple[int, ...]
    cycles: int
    in_flight: int = 0

    @property
    def stages(self) -> int:
        """The number of iterations of the original loop that overlap."""
        return max(self.stage, default=0) + 1


@functools.lru_cache(maxsize=16)
def modulo_schedule(graph: LoopGraph) -> ModuloSchedule:
    """The best schedule that the search finds; among equals the one with fewer statements in stage 1.

    The latest ones are kept, since loops are scheduled again where shared memory does not hold what the first need.

    What hinders warps counts among the statements of one iteration only, where a gemm that is issued ahead of what they
    do may gain nothing. Where those of two run at once, schedules that ignore it were the fastest on an H200.
    """
    if graph.in_flight:
        return min((_in_flight(graph, number) for number in graph.in_flight), key=lambda schedule: schedule.cycles)
    unhindered = _unhindered(graph)
    best = _best(unhindered, _stages(graph))
    if best.stages > 1:
        return best
    if unhindered is not graph:
        best = _best(graph, [best.stage])
    nearest = _NearestOrderSearch(graph, best.stage, best.cycles)
    nearest.search(_REORDER_STEPS)
    return best if nearest.found is None else ModuloSchedule(best.stage, nearest.found, nearest.best_cycles)


def _in_flight(graph: LoopGraph, number: int) -> ModuloSchedule:
    """The schedule in program order whose statements are awaited `number` iterations after they have been issued.

    Three things bound an iteration: the unit, which serves all groups of warps one after another; the wait of a group,
    which has `number` + 1 iterations in flight; and loads, which begin when what has read their stage is awaited.
    """
    own = graph.unit_cycles // graph.groups + graph.work[-1].latency
    cycles = max(graph.lower_bound, math.ceil(own / (number + 1)))
    if graph.stages:
        ahead = graph.stages - 1 - number  # iterations in which a stage is neither in use nor awaited
        cycles = max(cycles, math.ceil(graph.load_cycles / ahead) if ahead > 0 else graph.load_cycles + own)
    count = len(graph.work)
    return ModuloSchedule((0,) * count, tuple(range(count)), cycles, number)


def _unhindered(graph: LoopGraph) -> LoopGraph:
    """The graph without what hinders warps; the same one if nothing does."""
    if not any(work.hinders for work in graph.work):
        return graph
    return dataclasses.replace(graph, work=tuple(dataclasses.replace(work, hinders=False) for work in graph.work))


def _best(graph: LoopGraph, stages: Iterable[tuple[int, ...]]) -> ModuloSchedule:
    """The best schedule with one of these assignments of stages, or that of the program."""
    count = len(graph.work)
    best = ModuloSchedule((0,) * count, tuple(range(count)), cycles_of(graph, (0,) * count, range(count)))
    steps = _MAX_STEPS
    for stage in stages:
        if not steps or graph.lower_bound >= best.cycles * (1 - MIN_GAIN):
            break
        order = _OrderSearch(graph, stage, best.cycles)
        steps = order.search(steps)
        if order.found is not None:
            best = ModuloSchedule(stage, order.found, order.best_cycles)
    return best


def is_legal(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> bool:
    """Whether a schedule keeps all dependences."""
    position_of = {number: position for position, number in enumerate(order)}
    return all(
        stage[edge.source] < (later := stage[edge.target] + edge.distance)
        or stage[edge.source] == later
        and position_of[edge.source] < position_of[edge.target]
        for edge in graph.edges
    )


def longest_recurrence(graph: LoopGraph) -> tuple[Edge, int] | None:
    """The dependence into the next iteration that closes the longest chain, and the cycles from its target to its end.

    No schedule has fewer cycles. None if nothing depends on the iteration before.
    """
    chains = [_cycles_from(graph, number) for number in range(len(graph.work))]
    closing = [(edge, chains[edge.target][edge.source]) for edge in graph.edges if edge.distance == 1]
    possible = [(edge, cycles) for edge, cycles in closing if cycles is not None]
    return max(possible, key=lambda pair: pair[1], default=None)


def _cycles_from(graph: LoopGraph, first: int) -> list[int | None]:
    """The cycles of the longest chain within an iteration from a statement through each other; None without one."""
    cycles: list[int | None] = [None] * len(graph.work)
    cycles[first] = graph.work[first].cycles + graph.work[first].latency
    for number in range(first + 1, len(graph.work)):  # dependences within an iteration point forward
        before = [cycles[edge.source] for edge in graph.edges if edge.target == number and not edge.distance]
        longest = max((each for each in before if each is not None), default=None)
        if longest is not None:
            cycles[number] = longest + graph.work[number].cycles + graph.work[number].latency
    return cycles


def _stages(graph: LoopGraph) -> Iterator[tuple[int, ...]]:
    """Assignments of stages: some statements, and all that depends on them, run one iteration later.

    Sets of asynchronous statements come first, since only these leave something to overlap.
    """
    count = len(graph.work)
    dependents = [_dependents(graph, number) for number in range(count)]
    delayed = [number for number in reversed(range(count)) if graph.work[number].asynchronous]
    choices = itertools.chain(
        *(itertools.combinations(delayed, size) for size in range(len(delayed) + 1)),
        *(itertools.combinations(reversed(range(count)), size) for size in (1, 2)),
    )
    seen: set[frozenset[int]] = set()
    for chosen in choices:
        late = frozenset().union(*(dependents[number] for number in chosen))
        apart = any(not each.isdisjoint(late) and not each <= late for each in graph.together)
        if late not in seen and len(late) < max(count, 1) and not apart:
            seen.add(late)
            yield tuple(int(number in late) for number in range(count))


def _dependents(graph: LoopGraph, number: int) -> frozenset[int]:
    """A statement and all that depends on it within an iteration."""
    found, left = {number}, [number]
    while left:
        at = left.pop()
        for edge in graph.edges:
            if edge.source == at and edge.distance == 0 and edge.target not in found:
                found.add(edge.target)
                left.append(edge.target)
    return frozenset(found)


@record(slots=True)
class _Predecessors:
    """The statements that must run before a statement in the same iteration of the pipelined loop.

    Attributes:
        all: The statements.
        awaited: Those that must be done when it begins; of the others the unit does the asynchronous ones before it.
    """

    all: frozenset[int]
    awaited: tuple[int, ...]


def _predecessors(graph: LoopGraph, stage: Sequence[int]) -> list[_Predecessors]:
    """For each statement, those that must run before it in the same iteration of the pipelined loop."""
    found: list[dict[int, bool]] = [{} for _ in graph.work]
    for edge in graph.edges:
        if stage[edge.source] == stage[edge.target] + edge.distance:
            before = found[edge.target]
            before[edge.source] = edge.waits or before.get(edge.source, False)
    return [_Predecessors(frozenset(each), tuple(n for n, waits in each.items() if waits)) for each in found]


@record(slots=True)
class Span:
    """When a statement occupies its unit, in cycles from the beginning of an iteration of the pipelined loop."""

    start: int
    end: int


def spans(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> list[Span]:
    """When each statement occupies its unit, by the cost model."""
    timeline = _timeline_of(graph, stage, order)
    return [timeline.span(number) for number in range(len(graph.work))]


def cycles_of(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> int:
    """The cycles of an iteration of the pipelined loop, by the cost model."""
    return _timeline_of(graph, stage, order).end


def _timeline_of(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> _Timeline:
    timeline = _Timeline(_unhindered(graph) if any(stage) else graph, _predecessors(graph, stage))
    for number in order:
        timeline.append(number)
    return timeline


class _Timeline:
    """An iteration of the pipelined loop, statement by statement.

    Attributes:
        order: The statements so far.
        warps: When the warps have done them.
        unit: When the matrix unit has done them.
        in_flight: The asynchronous statements for which no statement has waited yet.
    """

    def __init__(self, graph: LoopGraph, predecessors: Sequence[_Predecessors]) -> None:
        self._work, self._predecessors = graph.work, predecessors
        self._begun: dict[int, int] = {}  # when each statement occupies its unit
        self._done: dict[int, int] = {}  # when it is done
        self._states: list[tuple[int, int, frozenset[int]]] = []  # before each statement
        self.order: list[int] = []
        self.warps = self.unit = 0
        self.in_flight: frozenset[int] = frozenset()

    @property
    def end(self) -> int:
        """When all is done."""
        return max(self.warps, *self._done.values()) if self._done else 0

    def span(self, number: int) -> Span:
        """When a statement that has been appended occupies its unit."""
        return Span(self._begun[number], self._done[number] - self._work[number].latency)

    def is_ready(self, number: int) -> bool:
        """Whether a statement may be next."""
        return number not in self._done and self._predecessors[number].all <= self._done.keys()

    def start(self, number: int) -> int:
        """When a statement can begin that is ready."""
        return max((self.warps, *map(self._done.__getitem__, self._predecessors[number].awaited)))

    def waits(self, number: int) -> bool:
        """Whether a statement would be the first that waits for some asynchronous one."""
        return not self.in_flight.isdisjoint(self._predecessors[number].awaited)

    def append(self, number: int) -> None:
        """Adds a statement that is ready."""
        start, work = self.start(number), self._work[number]
        self._states.append((self.warps, self.unit, self.in_flight))
        self.order.append(number)
        self.in_flight = self.in_flight.difference(self._predecessors[number].awaited)
        if work.asynchronous:
            self._begun[number] = max(self.unit, start)
            self.unit = self._begun[number] + work.cycles
            self._done[number] = self.unit + work.latency
            self.warps, self.in_flight = start + work.issue, self.in_flight | {number}
        else:
            self._begun[number] = start
            self.warps = self._done[number] = self._end_of(start, work.cycles)

    def _end_of(self, start: int, cycles: int) -> int:
        """When warps have done a statement that they begin: it takes twice as long beside what hinders them."""
        for number in self.order:  # the unit does these one after another
            if self._work[number].hinders and self._begun[number] < start + cycles:
                span = self.span(number)
                after = cycles - max(0, span.start - start)
                cycles += min(after, max(0, span.end - max(start, span.start) + 1) // 2)
        return start + cycles

    def pop(self) -> None:
        """Removes the last statement."""
        number = self.order.pop()
        del self._done[number], self._begun[number]
        self.warps, self.unit, self.in_flight = self._states.pop()


class _OrderSearch:
    """The search for an order, given the stages.

    Attributes:
        found: The best order so far.
        best_cycles: Its cycles; those to improve on if there is none.
        min_gain: The part of these that another order must save.
    """

    min_gain = MIN_GAIN

    def __init__(self, graph: LoopGraph, stage: Sequence[int], best_cycles: int) -> None:
        predecessors = _predecessors(graph, stage)
        self._graph, self._stage, self._timeline = graph, stage, _Timeline(graph, predecessors)
        self._critical_path = _critical_paths(graph, predecessors)
        self._remaining_warp_cycles = graph.warp_cycles
        self._remaining_unit_cycles = graph.unit_cycles
        self.found: tuple[int, ...] | None = None
        self.best_cycles = best_cycles

    def search(self, steps: int) -> int:
        """Searches, and gives the steps that are left."""
        return self._search(steps, range(len(self._critical_path)))

    def _search(self, steps: int, left: Sequence[int]) -> int:
        """The search for the order of the statements that are left."""
        if not left:
            if self._is_better(self._timeline.end) and self._has_registers():
                self.best_cycles, self.found = self._timeline.end, tuple(self._timeline.order)
            return steps
        if not steps or not self._is_better(self._bound(left)):
            return steps
        steps -= 1
        ready = [number for number in left if self._timeline.is_ready(number)]
        for number in sorted(ready, key=self._urgency):
            work = self._graph.work[number]
            self._timeline.append(number)
            self._remaining_warp_cycles -= work.warp_cycles
            self._remaining_unit_cycles -= work.unit_cycles
            steps = self._search(steps, [other for other in left if other != number])
            self._remaining_warp_cycles += work.warp_cycles
            self._remaining_unit_cycles += work.unit_cycles
            self._timeline.pop()
        return steps

    def _has_registers(self) -> bool:
        """Whether the values that are live at once fit into the registers."""
        graph, limit = self._graph, self._graph.registers
        more = 0 if any(self._stage) else graph.one_stage_registers
        return limit is None or live_registers(graph, self._stage, self._timeline.order) <= limit + more

    def _is_better(self, cycles: int) -> bool:
        """Whether a schedule of `cycles` cycles improves enough on the best one."""
        return cycles < self.best_cycles * (1 - self.min_gain)

    def _bound(self, left: Sequence[int]) -> int:
        """The fewest cycles of any order that begins like this one."""
        longest = max(map(self._critical_path.__getitem__, left))
        by_warps = self._timeline.warps + max(self._remaining_warp_cycles, longest)
        return max(by_warps, self._timeline.unit + self._remaining_unit_cycles)

    def _urgency(self, number: int) -> tuple[int, bool, bool, int, int]:
        """The key by which statements are tried: earliest start, asynchronous, without a wait, longest critical path.

        A statement that waits comes late even where the wait costs nothing by the estimate: other warps delay the
        asynchronous work that it waits for.
        """
        timeline, synchronous = self._timeline, not self._graph.work[number].asynchronous
        return timeline.start(number), synchronous, timeline.waits(number), -self._critical_path[number], number


class _NearestOrderSearch(_OrderSearch):
    """The search for an order of a single stage, near to the program's first: values live about as long as in it."""

    min_gain = MIN_REORDER_GAIN

    def _urgency(self, number: int) -> tuple[int, bool, bool, int, int]:
        return 0, False, False, 0, number


def _critical_paths(graph: LoopGraph, predecessors: Sequence[_Predecessors]) -> list[int]:
    """The longest path from the beginning of each statement to the end of the iteration, in cycles."""
    successors: list[list[int]] = [[] for _ in predecessors]
    for number, each in enumerate(predecessors):
        for earlier in each.awaited:
            successors[earlier].append(number)
    found: dict[int, int] = {}
    return [_longest_path(number, graph, successors, found) for number in range(len(predecessors))]


def _longest_path(number: int, graph: LoopGraph, successors: list[list[int]], found: dict[int, int]) -> int:
    if number not in found:
        work = graph.work[number]
        after = [_longest_path(later, graph, successors, found) for later in successors[number]]
        found[number] = work.cycles + work.latency + max(after, default=0)
    return found[number]
