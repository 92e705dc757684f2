"""Where the asynchronous copies of a loop stand among its other statements, and how many iterations they run ahead.

Takes a `LoopGraph`, gives a `ModuloSchedule`. Copies come first in an iteration, or all after the last statement that
uses a tile of theirs, or each after the last one that uses its own tile, which is refilled while the rest of the
iteration runs. They always run as far ahead as the versions of their tiles allow, and statements that only copies
depend on, such as loads of the indices of rows, one iteration further. Invariant: all dependences on tiles hold, and
other statements run in program order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.schedule.loop_graph import Edge, LoopGraph
from tilelang.schedule.modulo import ModuloSchedule


def copies_first(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which copies stand first in an iteration."""
    return _copies_after(graph, dict.fromkeys(_copies(graph), -1))


def copies_after_all_users(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which all copies come after the last statement that uses a tile of theirs."""
    last = _last_users(graph)
    return _copies_after(graph, dict.fromkeys(last, max(last.values())))


def copies_after_their_users(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which each copy comes after the last statement that uses its tile."""
    return _copies_after(graph, _last_users(graph))


def _last_users(graph: LoopGraph) -> dict[int, int]:
    """For each copy the last statement that uses its tile."""
    return {copy: max((edge.source for edge in _overwriting(graph, copy)), default=-1) for copy in _copies(graph)}


def _copies_after(graph: LoopGraph, after: Mapping[int, int]) -> ModuloSchedule:
    """The schedule in which each copy comes after a statement, and after it what only copies depend on."""
    last = dict(after)
    for number in feeding(graph):
        last[number] = max(after[copy] for copy in _dependents(graph, number))

    def place(number: int) -> tuple[int, bool, bool]:
        return last.get(number, number), number in last, number not in after

    return _as_far_ahead_as_possible(graph, sorted(range(len(graph.work)), key=place))


def _as_far_ahead_as_possible(graph: LoopGraph, sequence: Sequence[int]) -> ModuloSchedule:
    """The schedule in this order with the lowest stages of copies, and of what only they depend on."""
    copies, fed_by = _copies(graph), feeding(graph)
    place = {number: position for position, number in enumerate(sequence)}

    def most(edges: Sequence[Edge]) -> int:
        """Return how many stages the target of edges may be before their sources."""
        return min(edge.distance - (place[edge.source] > place[edge.target]) for edge in edges)

    overwriting = [edges for edges in (_overwriting(graph, copy) for copy in copies) if edges]
    ahead = min(map(most, overwriting), default=0)
    back = [[e for e in graph.edges if e.target == n and e.source in copies and e.distance] for n in fed_by]
    earlier = min(map(most, back), default=0)
    stages = {**dict.fromkeys(copies, earlier), **dict.fromkeys(fed_by, 0)}
    stage = tuple(stages.get(number, earlier + ahead) for number in range(len(graph.work)))
    return ModuloSchedule(stage, tuple(sequence), graph.warp_cycles)


def _copies(graph: LoopGraph) -> list[int]:
    return [number for number, work in enumerate(graph.work) if work.prefetched]


def _dependents(graph: LoopGraph, number: int) -> set[int]:
    """The statements of the same iteration that depend on one."""
    return {edge.target for edge in graph.edges if edge.source == number and not edge.distance}


def feeding(graph: LoopGraph) -> list[int]:
    """The statements on which nothing but copies depends."""
    copies = set(_copies(graph))
    dependents = {number: _dependents(graph, number) for number in range(len(graph.work)) if number not in copies}
    return [number for number, found in dependents.items() if found and found <= copies]


def _overwriting(graph: LoopGraph, copy: int) -> list[Edge]:
    """The edges to a copy from users of the tile that it overwrites, which are those across most iterations."""
    others = {*_copies(graph), *feeding(graph)}
    edges = [edge for edge in graph.edges if edge.target == copy and edge.distance and edge.source not in others]
    return [edge for edge in edges if edge.distance == max(each.distance for each in edges)]
