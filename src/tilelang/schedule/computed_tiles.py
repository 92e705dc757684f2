"""Shared tiles that threads compute in a pipelined loop for its gemms, such as weights that are dequantized.

Takes a consumer's loop; gives the tiles that may have two versions, so that threads compute the next one while gemms,
their own or those of other warps, read the one before. Invariant: every iteration writes such a tile as a whole
before it is read, by one statement, and nothing but its asynchronous gemms reads it.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, For, Launch, Stmt
from tilelang.ir.visit import accessed_buffers, sub_statements, walk
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.transforms.versions import versioned

VERSIONS = 2


def computed_tiles(body: LoopBody, loop: For, launch: Launch, gemms: Set[Stmt]) -> frozenset[Buffer]:
    """The tiles of a loop's body that may have two versions.

    Args:
        body: The body, without the loads of its producer.
        loop: The loop, as the launch has it.
        launch: The launch of the loop.
        gemms: The gemms of the body that run asynchronously.
    """
    outside = accessed_outside(loop, launch)
    viewed = {s.buffer.storage for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.view_of is not None}
    found = set()
    for tile, touching in body.storages.items():
        numbers = list(dict.fromkeys(number for number, _, _ in touching))
        writer, *readers = (body.statements[number] for number in numbers)
        shared = tile.scope is Scope.SHARED and tile.strides is None and tile not in outside | viewed
        if shared and readers and tile in overwritten(writer) and all(reader in gemms for reader in readers):
            found.add(tile)
    return frozenset(found)


def accessed_outside(loop: For, launch: Launch) -> set[Buffer]:
    """The storage that statements outside of a loop access."""
    inside = set(walk(loop))
    return {
        buffer.storage
        for stmt in walk(launch.body)
        if stmt not in inside and not isinstance(stmt, Alloc) and not sub_statements(stmt)
        for buffer in accessed_buffers(stmt)
    }


def doubled_tiles(body: LoopBody, schedule: ModuloSchedule, computed: Set[Buffer]) -> dict[Buffer, Buffer]:
    """The computed tiles that have two versions, with the buffers of both.

    Those that a later stage reads; and all of a loop with one stage, where some threads would wait for the
    gemms of others before they write.
    """
    found = {}
    for tile, touching in body.storages.items():
        stages = {schedule.stage[number] for number, _, _ in touching}
        if tile in computed and (schedule.stages == 1 or len(stages) > 1):
            found[tile] = versioned(tile, VERSIONS)
    return found
