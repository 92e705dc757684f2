"""The search for an order of a loop's statements in an iteration of the pipelined loop, given their stages.

Takes a `LoopGraph` and stages, gives an order with few cycles whose values fit into the registers. The search is branch
and bound, depth first: it goes on with no beginning whose rest takes too long, by its work on each unit and by its
longest path, and with none that is nowhere earlier than another one of the same statements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.schedule.iteration_timeline import IterationTimeline
from tilelang.schedule.live_registers import LiveRegisters
from tilelang.schedule.loop_graph import LoopGraph


class OrderSearch:
    """The search for an order.

    Args:
        graph: The graph.
        stage: The stages of its statements.
        in_program_order: Whether statements are tried in this order, otherwise as `_urgency` has it.

    Attributes:
        stage: The same.
        lower_bound: No order has fewer cycles.
        found: The order that the last search found; None if there is none.
        cycles: Its cycles.
    """

    def __init__(self, graph: LoopGraph, stage: tuple[int, ...], *, in_program_order: bool = False) -> None:
        self.stage, self._graph, self._in_program_order = stage, graph, in_program_order
        heads, self._paths = _longest_paths(graph, stage)
        self.lower_bound = max(map(int.__add__, heads, self._paths), default=0)
        self._is_asynchronous = [work.asynchronous for work in graph.work]
        asynchronous = [number for number, runs in enumerate(self._is_asynchronous) if runs]
        self._behind_unit = min((self._paths[number] - graph.work[number].cycles for number in asynchronous), default=0)
        if asynchronous:
            first = min(heads[number] for number in asynchronous)
            self.lower_bound = max(self.lower_bound, first + graph.unit_cycles + self._behind_unit)
        self.found: tuple[int, ...] | None = None
        self.cycles = 0

    def search(self, limit: float, steps: int, gain: float = 0) -> int:
        """Searches for the order with the fewest cycles; gives the steps that it took, `steps` if it is not complete.

        Args:
            limit: In cycles, which an order must take less of.
            steps: How many beginnings the search may continue.
            gain: The part of its cycles that an order must save to replace the one before.
        """
        graph = self._graph
        self._timeline, self._live = IterationTimeline(graph, self.stage), LiveRegisters(graph, self.stage)
        more = 0 if any(self.stage) else graph.one_stage_registers
        self._registers = self._live.most if graph.registers is None else graph.registers + more
        self._limit, self._steps, self._gain, self.found = limit, steps, gain, None
        self._fits: dict[int, bool] = {}
        self._seen: dict[object, list[tuple[int, ...]]] = {}
        everything = (1 << len(graph.work)) - 1
        if self._has_registers(everything):
            self._search(everything, graph.warp_cycles, graph.unit_cycles)
        return steps - self._steps

    def _search(self, left: int, warp_cycles: int, unit_cycles: int) -> None:
        """The search for the order of the statements that are left, which take so many cycles of each unit."""
        timeline = self._timeline
        if not left:
            if timeline.end < self._limit:
                self.cycles, self.found = timeline.end, tuple(timeline.order)
                self._limit = timeline.end * (1 - self._gain)
            return
        ready = timeline.ready()
        if self._bound(ready, warp_cycles, unit_cycles) >= self._limit:
            return
        if not self._steps or self._is_dominated():
            return
        self._steps -= 1
        ready = [number for number in ready if self._has_registers(timeline.placed | 1 << number)]
        for number in ready if self._in_program_order else sorted(ready, key=self._urgency):
            work = self._graph.work[number]
            timeline.append(number)
            self._search(left & ~(1 << number), warp_cycles - work.warp_cycles, unit_cycles - work.unit_cycles)
            timeline.pop()

    def _bound(self, ready: Sequence[int], warp_cycles: int, unit_cycles: int) -> int:
        """The fewest cycles of any order that begins like this one, of which some statements are ready."""
        timeline = self._timeline
        starts = list(map(timeline.start, ready))
        earliest = min(starts)
        bound = max(timeline.end, earliest + warp_cycles)
        on_unit = max(timeline.unit, earliest)
        if unit_cycles:
            bound = max(bound, on_unit + unit_cycles + self._behind_unit)
        for number, start in zip(ready, starts, strict=True):
            begin = on_unit if self._is_asynchronous[number] and start < on_unit else start
            if begin + self._paths[number] > bound:
                bound = begin + self._paths[number]
        return bound

    def _has_registers(self, placed: int) -> bool:
        """Whether the values that are live behind some statements fit into the registers."""
        if self._live.most <= self._registers:
            return True
        if placed not in self._fits:
            self._fits[placed] = self._live.behind(placed) <= self._registers
        return self._fits[placed]

    def _is_dominated(self) -> bool:
        """Whether a beginning of the same statements was searched that was nowhere later."""
        times = self._timeline.times()
        others = self._seen.setdefault((self._timeline.placed, *self._timeline.hindering()), [])
        if any(all(map(int.__le__, other, times)) for other in others):
            return True
        others.append(times)
        return False

    def _urgency(self, number: int) -> tuple[int, bool, bool, int, int]:
        """The key by which statements are tried: earliest start, asynchronous, without a wait, longest path.

        A statement that waits comes late even where the wait costs nothing by the estimate: other warps delay the
        asynchronous work that it waits for.
        """
        timeline, synchronous = self._timeline, not self._graph.work[number].asynchronous
        return timeline.start(number), synchronous, timeline.waits(number), -self._paths[number], number


def _longest_paths(graph: LoopGraph, stage: Sequence[int]) -> tuple[list[int], list[int]]:
    """The longest paths to the beginning of each statement, and from it to the end of the iteration, in cycles."""
    work = graph.work
    done = [each.cycles + each.latency for each in work]
    within = [edge for edge in graph.edges if stage[edge.source] == stage[edge.target] + edge.distance]
    # those into a statement come before those from it
    within.sort(key=lambda edge: (-stage[edge.source], edge.distance, edge.source))
    edges = [(e.source, e.target, done[e.source] if e.waits else work[e.source].cycles) for e in within]
    heads, tails = [0] * len(done), done
    for source, target, cycles in edges:
        if heads[source] + cycles > heads[target]:
            heads[target] = heads[source] + cycles
    for source, target, cycles in reversed(edges):
        if cycles + tails[target] > tails[source]:
            tails[source] = cycles + tails[target]
    return heads, tails
