"""The registers that a schedule of a loop's statements keeps live at once.

Takes a `LoopGraph` and a schedule; gives the peak over the gaps between statements. An asynchronous statement holds
what it touches until a statement that depends on it has waited, at the latest until the end of the iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.schedule.loop_graph import LoopGraph, Value


def live_registers(graph: LoopGraph, stage: Sequence[int], order: Sequence[int]) -> int:
    """The most registers of a thread that hold values at once in an iteration of the pipelined loop."""
    count = len(order)
    place = {number: position for position, number in enumerate(order)}
    released = [_released(graph, stage, place, number) for number in range(count)]
    before = [sum(value.registers for value in graph.values if value.carried)] * count  # before each statement
    for value in graph.values:
        for gap in () if value.carried else _gaps(value, stage, place, released):
            before[gap % count] += value.registers
    return max(before, default=0)


def _gaps(value: Value, stage: Sequence[int], place: dict[int, int], released: Sequence[int]) -> range:
    """The gaps in which a value is live, counted from the iteration of the pipelined loop in which stage 0 runs."""
    first = value.touches[0]
    start = stage[first] * len(place) + place[first]
    end = max(stage[number] * len(place) + released[number] for number in value.touches)
    return range(start + 1, min(end, start + len(place)) + 1)


def _released(graph: LoopGraph, stage: Sequence[int], place: dict[int, int], number: int) -> int:
    """The position of the statement before which what a statement touches is still in use."""
    if not graph.work[number].asynchronous:
        return place[number]
    waiting = [
        place[edge.target]
        for edge in graph.edges
        if edge.source == number
        and edge.waits
        and stage[number] == stage[edge.target] + edge.distance
        and place[edge.target] > place[number]
    ]
    return min(waiting, default=len(place))
