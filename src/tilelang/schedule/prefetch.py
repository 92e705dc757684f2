"""Where the asynchronous copies of a loop stand among its other statements, and how many iterations they run ahead.

Takes a `LoopGraph`, gives a `ModuloSchedule`. Threads wait for copies before the first statement that uses a tile of
theirs, and then for each other, so that a copy after this needs no barrier of its own if the last user of its tile
comes before it. Copies come

    first:       at the beginning of an iteration, where threads wait for all tiles at once;
    together:    after the first statement that uses a tile, before which threads wait for all of them at once;
    after waits: each after the first statement that waits for tiles, of those that follow the last user of its own;
    after users: after the last statement that uses a tile of theirs, with a barrier of their own.

They run as far ahead as the versions of their tiles allow without further barriers, and statements that only copies
depend on, such as loads of the indices of rows, one iteration further. Invariant: all dependences on tiles hold, and
other statements run in program order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set

from tilelang.records import record
from tilelang.schedule.loop_graph import Edge, LoopGraph
from tilelang.schedule.modulo import ModuloSchedule


@record(slots=True)
class PrefetchCosts:
    """What copies may cost the threads of a block, in cycles.

    Attributes:
        latency: From a copy until its tile is there.
        barrier: Of a wait of threads for each other.
    """

    latency: float
    barrier: float


def prefetch_schedule(graph: LoopGraph, costs: PrefetchCosts) -> ModuloSchedule:
    """The schedule with copies first in an iteration, or one with copies between its statements where it costs less."""
    first, tiles = copies_first(graph), _tiles(graph)
    if any(edge.target in tiles and not edge.distance for edge in graph.edges):
        return first  # where to copy from is not known before the iteration begins
    schedules = first, copies_after_waits(graph), copies_together(graph)
    return min(schedules, key=lambda schedule: _cost(graph, tiles, schedule, costs))


def copies_first(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which copies come first in an iteration."""
    return _as_far_ahead_as_possible(graph, _sequence(graph, dict.fromkeys(_copies(graph), -1)))


def copies_after_users(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which all copies come after the last statement that uses a tile of theirs."""
    tiles = _tiles(graph)
    last = max((tile.last_user for tile in tiles.values()), default=-1)
    return _as_far_ahead_as_possible(graph, _sequence(graph, dict.fromkeys(tiles, last)))


def copies_together(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which all copies come after the first statement that uses a tile of theirs.

    Each runs one iteration less ahead than its tile has versions, since its users may still read the version before.
    Copies come first if a single statement waits for tiles, or one of these has a single version.
    """
    tiles = _tiles(graph)
    waiting = _waiting(tiles)
    if len(waiting) < 2 or any(tile.versions < 2 for tile in tiles.values()):
        return copies_first(graph)
    ahead = {copy: tile.versions - 1 for copy, tile in tiles.items()}
    return _running_ahead(graph, dict.fromkeys(tiles, waiting[0]), ahead)


def copies_after_waits(graph: LoopGraph) -> ModuloSchedule:
    """The schedule in which each copy comes after the first wait that follows the last user of its tile.

    A copy runs as many iterations ahead as its tile has versions where both are in the same iteration, otherwise one
    less. Copies come first if a single statement waits, and is the last user of a tile: its wait comes before itself.
    """
    tiles = _tiles(graph)
    waiting = _waiting(tiles)
    if not waiting or any(waiting == [tile.last_user] for tile in tiles.values()):
        return copies_first(graph)
    after, ahead = {}, {}
    for copy, tile in tiles.items():
        later = [number for number in waiting if number > tile.last_user]
        after[copy], ahead[copy] = (later[0], tile.versions) if later else (waiting[0], tile.versions - 1)
    return _running_ahead(graph, after, ahead)


def _waiting(tiles: Mapping[int, _Tile]) -> list[int]:
    """The statements before which threads wait for tiles."""
    return sorted({tile.first_user for tile in tiles.values()} - tiles.keys())


def _running_ahead(graph: LoopGraph, after: Mapping[int, int], ahead: Mapping[int, int]) -> ModuloSchedule:
    """The schedule in which each copy comes after a statement, and runs some iterations ahead of the others."""
    most = max(ahead.values())
    stage = tuple(most - ahead.get(number, 0) for number in range(len(graph.work)))
    return ModuloSchedule(stage, _sequence(graph, after), graph.warp_cycles)


def _sequence(graph: LoopGraph, after: Mapping[int, int]) -> tuple[int, ...]:
    """The order in which each copy comes after a statement, and after it what only copies depend on."""
    last = dict(after)
    for number in _feeding(graph):
        last[number] = max(after[copy] for copy in _dependents(graph, number))

    def place(number: int) -> tuple[int, bool, bool]:
        return last.get(number, number), number in last, number not in after

    return tuple(sorted(range(len(graph.work)), key=place))


def _as_far_ahead_as_possible(graph: LoopGraph, sequence: Sequence[int]) -> ModuloSchedule:
    """The schedule in this order with the lowest stages of copies, and of what only they depend on."""
    copies, fed_by = _copies(graph), _feeding(graph)
    place = {number: position for position, number in enumerate(sequence)}

    def most(edges: Sequence[Edge]) -> int:
        """Return how many stages the target of edges may be before their sources."""
        return min(edge.distance - (place[edge.source] > place[edge.target]) for edge in edges)

    overwriting = [edges for edges in (_overwriting(graph, copy, fed_by) for copy in copies) if edges]
    ahead = min(map(most, overwriting), default=0)
    back = [[e for e in graph.edges if e.target == n and e.source in copies and e.distance] for n in fed_by]
    earlier = min(map(most, back), default=0)
    stages = {**dict.fromkeys(copies, earlier), **dict.fromkeys(fed_by, 0)}
    stage = tuple(stages.get(number, earlier + ahead) for number in range(len(graph.work)))
    return ModuloSchedule(stage, tuple(sequence), graph.warp_cycles)


# -- costs -------------------------------------------------------------------------------------------------------


def _cost(graph: LoopGraph, tiles: Mapping[int, _Tile], schedule: ModuloSchedule, costs: PrefetchCosts) -> float:
    """The cycles of an iteration in which threads wait: for tiles, for each other, and for loads queued after copies.

    Copies that stand together are waited for together, before the first statement that uses one of their tiles.
    """
    cycles = [graph.work[number].warp_cycles for number in schedule.order]
    start = dict(zip(schedule.order, itertools.accumulate(cycles, initial=0), strict=False))
    runs = itertools.groupby(schedule.order, key=lambda number: number in tiles)
    needing = _needing_tiles(graph, tiles)
    exposed, queued, waiting = 0.0, 0.0, set()
    for group in (list(run) for prefetched, run in runs if prefetched):
        first = min((tiles[copy].first_user for copy in group), key=lambda number: start[number])
        waiting.add(first)
        for copy in group:
            ahead = schedule.stage[first] - schedule.stage[copy]
            exposed = max(exposed, costs.latency - ahead * sum(cycles) - start[first] + start[copy])
        queued += _queued(graph, schedule.order, group, needing)
    return exposed + queued + costs.barrier * len(waiting - graph.exchanging)


def _queued(graph: LoopGraph, order: Sequence[int], group: Sequence[int], needing: Set[int]) -> int:
    """The cycles in which the next loads from shared memory wait for copies that stand together.

    Both pass one queue, which empties while threads compute with tiles. Other statements between them do not count: as
    they need no tile, the vendor's compiler moves them to other places.
    """
    end = order.index(group[-1]) + 1
    between = itertools.takewhile(lambda number: number not in graph.loading, (*order[end:], *order[:end]))
    done = sum(graph.work[number].cycles for number in between if number in needing)
    return max(0, sum(graph.work[copy].issue for copy in group) - done)


def _needing_tiles(graph: LoopGraph, copies: Iterable[int]) -> set[int]:
    """The statements that depend on a copy of the same iteration."""
    found, left = set[int](), list(copies)
    while left:
        dependents = _dependents(graph, left.pop()) - found
        found |= dependents
        left += dependents
    return found


# -- the graph ---------------------------------------------------------------------------------------------------


@record(slots=True)
class _Tile:
    """The tile that a copy fills.

    Attributes:
        first_user: The first statement that uses it; the copy if there is none.
        last_user: The last one; -1 if there is none.
        versions: How many there are of it.
    """

    first_user: int
    last_user: int
    versions: int


def _tiles(graph: LoopGraph) -> dict[int, _Tile]:
    """The tile of each copy."""
    feeding = _feeding(graph)
    found = {}
    for copy in _copies(graph):
        edges = _overwriting(graph, copy, feeding)
        last, versions = max(((e.source, e.distance) for e in edges), default=(-1, 1))
        found[copy] = _Tile(min(_dependents(graph, copy), default=copy), last, versions)
    return found


def _copies(graph: LoopGraph) -> list[int]:
    return [number for number, work in enumerate(graph.work) if work.prefetched]


def _dependents(graph: LoopGraph, number: int) -> set[int]:
    """The statements of the same iteration that depend on one."""
    return {edge.target for edge in graph.edges if edge.source == number and not edge.distance}


def _feeding(graph: LoopGraph) -> list[int]:
    """The statements on which nothing but copies depends."""
    copies = set(_copies(graph))
    dependents = {number: _dependents(graph, number) for number in range(len(graph.work)) if number not in copies}
    return [number for number, found in dependents.items() if found and found <= copies]


def _overwriting(graph: LoopGraph, copy: int, feeding: Sequence[int]) -> list[Edge]:
    """The edges to a copy from users of the tile that it overwrites, which are those across most iterations."""
    others = {*_copies(graph), *feeding}
    edges = [edge for edge in graph.edges if edge.target == copy and edge.distance and edge.source not in others]
    return [edge for edge in edges if edge.distance == max(each.distance for each in edges)]
