"""Results that leave while the program goes on: through tiles of shared memory, stored by the copy engine.

Takes a launch, gives what leaves it so (`Exit`s), and the statements that do it. Invariant: whoever writes such a tile
has waited until the engine has read what was in it, and the program ends after the engine has read all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.stmt import Alloc, Atomic, CallStmt, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.regions import axes, is_whole, some_of, whole
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.describe import drop_units
from tilelang.records import record
from tilelang.targets.nvidia.isa.tensor_box import CHUNK_BYTES
from tilelang.targets.nvidia.isa.tma import tma_store_wait
from tilelang.targets.nvidia.passes.roles.widening import ROW_BYTES, wider

CanStore = Callable[[Copy], str]
"""Why the copy engine cannot store a tile of shared memory; empty if it can."""


@record(slots=True, eq=False)
class Exit:
    """A tile of results on its way out.

    Attributes:
        copy: The user's copy to global memory.
        staging: The shared tile that the engine stores.
        writer: The user's copy into that tile; None where the tile is one of ours.
        loops: How many loops stand around the copy.
        parts: How many parts of the results pass through the tile, one after another.
    """

    copy: Copy
    staging: Buffer
    writer: Copy | None = None
    loops: int = 0
    parts: int = 1


def in_parts(made: Exit, parts: int) -> Exit:
    """The same in so many parts of equal numbers of columns; in one where that cannot be."""
    copy = made.copy
    columns = (drop_units(copy.dst.extent) or (const(0, INT32),))[-1]
    row = (int_const(columns) or 0) * copy.dst.dtype.storage_bytes
    if made.writer is not None or parts == 1 or row % (parts * CHUNK_BYTES):
        return made
    extents = drop_units(_nth(copy, 0, parts).dst.extent)
    return dataclasses.replace(made, staging=_staging(copy, extents), parts=parts)


def has_even_rows(made: Exit, parts: int) -> bool:
    """Whether results leave in so many parts, of rows of whole 128 bytes."""
    columns = (made.staging.static_shape or (0,))[-1]
    return made.parts == parts and columns * made.staging.dtype.storage_bytes % ROW_BYTES == 0


def _nth(copy: Copy, number: int, parts: int) -> Copy:
    """One of the parts of a copy: so many of the last columns that are more than one."""
    if parts == 1:
        return copy
    return dataclasses.replace(copy, src=_columns(copy.src, number, parts), dst=_columns(copy.dst, number, parts))


def _columns(region: Region, number: int, parts: int) -> Region:
    axis = axes(region)[-1]
    width = (int_const(region.extent[axis]) or 0) // parts
    return some_of(region, axis, number * width, width)


def _staging(copy: Copy, extents: Sequence[Expr]) -> Buffer:
    """A tile of ours for results of these extents."""
    source = copy.src.buffer
    return wider(Buffer(f"{source.name}_staging", tuple(extents), copy.dst.dtype, Scope.SHARED, loc=source.loc))


def releasing(launch: Launch) -> Stmt | None:
    """The first statement that lets other blocks see what was done to global memory before, if there is one."""
    for stmt in walk(launch.body):
        if isinstance(stmt, Atomic) and stmt.releases and stmt.buffer.scope is Scope.GLOBAL:
            return stmt
        if isinstance(stmt, AtomicTile) and stmt.order.releases and stmt.dst.buffer.scope is Scope.GLOBAL:
            return stmt
    return None


def find_exits(launch: Launch, can_store: CanStore) -> tuple[Exit, ...]:
    """The results of a launch that may leave so, in program order; the launch must be `flat`."""
    if releasing(launch) is not None:
        return ()  # the engine could still be storing what the program says is there
    found = accesses(launch.body)
    domain = Domain().with_extents(launch.block_vars, launch.grid)
    touching: dict[Buffer, dict[Stmt, None]] = {}
    for access in found.all:
        touching.setdefault(access.buffer.storage, {})[access.stmt] = None
    homes = {child: stmt for stmt in walk(launch.body) if isinstance(stmt, Seq) for child in stmt.body}
    exits = {}
    for access in found.writes:
        copy = access.stmt
        if isinstance(copy, Copy) and access.buffer.scope is Scope.GLOBAL and copy in homes:
            known = access.context.domain(_not_empty(copy.dst.buffer, domain))
            if not all(proves(start >= 0, known) for start in copy.dst.start):
                continue  # the engine drops what lies behind a tensor, and traps at what lies before it
            made = _exit(copy, homes, touching, can_store)
            if made is not None:
                exits[copy] = dataclasses.replace(made, loops=len(access.context.loops()))
    return tuple(exits.values())


def _not_empty(tensor: Buffer, domain: Domain) -> Domain:
    """What is known besides where the engine stores into a tensor: the host makes no map of one without elements."""
    for extent in tensor.shape:
        if int_const(extent) is None:
            domain = domain.assume(extent >= 1)
    return domain


def _exit(
    copy: Copy, homes: Mapping[Stmt, Seq], touching: Mapping[Buffer, Mapping[Stmt, None]], can_store: CanStore
) -> Exit | None:
    source = copy.src.buffer
    if len(touching[copy.dst.buffer.storage]) > 1:
        return None  # nothing orders the engine's writes and others
    if source.scope is Scope.FRAGMENT and is_whole(copy.src) and copy.src.static_extent is not None:
        tile = _staging(copy, drop_units(copy.dst.extent))
        return None if can_store(_stored(copy, _front(copy, tile))) else Exit(copy, tile)
    if source.scope is not Scope.SHARED or not is_whole(copy.src) or source.view_of is not None:
        return None
    (writer, *others) = [s for s in touching[source.storage] if s is not copy] or [copy]
    if others or not isinstance(writer, Copy) or homes.get(writer) is not homes[copy]:
        return None
    body = homes[copy].body
    if not is_whole(writer.dst) or writer.dst.buffer is not source or writer.src.buffer.scope is not Scope.FRAGMENT:
        return None
    if body.index(writer) > body.index(copy):
        return None
    return None if can_store(_stored(copy, whole(source))) else Exit(copy, source, writer)


def _stored(copy: Copy, results: Region) -> Copy:
    return dataclasses.replace(copy, src=results, is_async=True)


def _front(copy: Copy, tile: Buffer) -> Region:
    """What results take of a tile of ours, whose rows may be longer."""
    return dataclasses.replace(whole(tile), extent=tuple(drop_units(copy.dst.extent)))


class Leave(Rewriter):
    """Rewrites statements so that results leave as `exits` say.

    The tiles must be allocated around, and a wait stand behind.

    Args:
        exits: What leaves so.
        apart: Loops from the outermost on whose iterations write places of their own: those over tiles of the grid.
    """

    def __init__(self, exits: Sequence[Exit], apart: int = 0) -> None:
        self._apart = apart
        self._exits = {e.copy: e for e in exits}
        self._writers = {e.writer: e for e in exits if e.writer is not None}
        self._own = {e.staging for e in exits}

    def stmt(self, node: Stmt) -> Stmt | None:
        """Copies of results, in two steps."""
        if isinstance(node, Alloc) and node.buffer in self._own:
            return None
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, Copy) and child in self._exits:
                body += self._leaving(self._exits[child])
            elif isinstance(child, Copy) and child in self._writers:
                body += [*self._free(self._writers[child]), child]
            else:
                made = self.visit(child)
                body += [] if made is None else [made]
        same = len(body) == len(node.body) and all(x is y for x, y in zip(body, node.body, strict=True))
        return node if same else Seq(tuple(body), loc=node.loc)

    def _leaving(self, made: Exit) -> list[Stmt]:
        copy = made.copy
        if made.writer is not None:
            return [_stored(copy, whole(made.staging))]
        body: list[Stmt] = []
        for number in range(made.parts):
            part = _nth(copy, number, made.parts)
            results = _front(part, made.staging)
            body += [awaited(copy)] if number else self._free(made)
            body += [Copy(part.src, results, loc=copy.loc), _stored(part, results)]
        return body

    def _free(self, made: Exit) -> list[Stmt]:
        """What lets the tile be written again, and the same places of the tensor."""
        return [awaited(made.copy, read=made.loops <= self._apart)] if made.loops else []


def awaited(near: Stmt, *, read: bool = True) -> Stmt:
    """Waits until the engine has read all tiles that the executing thread let it store, or has also written them."""
    return CallStmt(tma_store_wait(0, read=read), (), loc=near.loc)
