"""Copies to shared memory that pass registers, of which the loads run ahead of the loop.

Takes a pipelined loop, gives one whose copies are divided in two, and the placement of its statements:

    for k:  copy tile k to shared memory;  compute with it
 => copy tile 0 to registers, and from there to shared memory
    for k:  start to load tile k + 1 to registers;  compute with tile k;  copy tile k + 1 to shared memory

Invariant: a load is followed by all computations of an iteration before its registers are read, so that its latency is
hidden wherever loads of threads are asynchronous to them, which no instruction has to say. Tiles of a pipeline of two
stages have one version, since each is overwritten after its last reader; with more stages they have two, which saves a
barrier in each iteration. Further versions would hide nothing more. Nothing outside of
the loop reads the tiles, so that stores from registers may run for iterations that there are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Seq, Stmt
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.saved_schedule import Placement, in_sequence
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import violation

MAX_VERSIONS = 2


@record
class Prefetched:
    """A loop with loads that run ahead.

    Attributes:
        loop: The loop with its copies divided.
        registers: The tiles in registers, to be allocated before the loop.
        placement: When its statements run.
    """

    loop: For
    registers: tuple[Alloc, ...]
    placement: Placement


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
    copies = [copy for copy in candidates if copy.dst.buffer.storage not in outside]
    kept = next((outside[copy.dst.buffer.storage] for copy in candidates if copy not in copies), None)
    reason = kept or "no copy from global memory fills a shared buffer as a whole"
    while copies:
        size = sum(copy.src.dtype.storage_bytes * _elements(copy) for copy in copies)
        if size > register_bytes:
            return f"its tiles would take {size} bytes of registers, and {register_bytes} are spared for them"
        divided_loop = _split_copies(loop, copies)
        divided = LoopBody(divided_loop.loop)
        placement = _placement(divided, divided_loop, min(versions, MAX_VERSIONS))
        found = violation(divided, placement, outside)
        if found is None:
            return Prefetched(divided_loop.loop, tuple(divided_loop.registers), placement)
        reason = found.reason
        wrong = {divided.statements[n] for n in found.statements}
        left = [copy for copy in copies if divided_loop.parts[copy].isdisjoint(wrong)]
        copies = left if len(left) < len(copies) else []
    return reason


def prefetchable(body: LoopBody) -> list[Copy]:
    """The copies of a loop that could run ahead of it, through registers or by an asynchronous unit."""
    return [s for n, s in enumerate(body.statements) if isinstance(s, Copy) and _is_candidate(body, n, s)]


def _is_candidate(body: LoopBody, number: int, copy: Copy) -> bool:
    """Whether a copy from global memory fills a shared tile before all else that accesses it."""
    scopes = copy.src.buffer.scope, copy.dst.buffer.scope
    by_hand = copy.request is not None or copy.is_async or copy.barrier is not None or copy.layout is not None
    filled = body.fills_first(copy.dst.buffer.storage) == number
    return scopes == (Scope.GLOBAL, Scope.SHARED) and filled and not by_hand and copy.dst.static_extent is not None


def _elements(copy: Copy) -> int:
    total = 1
    for extent in copy.dst.static_extent or ():
        total *= extent
    return total


@record
class _SplitCopies:
    loop: For
    registers: list[Alloc]
    loads: set[Stmt]
    stores: set[Stmt]
    parts: dict[Copy, set[Stmt]]


def _split_copies(loop: For, copies: Collection[Copy]) -> _SplitCopies:
    """The loop with each of these copies as a load to registers and a store from them."""
    division = _SplitCopies(loop, [], set(), set(), {})
    statements: list[Stmt] = []
    for stmt in flat_statements(loop.body):
        if not isinstance(stmt, Copy) or stmt not in copies:
            statements.append(stmt)
            continue
        tile = Buffer(f"{stmt.dst.buffer.name}_next", stmt.dst.extent, stmt.src.dtype, Scope.FRAGMENT, loc=stmt.loc)
        whole = Region(tile, tuple(const(0, extent.dtype) for extent in tile.shape), tile.shape)
        load = dataclasses.replace(stmt, dst=whole, choice=by_loop.LOOPS[type(stmt)].name, plan=ACCEPTED)
        store = Copy(whole, stmt.dst, choice=by_loop.COPY.name, plan=ACCEPTED, loc=stmt.loc)
        division.registers.append(Alloc(tile, loc=loop.loc))
        division.loads.add(load)
        division.stores.add(store)
        division.parts[stmt] = {load, store}
        statements += [load, store]
    body = Seq(tuple(statements), loc=loop.body.loc)
    return dataclasses.replace(division, loop=dataclasses.replace(loop, body=body))


def _placement(body: LoopBody, divided: _SplitCopies, versions: int) -> Placement:
    """Loads first, then what was between them, then stores."""
    groups = [0 if s in divided.loads else 2 if s in divided.stores else 1 for s in body.statements]
    sequence = sorted(range(len(groups)), key=lambda n: groups[n])
    return in_sequence([versions if group == 1 else 0 for group in groups], sequence)
