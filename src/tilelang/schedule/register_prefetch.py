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
"""

from __future__ import annotations

from collections.abc import Mapping

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
    loop: For, outside: Mapping[Buffer, str], versions: int, register_bytes: int
) -> Prefetched | str:
    """The loop whose copies pass registers, or why there are none that run ahead.

    Args:
        loop: A pipelined loop.
        outside: Buffers whose accesses outside of the loop rule out versions, with the reason.
        versions: Versions of each tile.
        register_bytes: The most that tiles in registers may take, of all threads together.
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
        placement = _placement(after, divided, min(versions, MAX_VERSIONS))
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


def _placement(body: LoopBody, divided: SplitCopies, versions: int) -> Placement:
    """What needs separate loads first, then loads of copies, then separate loads, the rest, and stores of copies.

    What was loaded last is stored first: a wait for it is one for all loads of copies, since they complete in order.

    Separate loads run an iteration ahead of what needs them: those of the indices of rows one ahead of the rows. So all
    that is in flight when an iteration begins was issued in the previous one.
    """
    needing = set(divided.needed_by.values())
    first = int(not divided.loads.isdisjoint(needing))  # the stage of loads of copies
    stages, groups = [], []
    for stmt in body.statements:
        user = divided.needed_by.get(stmt, stmt)
        of_copy = user in divided.loads or user in divided.stores
        stages.append((first if of_copy else first + versions) - (user is not stmt))
        if user is not stmt:
            groups.append(2)
        elif of_copy:
            groups.append(1 if stmt in divided.loads else _STORES)
        else:
            groups.append(0 if stmt in needing else 3)
    backwards = [-number if group == _STORES else number for number, group in enumerate(groups)]
    return in_sequence(stages, sorted(range(len(groups)), key=lambda number: (groups[number], backwards[number])))
