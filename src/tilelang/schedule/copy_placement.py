"""Places the asynchronous copies of a pipelined loop among its other statements, and assigns their stages.

Takes the numbers of the copies and of the users of their tiles, gives a `Placement`. Invariant: all other statements
stay in program order in the last stage, except those that load the indices of copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tilelang.saved_schedule import Placement, in_sequence


def ahead(
    copies: Sequence[int], readers: Sequence[int], index_loads: Sequence[int], count: int, stages: int
) -> Placement:
    """Copies before all other statements, or after readers that copy all tiles to registers.

    Args:
        copies: The asynchronous copies.
        readers: The statements at the beginning of an iteration, if they copy all tiles to registers.
        index_loads: The statements that load the indices of copies; one stage earlier, ordered after the copies.
        count: The number of statements.
        stages: The largest number of versions of each tile.
    """
    first = [*readers, *copies, *index_loads]
    distance = stages if readers else stages - 1
    return _placement(copies, [*first, *(n for n in range(count) if n not in first)], distance, index_loads)


def behind_readers(
    users: Mapping[int, AbstractSet[int]], gemms: AbstractSet[int], count: int, stages: int
) -> Placement | None:
    """Each copy after the last user of its tile; None if a tile is read by all gemms, or by none.

    Each such place costs a barrier per iteration, which pays where another gemm hides the copy. On an H200 decoding of
    grouped heads took 0.84 of the time, but backward passes of attention, which also copy rows that no gemm reads, 1.04
    to 1.15 of it.

    Args:
        users: The users of the tile of each copy.
        gemms: The statements that are gemms.
        count: The number of statements.
        stages: The largest number of versions of each tile.
    """
    for copy, of in users.items():
        if not of or min(of) < copy or gemms <= of or gemms.isdisjoint(of):
            return None
    last = {copy: max(of) for copy, of in users.items()}
    return _placement(list(users), sorted(range(count), key=lambda n: (last.get(n, n), n in last)), stages)


def _placement(
    copies: Sequence[int], sequence: Sequence[int], distance: int, index_loads: Sequence[int] = ()
) -> Placement:
    started = 1 if index_loads else 0
    stages = {**dict.fromkeys(copies, started), **dict.fromkeys(index_loads, 0)}
    return in_sequence([stages.get(n, started + distance) for n in range(len(sequence))], sequence)
