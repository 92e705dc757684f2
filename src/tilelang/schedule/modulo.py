"""Modulo schedules: in which stage, and in which order, the statements of a loop run.

Takes a `LoopGraph`, gives the `ModuloSchedule` with the fewest cycles per iteration. A statement of stage s runs in
iteration i - s of the original loop when the pipelined loop is in iteration i. Invariant: all dependences hold, nothing
is in flight from one iteration of the pipelined loop to the next unless the graph allows it, and the result depends on
nothing but the graph.

The search tries the stages of asynchronous statements, which take all that depends on them along, and for each those
orders that `order_search` finds. Source of the formulation: "Optimal Software Pipelining and Warp Specialization for
Tensor Core GPUs" (Twill, OSDI 2026).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from tilelang.records import record
from tilelang.schedule.iteration_timeline import IterationTimeline, Span
from tilelang.schedule.loop_graph import Edge, LoopGraph
from tilelang.schedule.order_search import OrderSearch

MIN_GAIN = 1 / 8
"""A schedule replaces another one if it saves at least such a part of its cycles.

Estimates are no more exact, and other warps fill what one leaves idle: on an H200 attention was not faster where the
accumulator was rescaled beside the first gemm of the next iteration, which saves 8 % by the estimate.
"""
MIN_REORDER_GAIN = 1 / 64
"""The same for another order of a single stage, which costs nothing but the registers that the graph limits."""
_REORDER_STEPS = 400  # of the search for an order of a single stage
_MAX_ASSIGNMENTS = 100  # of stages, which are tried
_ROUNDS = ((800, 40), (2000, 200), (2000, 2000))
"""Of the search for stages: the steps after which a round ends, and those that it has for one assignment of stages."""


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
    unhindered, stages = _unhindered(graph), itertools.islice(_stages(graph), _MAX_ASSIGNMENTS)
    best = _best(unhindered, _program(unhindered), stages)
    return _in_one_stage(graph, _program(graph), best.order) if best.stages == 1 else best


def schedule_of_runs(graph: LoopGraph, stage: tuple[int, ...], runs: Sequence[int]) -> ModuloSchedule:
    """The best schedule that the search finds of those with given stages, in which runs of statements keep their order.

    Args:
        graph: The graph.
        stage: The stage of each statement.
        runs: The number of its run, which the user places; in program order, no run breaks a dependence.
    """
    order = tuple(sorted(range(len(runs)), key=lambda number: (runs[number], number)))
    given = ModuloSchedule(stage, order, cycles_of(graph, stage, order))
    graph = dataclasses.replace(graph, runs=tuple(runs))
    if not any(stage):
        return _in_one_stage(graph, given, order)
    program = dataclasses.replace(given, cycles=_program(graph).cycles)
    best = _best(_unhindered(graph), program, [stage])
    return given if best is program else best


def _program(graph: LoopGraph) -> ModuloSchedule:
    """The schedule of the program."""
    count = len(graph.work)
    return ModuloSchedule((0,) * count, tuple(range(count)), cycles_of(graph, (0,) * count, range(count)))


def _in_one_stage(graph: LoopGraph, program: ModuloSchedule, order: Sequence[int]) -> ModuloSchedule:
    """The schedule of a single stage near to the program's order, where values live about as long as in it.

    Args:
        graph: The graph.
        program: The schedule of the program, or of the user.
        order: One that is good where nothing hinders warps; the search is for those that hardly take longer.
    """
    given = dataclasses.replace(program, order=tuple(order), cycles=cycles_of(graph, program.stage, order))
    limit = program.cycles * (1 - MIN_REORDER_GAIN)
    search = OrderSearch(graph, program.stage, in_program_order=True)
    search.search(min(limit, given.cycles / (1 - MIN_REORDER_GAIN)), _REORDER_STEPS, MIN_REORDER_GAIN)
    return _found(search, given if given.cycles < limit else program)


def _found(search: OrderSearch, otherwise: ModuloSchedule) -> ModuloSchedule:
    """What a search found, or another schedule."""
    return otherwise if search.found is None else ModuloSchedule(search.stage, search.found, search.cycles)


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


def _best(graph: LoopGraph, best: ModuloSchedule, stages: Iterable[tuple[int, ...]]) -> ModuloSchedule:
    """The schedule that is given, or one of these stages that saves enough.

    All stages get a few steps, and then, by their bounds, those more of which some orders are left.
    """
    taken, lower_bound = 0, graph.lower_bound
    searches: Iterable[OrderSearch] = (OrderSearch(graph, stage) for stage in stages)
    for until, most in _ROUNDS:
        left = []
        for search in searches:
            limit = best.cycles * (1 - MIN_GAIN)
            if lower_bound >= limit:
                return best
            if search.lower_bound < limit:
                steps = min(most, until - taken)
                used = search.search(limit, steps, MIN_GAIN)
                taken += used
                left += [search] if used == steps else []
                best = _found(search, best)
        searches = sorted(left, key=lambda search: search.lower_bound)
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


def spans(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> list[Span]:
    """When each statement occupies its unit, by the cost model."""
    timeline = _timeline_of(graph, stage, order)
    return [timeline.span(number) for number in range(len(graph.work))]


def cycles_of(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> int:
    """The cycles of an iteration of the pipelined loop, by the cost model."""
    return _timeline_of(graph, stage, order).end


def _timeline_of(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> IterationTimeline:
    timeline = IterationTimeline(_unhindered(graph) if any(stage) else graph, stage)
    for number in order:
        timeline.append(number)
    return timeline
