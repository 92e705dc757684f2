"""Prefetch through registers: copies to shared memory whose loads run an iteration ahead.

Takes a pipelined loop, gives one whose copies are divided in two, and the placement of its statements:

    for k:  copy tile k to shared memory;  compute with it
 => copy tile 0 to registers, and from there to shared memory
    for k:  start to load tile k + 1 to registers;  compute with tile k;  copy tile k + 1 to shared memory

Copies are `T.copy`, and parallel loops that gather rows from global memory. Other parallel loops that compute shared
tiles stay in their iteration, but their loads are issued one ahead, too: loads complete in the order of issue, so that
a wait for a new one would be a wait for all. Invariant: all computations of an iteration stand between a load and the
first use of its registers, so that its latency is hidden where threads wait for a load at its first use. Tiles of a
pipeline of two stages have one version, since each is overwritten after its last reader; with more stages they have
two, which saves a barrier in each iteration. Further versions would hide nothing more. Nothing outside of the loop
reads the tiles, so that stores from registers may run beyond the last iteration.

Where the registers of all tiles are too many, and some tiles have been read before others are, the two sets take turns:

    for k:  load the first tiles k + 1;   compute with the first tiles k;   store the first tiles k + 1
            load the second tiles k + 1;  compute with the second tiles k;  store the second tiles k + 1

The invariant then holds for the computations of a half. There are as many barriers as before, one before each store,
since each of them also stands between the stores of the other half and its reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Alloc, For, Stmt
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import violation
from tilelang.schedule.split_copies import SplitCopies, computing, filled_by, prefetchable, split_copies

MAX_VERSIONS = 2
_STORES = 4  # the group of stores of copies, the last one


@record
class Prefetched:
    """A loop with loads that run ahead.

    Attributes:
        loop: The loop with its copies divided.
        registers: The tiles in registers, to be allocated before the loop.
        placement: When its statements run.
        loads: The loads of copies.
    """

    loop: For
    registers: tuple[Alloc, ...]
    placement: Placement
    loads: frozenset[Stmt]


def prefetched(
    loop: For, outside: Mapping[Buffer, str], versions: int, register_bytes: int, free_bytes: int
) -> Prefetched | str:
    """The loop whose copies pass registers, or why there are none that run ahead.

    Args:
        loop: A pipelined loop.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
        versions: Versions of each tile.
        register_bytes: The most that tiles in registers may take, of all threads together.
        free_bytes: Of registers of all threads, beside what the kernel holds; tiles that take more take turns.
    """
    body = LoopBody(loop)
    candidates = prefetchable(body)
    copies = [copy for copy in candidates if filled_by(copy).buffer.storage not in outside]
    kept = next((outside[filled_by(copy).buffer.storage] for copy in candidates if copy not in copies), None)
    reason = kept or "no copy from global memory fills a shared buffer as a whole"
    computed = computing(body) if copies else []
    while copies:
        divided = split_copies(loop, copies, computed)
        size = sum(alloc.buffer.bytes or 0 for alloc in divided.registers)
        if size > register_bytes:
            reason = f"its tiles would take {size} bytes of registers, and {register_bytes} are spared for them"
            fewer = copies if computed else [copy for copy in copies if isinstance(copy, Copy)]
            if len(fewer) == len(copies) and not computed:
                break
            copies, computed = [*fewer], []
            continue
        after = LoopBody(divided.loop)
        by_turns = versions == 1 and size > free_bytes
        placement = _placement(after, divided, min(versions, MAX_VERSIONS), by_turns=by_turns)
        found = violation(after, placement, outside)
        if found is None:
            return Prefetched(divided.loop, tuple(divided.registers), placement, frozenset(divided.loads))
        reason = found.reason
        wrong = {after.statements[n] for n in found.statements}
        right = {stmt for stmt, parts in divided.parts.items() if parts.isdisjoint(wrong)}
        if len(right) == len(divided.parts):
            break
        copies = [copy for copy in copies if copy in right]
        computed = [stmt for stmt in computed if stmt in right]
    return reason


def _placement(body: LoopBody, divided: SplitCopies, versions: int, *, by_turns: bool) -> Placement:
    """What needs separate loads first, then loads of copies, then separate loads, the rest, and stores of copies.

    What was loaded last is stored first: a wait for it is one for all loads of copies, since they complete in order.

    Separate loads run an iteration ahead of what needs them: those of the indices of rows one ahead of the rows. So all
    that is in flight when an iteration begins was issued in the previous one. With `by_turns` there are two halves of
    an iteration, if tiles are read in one of them only, each with its copies.
    """
    needing = set(divided.needed_by.values())
    first = int(not divided.loads.isdisjoint(needing))  # the stage of loads of copies
    tiles = _tiles(body, divided)
    end = len(body.statements)
    half = _second_half(tiles, end) if by_turns else end
    late = {part for tile in tiles if tile.first >= half for part in tile.parts}
    stages, places = [], []
    for number, stmt in enumerate(body.statements):
        user = divided.needed_by.get(stmt, stmt)
        of_copy = user in divided.loads or user in divided.stores
        stages.append((first if of_copy else first + versions) - (user is not stmt))
        if user is not stmt:
            group = 2
        elif of_copy:
            group = 1 if stmt in divided.loads else _STORES
        else:
            group = 0 if stmt in needing else 3
        backwards = -number if group == _STORES else number
        places.append((stmt in late or (group == 3 and number >= half), group, backwards))
    return in_sequence(stages, sorted(range(len(places)), key=lambda number: places[number]))


@record(slots=True)
class _Tile:
    """A tile that a copy fills by registers.

    Attributes:
        parts: Those of the copy.
        size: In bytes.
        first: The first statement that uses it besides the copy.
        last: The last one.
    """

    parts: frozenset[Stmt]
    size: int
    first: int
    last: int


def _tiles(body: LoopBody, divided: SplitCopies) -> list[_Tile]:
    """The tiles that are used besides copies to them."""
    found = []
    for copy, parts in divided.parts.items():
        if parts.isdisjoint(divided.stores):
            continue
        buffer = filled_by(copy).buffer
        users = [n for n, _, _ in body.storages[buffer.storage] if body.statements[n] not in parts]
        if users:
            found.append(_Tile(frozenset(parts), buffer.bytes or 0, min(users), max(users)))
    return found


def _second_half(tiles: Sequence[_Tile], end: int) -> int:
    """The statement that parts an iteration in two halves, each of which uses tiles of its own; `end` without one.

    Of several it is the one by which the larger set of tiles is smallest.
    """

    def larger(number: int) -> int:
        earlier = sum(tile.size for tile in tiles if tile.last < number)
        return max(earlier, sum(tile.size for tile in tiles) - earlier)

    def parts(number: int) -> bool:
        later = [tile.first >= number for tile in tiles]
        return any(later) and all(is_later or tile.last < number for tile, is_later in zip(tiles, later, strict=True))

    return min(filter(parts, (tile.last + 1 for tile in tiles)), key=larger, default=end)
