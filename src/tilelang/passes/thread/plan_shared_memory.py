"""Gives every shared buffer its place in the block's shared memory; those that never live together may share bytes.

Takes a thread-level function; writes `plan.shared_offsets` and `plan.shared_bytes` of its launches. Invariant: two
buffers overlap only if no statement that touches one can run between two that touch the other, counting a loop as a
whole for what is allocated outside of it, and a branch that not all threads take as one statement, since no barrier can
stand in it; what asynchronous mma instructions read, and what asynchronous copies write, is touched until they are
waited for.
Sharing bytes costs a barrier where one buffer follows the other; inside of loops that is paid over and over, so buffers
share there only if the block would not fit otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from tilelang.analysis.pending_accesses import groups_pending
from tilelang.analysis.thread_accesses import syncs_some_threads
from tilelang.analysis.uniform import Uniformity, uniformity
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, Note, ResourceError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, CallStmt, For, If, Launch, Stmt, While
from tilelang.ir.visit import sub_statements, walk, without
from tilelang.isa.instruction import Effect, Group, Instruction
from tilelang.layout.boxes import ALIGNMENT, find_boxes
from tilelang.lowering.regions import shared_storages
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.target import Target

_ALIGN = 128  # all banks side by side, and what bulk copies need
_BARRIER_BYTES = 8  # Source: PTX ISA, "mbarrier", an opaque object of 64 bits


@record(slots=True)
class Tile:
    """One buffer to be placed.

    Attributes:
        buffer: The buffer, which owns its bytes.
        bytes: What it takes, all versions together.
        align: What its offset is a multiple of.
        first: The position of the first statement that touches it; loops count as the planner's rules say.
        last: The position of the last one.
        versions: How many versions of it a pipeline keeps.
        overhang: Bytes behind it that instructions fetch as well, whatever lies there.
    """

    buffer: Buffer
    bytes: int
    align: int
    first: int
    last: int
    versions: int = 1
    overhang: int = 0

    def overlaps(self, other: Tile) -> bool:
        """Whether both live at some moment."""
        return self.first <= other.last and other.first <= self.last


def plan_launch(launch: Launch, target: Target) -> Launch:
    """The launch with its shared memory laid out.

    Raises:
        ResourceError: A block of the target has less shared memory.
    """
    narrow = _tiles(launch, whole_loops=False)
    limit = target.machine.shared_bytes
    tiles = _tiles(launch, whole_loops=True)
    offsets, total = place(tiles)
    if total > limit:
        tiles = narrow
        offsets, total = place(tiles)
    if total > limit:
        raise _too_much(tiles, total, limit, target)
    tail, end = _behind(launch, total)
    plan = dataclasses.replace(
        launch.plan,
        shared_offsets=tuple((t.buffer, offsets[t.buffer]) for t in tiles),
        shared_bytes=total,
        dynamic_shared_offsets=tail,
        dynamic_shared_bytes=end,
    )
    kept = frozenset((*offsets, *(buffer for buffer, _ in tail)))
    allocs = (stmt for stmt in walk(launch.body) if isinstance(stmt, Alloc) and _in_shared(stmt.buffer))
    untouched = {stmt for stmt in allocs if stmt.buffer.storage not in kept}  # such as those without elements
    return dataclasses.replace(launch, plan=plan, body=without(launch.body, untouched))


def _behind(launch: Launch, total: int) -> tuple[tuple[tuple[Buffer, Expr], ...], Expr | None]:
    """Where the buffers begin whose size is known at the launch, and where the last one ends; none share bytes."""
    touched = {buffer for stmt in walk(launch.body) for buffer in shared_storages(stmt)}
    tail: list[tuple[Buffer, Expr]] = []
    end: Expr = const(_rounded(total, _ALIGN), INT32)
    for stmt in walk(launch.body):
        if isinstance(stmt, Alloc) and stmt.buffer.static_shape is None and stmt.buffer in touched:
            if stmt.buffer.scope is Scope.SHARED and stmt.buffer.view_of is None:
                tail.append((stmt.buffer, end))
                size: Expr = const(stmt.buffer.dtype.storage_bytes, INT32)
                for extent in stmt.buffer.shape:
                    size = size * extent
                end = end + (size + (_ALIGN - 1)) // _ALIGN * _ALIGN
    return tuple(tail), end if tail else None


def place(tiles: Sequence[Tile]) -> tuple[Mapping[Buffer, int], int]:
    """Offsets of the tiles, and the bytes that hold them all: the largest first, each at the lowest place that fits.

    Those behind which something must lie come before all others.
    """
    placed: list[tuple[int, Tile]] = []
    for tile in sorted(tiles, key=lambda t: (t.overhang == 0, -t.bytes, t.first)):
        offset = 0
        for begin, other in sorted((p for p in placed if p[1].overlaps(tile)), key=lambda p: p[0]):
            if offset + tile.bytes <= begin:
                break
            offset = max(offset, _rounded(begin + other.bytes, tile.align))
        placed.append((offset, tile))
    total = max((offset + tile.bytes + tile.overhang for offset, tile in placed), default=0)
    return {tile.buffer: offset for offset, tile in placed}, total


def _rounded(value: int, align: int) -> int:
    return -(-value // align) * align


# -- when buffers live -------------------------------------------------------------------------------------------


def _tiles(launch: Launch, *, whole_loops: bool) -> list[Tile]:
    life = _Life(launch, whole_loops)
    life.visit(launch.body, 0)
    life.end()
    versions = dict(launch.plan.versions)
    # warps may be at different places of the program
    apart = any(syncs_some_threads(s) or isinstance(s, If) and s.group for s in walk(launch.body))
    tiles = []
    for buffer in life.allocated:
        if buffer.static_shape is None:
            continue  # behind all others
        size, align = _size(buffer, launch.plan)
        if buffer.scope is Scope.BARRIER or apart and buffer in life.spans:
            first, last = 0, life.position  # the hardware looks at it behind our back
        elif buffer in life.spans:
            first, last = life.spans[buffer]
        else:
            continue  # never touched
        tiles.append(Tile(buffer, size, align, first, last, versions.get(buffer, 1), life.overhang.get(buffer, 0)))
    return tiles


def _size(buffer: Buffer, plan: LaunchPlan) -> tuple[int, int]:
    """Bytes and alignment of a buffer."""
    elements = plan.shared_elements(buffer)
    if buffer.scope is Scope.BARRIER:
        return max(elements, 1) * _BARRIER_BYTES, _BARRIER_BYTES
    size = max(elements, 1) * buffer.dtype.storage_bytes
    layout = next((layout for laid_out, layout in plan.shared_layouts if laid_out is buffer), None)
    boxes = find_boxes(layout, buffer.static_shape or (), 8 * buffer.dtype.storage_bytes)
    permuted = layout is not None and (size % ALIGNMENT == 0 or boxes is not None and boxes.mode_bytes > 0)
    return size, ALIGNMENT if permuted else _ALIGN


class _Life:
    """Collects from when to when each buffer is touched."""

    def __init__(self, launch: Launch, whole_loops: bool) -> None:
        self._launch, self._whole_loops = launch, whole_loops
        self.position = 0
        self.allocated: dict[Buffer, None] = {}
        self.spans: dict[Buffer, tuple[int, int]] = {}
        self.overhang: dict[Buffer, int] = {}
        self._multiplied: dict[Buffer, None] = {}  # by products that may be under way
        self._filled: dict[Buffer, None] = {}  # by copies that may be under way, and touched by nothing since
        self._inside = 0  # loops and branches around

    def visit(self, stmt: Stmt, loops: int) -> None:
        """Numbers the statements below one, inside of so many loops."""
        begin, before = self.position, dict(self._multiplied)
        self.position += 1
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is None and _in_shared(stmt.buffer):
            self.allocated[stmt.buffer] = None
        for buffer in shared_storages(stmt):
            first, _ = self.spans.get(buffer, (begin, begin))
            self.spans[buffer] = (first, begin)
        self._follow_products(stmt, begin)
        self._follow_copies(stmt, begin)
        is_loop = isinstance(stmt, For | While)
        around = set(self.allocated)
        self._inside += is_loop or isinstance(stmt, If)
        for child in sub_statements(stmt):
            self.visit(child, loops + is_loop)
        self._inside -= is_loop or isinstance(stmt, If)
        if is_loop:
            around.update(dict.fromkeys(b for b in self._multiplied if b not in before))
            self._close_loop(begin, around, outermost=loops == 0)
        several = (is_loop or isinstance(stmt, If)) and sum(last >= begin for _, last in self.spans.values()) > 1
        if several and self._uniform.diverges(stmt):
            self._close(begin, self.spans)
        if is_loop or isinstance(stmt, If):
            self._multiplied |= before  # for those who did not come by the waits inside

    @cached_property
    def _uniform(self) -> Uniformity:
        return uniformity(self._launch)

    def end(self) -> None:
        """Nothing comes behind; products and copies that nobody waits for have all of the rest."""
        for buffer in (*self._multiplied, *self._filled):
            self.spans[buffer] = (self.spans[buffer][0], self.position)

    def _follow_products(self, stmt: Stmt, now: int) -> None:
        """Keeps what matrix instructions under way may read alive until somebody has waited for all of them.

        Where one thread waits for others, as for copies, the wait names what may be read until then.
        """
        routine = stmt.routine if isinstance(stmt, CallStmt) else None
        if not isinstance(routine, Instruction) or not routine.reads_late or routine.group is Group.THREAD:
            return
        if Effect.WAIT not in routine.effect:
            self._multiplied |= dict.fromkeys(shared_storages(stmt))
            if routine.overhang and isinstance(stmt, CallStmt):
                tile = stmt.reads[0].buffer.storage
                self.overhang[tile] = max(routine.overhang, self.overhang.get(tile, 0))
            return
        for buffer in self._multiplied:
            self.spans[buffer] = (self.spans[buffer][0], now)
        if groups_pending(stmt) == 0:
            self._multiplied.clear()

    def _follow_copies(self, stmt: Stmt, now: int) -> None:
        """Keeps what copies under way write alive until all are waited for, even if nobody reads it."""
        for buffer in shared_storages(stmt):
            self._filled.pop(buffer, None)  # whoever touches it has waited
        if not isinstance(stmt, CallStmt) or not isinstance(stmt.routine, Instruction):
            return
        if not stmt.routine.by_every_thread:
            return
        if Effect.WAIT in stmt.routine.effect:
            for buffer in self._filled:
                self.spans[buffer] = (self.spans[buffer][0], now)
            if not self._inside and groups_pending(stmt) == 0:
                self._filled.clear()
        else:
            self._filled |= {r.buffer.storage: None for r in stmt.writes if r.buffer.scope is Scope.SHARED}

    def _close_loop(self, begin: int, around: set[Buffer], *, outermost: bool) -> None:
        """What comes into a loop from outside lives as long as the loop does: the next iteration may want it."""
        self._close(begin, self.spans if self._whole_loops and outermost else around)

    def _close(self, begin: int, buffers: Collection[Buffer]) -> None:
        """Lets those of the buffers that were touched since the beginning of a statement live as long as it runs."""
        for buffer, (first, last) in self.spans.items():
            if last >= begin and buffer in buffers:
                self.spans[buffer] = (min(first, begin), self.position)
        self.position += 1


def _in_shared(buffer: Buffer) -> bool:
    return buffer.scope in (Scope.SHARED, Scope.BARRIER)


# -- when it does not fit ----------------------------------------------------------------------------------------


def _too_much(tiles: Sequence[Tile], total: int, limit: int, target: Target) -> ResourceError:
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
        needed = place(fewer)[1]
        if needed <= limit:
            return f"num_stages={stages} fits, with {needed} bytes"
    needed = place([_with_versions(tile, 1) for tile in tiles])[1]
    factor = -(-needed // limit)
    one = "even with num_stages=1 they take" if most > 1 else "they take"
    return f"make the tiles {factor} times smaller: {one} {needed} bytes"


def _with_versions(tile: Tile, versions: int) -> Tile:
    if tile.versions < 1:
        raise CompilerBug(f"'{tile.buffer.name}' has {tile.versions} versions")
    return dataclasses.replace(tile, bytes=tile.bytes // tile.versions * versions, versions=versions)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: plan_launch(launch, context.target))


PASS = Pass(
    "plan_shared_memory", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ITERATIONS_OVERLAPPED, Property.LOGICAL_INDICES),
    establishes=(Property.SHARED_MEMORY_PLANNED,),
)
