"""Assigns each shared buffer an offset in the block's shared memory; buffers with disjoint live ranges may overlap.

Takes a thread-level function; writes `plan.shared_offsets` and `plan.shared_bytes` of its launches. Invariant: two
buffers overlap only if their live ranges are disjoint. Live ranges are over program positions; a buffer that is
allocated outside of a loop is live throughout the loop, and a divergent branch is one position, since no barrier may be
inserted in it. Operands of asynchronous mma instructions and destinations of asynchronous copies are live until the
wait that completes them.
Overlap costs a barrier between the buffers; inside of loops that is paid in each iteration, so buffers overlap there
only if the block would not fit otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from tilelang.analysis.pending_accesses import groups_pending
from tilelang.analysis.thread_accesses import syncs_some_threads
from tilelang.analysis.uniformity import Uniformity, uniformity
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, Note, ResourceError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, If, Launch, Stmt, While
from tilelang.ir.visit import sub_statements, walk, without
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.layout.boxes import ALIGNMENT, find_boxes
from tilelang.lowering.regions import shared_storages
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.target import Target

_ALIGN = 128  # one row of all banks, and the alignment of bulk copies


@record(slots=True)
class Tile:
    """A shared buffer to be allocated.

    Attributes:
        buffer: The buffer, which owns its bytes.
        bytes: Its size, with all versions.
        align: Alignment of its offset in bytes.
        first: The first position of its live range.
        last: The last position of its live range.
        versions: Versions of it that a pipeline keeps.
        overhang: Bytes after it that instructions read as well, with any contents.
    """

    buffer: Buffer
    bytes: int
    align: int
    first: int
    last: int
    versions: int = 1
    overhang: int = 0

    def overlaps(self, other: Tile) -> bool:
        """Whether the live ranges overlap."""
        return self.first <= other.last and other.first <= self.last


def allocate_launch(launch: Launch, target: Target) -> Launch:
    """The launch with offsets of its shared buffers.

    Raises:
        ResourceError: A block of the target has less shared memory.
    """
    limit = target.machine.shared_bytes
    tiles = _live_tiles(launch, whole_loops=True)
    offsets, total = assign_offsets(tiles)
    if total > limit:
        tiles = _live_tiles(launch, whole_loops=False)
        offsets, total = assign_offsets(tiles)
    if total > limit:
        raise _out_of_shared_memory(tiles, total, limit, target)
    tail, end = _dynamic_buffers(launch, total)
    plan = dataclasses.replace(
        launch.plan,
        shared_offsets=tuple((t.buffer, offsets[t.buffer]) for t in tiles),
        shared_bytes=total,
        dynamic_shared_offsets=tail,
        dynamic_shared_bytes=end,
    )
    kept = frozenset((*offsets, *(buffer for buffer, _ in tail)))
    allocs = (stmt for stmt in walk(launch.body) if isinstance(stmt, Alloc) and _in_shared(stmt.buffer))
    untouched = {stmt for stmt in allocs if stmt.buffer.storage not in kept}  # such as empty ones
    return dataclasses.replace(launch, plan=plan, body=without(launch.body, untouched))


def _dynamic_buffers(launch: Launch, total: int) -> tuple[tuple[tuple[Buffer, Expr], ...], Expr | None]:
    """Offsets of buffers of symbolic size, after all others and without overlap, and the end of the last one."""
    touched = {buffer for stmt in walk(launch.body) for buffer in shared_storages(stmt)}
    tail: list[tuple[Buffer, Expr]] = []
    end: Expr = const(_align_up(total, _ALIGN), INT32)
    for stmt in walk(launch.body):
        if isinstance(stmt, Alloc) and stmt.buffer.static_shape is None and stmt.buffer in touched:
            if stmt.buffer.scope is Scope.SHARED and stmt.buffer.view_of is None:
                tail.append((stmt.buffer, end))
                size: Expr = const(stmt.buffer.dtype.storage_bytes, INT32)
                for extent in stmt.buffer.shape:
                    size = size * extent
                end = end + (size + (_ALIGN - 1)) // _ALIGN * _ALIGN
    return tuple(tail), end if tail else None


def assign_offsets(tiles: Sequence[Tile]) -> tuple[Mapping[Buffer, int], int]:
    """Offsets of the buffers and their total size in bytes: largest first, each at the lowest free offset.

    Buffers with an overhang are assigned before all others, so that something follows them.
    """
    assigned: list[tuple[int, Tile]] = []
    for tile in sorted(tiles, key=lambda t: (t.overhang == 0, -t.bytes, t.first)):
        offset = 0
        for begin, other in sorted((p for p in assigned if p[1].overlaps(tile)), key=lambda p: p[0]):
            if offset + tile.bytes <= begin:
                break
            offset = max(offset, _align_up(begin + other.bytes, tile.align))
        assigned.append((offset, tile))
    total = max((offset + tile.bytes + tile.overhang for offset, tile in assigned), default=0)
    return {tile.buffer: offset for offset, tile in assigned}, total


def _align_up(value: int, align: int) -> int:
    return -(-value // align) * align


# -- live ranges -------------------------------------------------------------------------------------------------


def _live_tiles(launch: Launch, *, whole_loops: bool) -> list[Tile]:
    ranges = _LiveRanges(launch, whole_loops)
    ranges.number(launch.body, 0)
    ranges.end()
    versions = dict(launch.plan.versions)
    # warps may be at different program points
    diverged = any(syncs_some_threads(s) or isinstance(s, If) and s.group for s in walk(launch.body))
    tiles = []
    for buffer in ranges.allocated:
        if buffer.static_shape is None:
            continue  # dynamic buffers come after all others
        size, align = _size(buffer, launch.plan)
        if buffer.scope is Scope.BARRIER or diverged and buffer in ranges.spans:
            first, last = 0, ranges.position  # live throughout: accessed by hardware, or by diverged warps
        elif buffer in ranges.spans:
            first, last = ranges.spans[buffer]
        else:
            continue  # never accessed
        tiles.append(Tile(buffer, size, align, first, last, versions.get(buffer, 1), ranges.overhang.get(buffer, 0)))
    return tiles


def _size(buffer: Buffer, plan: LaunchPlan) -> tuple[int, int]:
    """Bytes and alignment of a buffer."""
    size = max(plan.shared_elements(buffer), 1) * buffer.dtype.storage_bytes
    if buffer.scope is Scope.BARRIER:
        return size, buffer.dtype.storage_bytes
    layout = next((layout for laid_out, layout in plan.shared_layouts if laid_out is buffer), None)
    boxes = find_boxes(layout, buffer.static_shape or (), 8 * buffer.dtype.storage_bytes)
    permuted = layout is not None and (size % ALIGNMENT == 0 or boxes is not None and boxes.mode_bytes > 0)
    return size, ALIGNMENT if permuted else _ALIGN


class _LiveRanges:
    """Computes the live range of each shared buffer."""

    def __init__(self, launch: Launch, whole_loops: bool) -> None:
        self._launch, self._whole_loops = launch, whole_loops
        self.position = 0
        self.allocated: dict[Buffer, None] = {}
        self.spans: dict[Buffer, tuple[int, int]] = {}
        self.overhang: dict[Buffer, int] = {}
        self._read_by_mma: dict[Buffer, None] = {}  # operands of mma instructions in flight
        self._written_by_copies: dict[Buffer, None] = {}  # destinations of copies in flight, not accessed since
        self._inside = 0  # depth of enclosing loops and branches

    def number(self, stmt: Stmt, loops: int) -> None:
        """Numbers a statement and its sub-statements; `loops` is the number of enclosing loops."""
        begin, before = self.position, dict(self._read_by_mma)
        self.position += 1
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is None and _in_shared(stmt.buffer):
            self.allocated[stmt.buffer] = None
        for buffer in shared_storages(stmt):
            first, _ = self.spans.get(buffer, (begin, begin))
            self.spans[buffer] = (first, begin)
        self._track_mma(stmt, begin)
        self._track_copies(stmt, begin)
        is_loop = isinstance(stmt, For | While)
        around = set(self.allocated)
        self._inside += is_loop or isinstance(stmt, If)
        for child in sub_statements(stmt):
            self.number(child, loops + is_loop)
        self._inside -= is_loop or isinstance(stmt, If)
        if is_loop:
            around.update(dict.fromkeys(b for b in self._read_by_mma if b not in before))
            self._extend_over_loop(begin, around, outermost=loops == 0)
        several = (is_loop or isinstance(stmt, If)) and sum(last >= begin for _, last in self.spans.values()) > 1
        if several and self._uniform.diverges(stmt):
            self._extend_over(begin, self.spans)
        if is_loop or isinstance(stmt, If):
            self._read_by_mma |= before  # on paths without the waits inside

    @cached_property
    def _uniform(self) -> Uniformity:
        return uniformity(self._launch)

    def end(self) -> None:
        """At the end of the body: buffers of mma and copies that are never waited for are live until here."""
        for buffer in (*self._read_by_mma, *self._written_by_copies):
            self.spans[buffer] = (self.spans[buffer][0], self.position)

    def _track_mma(self, stmt: Stmt, now: int) -> None:
        """Extends the live range of operands of mma instructions in flight to the wait that completes all of them.

        Where one thread waits for others, as for bulk copies, the wait instruction names its operands.
        """
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        if not isinstance(routine, Instruction) or not routine.reads_asynchronously:
            return
        if routine.execution_scope is ExecutionScope.THREAD:
            return
        if Effect.WAIT not in routine.effect:
            self._read_by_mma |= dict.fromkeys(shared_storages(stmt))
            if routine.overhang and isinstance(stmt, CallStmt):
                tile = stmt.reads[0].buffer.storage
                self.overhang[tile] = max(routine.overhang, self.overhang.get(tile, 0))
            return
        for buffer in self._read_by_mma:
            self.spans[buffer] = (self.spans[buffer][0], now)
        if groups_pending(stmt) == 0:
            self._read_by_mma.clear()

    def _track_copies(self, stmt: Stmt, now: int) -> None:
        """Extends the live range of destinations of copies in flight to the wait for all of them, read or not."""
        for buffer in shared_storages(stmt):
            self._written_by_copies.pop(buffer, None)  # an access implies a wait before it
        if not isinstance(stmt, CallStmt) or not isinstance(stmt.routine, Instruction):
            return
        if not stmt.routine.is_per_thread:
            return
        if Effect.WAIT in stmt.routine.effect:
            for buffer in self._written_by_copies:
                self.spans[buffer] = (self.spans[buffer][0], now)
            if not self._inside and groups_pending(stmt) == 0:
                self._written_by_copies.clear()
        else:
            self._written_by_copies |= {r.buffer.storage: None for r in stmt.writes if r.buffer.scope is Scope.SHARED}

    def _extend_over_loop(self, begin: int, around: set[Buffer], *, outermost: bool) -> None:
        """Extends the live range of buffers from outside of a loop over the loop: the next iteration may use them."""
        self._extend_over(begin, self.spans if self._whole_loops and outermost else around)

    def _extend_over(self, begin: int, buffers: Collection[Buffer]) -> None:
        """Extends the live range of `buffers` that a statement accesses over the whole statement, from `begin`."""
        for buffer, (first, last) in self.spans.items():
            if last >= begin and buffer in buffers:
                self.spans[buffer] = (min(first, begin), self.position)
        self.position += 1


def _in_shared(buffer: Buffer) -> bool:
    return buffer.scope in (Scope.SHARED, Scope.BARRIER)


# -- errors ------------------------------------------------------------------------------------------------------


def _out_of_shared_memory(tiles: Sequence[Tile], total: int, limit: int, target: Target) -> ResourceError:
    notes = []
    for tile in sorted(tiles, key=lambda t: -t.bytes):
        text = f"'{tile.buffer.name}' takes {tile.bytes} bytes"
        if tile.versions > 1:
            text += f": {tile.versions} stages of {tile.bytes // tile.versions}"
        notes.append(Note(text, tile.buffer.loc if tile.buffer.loc.file else None))
    return ResourceError(
        f"T.Kernel: a block needs {total} bytes of shared memory, but {target.arch} has {limit}",
        notes=tuple(notes),
        hint=_advice(tiles, limit),
    )


def _advice(tiles: Sequence[Tile], limit: int) -> str:
    """The largest number of stages that fits, or how much smaller the tiles must be."""
    most = max((tile.versions for tile in tiles), default=1)
    for stages in range(most - 1, 0, -1):
        fewer = [_with_versions(tile, min(tile.versions, stages)) for tile in tiles]
        needed = assign_offsets(fewer)[1]
        if needed <= limit:
            return f"num_stages={stages} fits, with {needed} bytes"
    needed = assign_offsets([_with_versions(tile, 1) for tile in tiles])[1]
    factor = -(-needed // limit)
    one = "even with num_stages=1 they take" if most > 1 else "they take"
    return f"make the tiles {factor} times smaller: {one} {needed} bytes"


def _with_versions(tile: Tile, versions: int) -> Tile:
    if tile.versions < 1:
        raise CompilerBug(f"'{tile.buffer.name}' has {tile.versions} versions")
    return dataclasses.replace(tile, bytes=tile.bytes // tile.versions * versions, versions=versions)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: allocate_launch(launch, context.target))


PASS = Pass(
    "allocate_shared_memory", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SCALAR_LOADS_HOISTED, Property.LOGICAL_INDICES),
    establishes=(Property.SHARED_MEMORY_ALLOCATED,),
)
