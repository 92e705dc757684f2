"""Gives each of several loads that fill a tile in turn, in an iteration of a pipelined loop, a tile of its own.

Takes a tile-level function:

    for k in T.Pipelined(n):               for k in T.Pipelined(n):
        T.copy(A[k], S)                        T.copy(A[k], S_1)
        T.gemm(S, ...)               =>        T.gemm(S_1, ...)
        T.copy(B[k], S)                        T.copy(B[k], S)
        T.gemm(S, ...)                         T.gemm(S, ...)

A load into a tile that is still in use waits for that use; tiles of their own have stages of their own, and the loads
run ahead on every GPU. A loop that computes all elements of a tile anew, each from itself, fills it, too, where a
producer does the loads: it fills no tile that threads write, but they may write to another one.

Invariant: what the program computes is the same. Each fill stores all of the tile and none is skipped, so that its
values are read between it and the next one only; the last one keeps the tile, which other statements may read in the
next iteration or elsewhere. All tiles of the launch fit into shared memory together, with as many stages as their loops
have. Loops that synchronize threads by themselves keep their tiles, which other threads may read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tilelang.analysis.thread_accesses import synchronizes
from tilelang.analysis.whole_stores import stores_all
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements, with_statements
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, loads_of, substitute_stmt, walk
from tilelang.lowering.regions import is_whole
from tilelang.ops.copy import Copy, is_load
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.machine import CommonFeature, Machine


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    machine = context.target.machine
    return with_launches(func, lambda launch: _separated(launch, machine)) if machine.warp_size > 1 else func


def _separated(launch: Launch, machine: Machine) -> Launch:
    allocated = [stmt.buffer for stmt in walk(launch.body) if isinstance(stmt, Alloc)]
    viewed = {buffer.storage for buffer in allocated if buffer.view_of is not None}
    annotated = {buffer.storage for buffer, _ in launch.hints.layouts}
    shared = [buffer for buffer in allocated if buffer.scope is Scope.SHARED and buffer.view_of is None]
    if any(buffer.static_shape is None for buffer in shared):
        return launch  # only the launch tells how large tiles are
    stages = _stages_of_tiles(launch)
    left = machine.shared_bytes - sum(stages.get(buffer, 1) * _bytes(buffer) for buffer in shared)
    loads = _Loads({*shared} - viewed - annotated, left, has_producer=machine.has(CommonFeature.ASYNC_GEMMS))
    body = loads.visit(launch.body)
    if not loads.made or body is None:
        return launch
    body = _WithTiles(loads.made).visit(body) or body
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *loads.notes))
    return dataclasses.replace(launch, body=body, plan=plan)


def _stages_of_tiles(launch: Launch) -> dict[Buffer, int]:
    """The most stages of the pipelined loops that load each tile."""
    found: dict[Buffer, int] = {}
    for loop in walk(launch.body):
        if isinstance(loop, For) and loop.pipeline is not None:
            for tile in {stmt.dst.buffer for stmt in walk(loop) if is_load(stmt)}:
                found[tile] = max(found.get(tile, 1), _stages(loop))
    return found


def _stages(loop: For) -> int:
    return 0 if loop.pipeline is None else loop.pipeline.num_stages


def _bytes(tile: Buffer) -> int:
    return math.prod(tile.static_shape or ()) * tile.dtype.storage_bytes


class _Loads(Rewriter):
    """Separates the loads in sequences of pipelined loops.

    Args:
        tiles: The tiles that may be filled.
        left: How many bytes further tiles may take.
        has_producer: Whether a producer does loads for gemms, ahead in loops of a single stage, too.

    Attributes:
        made: The further tiles for each tile.
        notes: What is to be said of them.
    """

    def __init__(self, tiles: set[Buffer], left: int, *, has_producer: bool) -> None:
        self._tiles, self._left, self._has_producer = tiles, left, has_producer
        self._loop: For | None = None  # the pipelined loop around, if no other loop is closer
        self.made: dict[Buffer, list[Buffer]] = {}
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            around = self._loop
            least = 1 if self._has_producer else 2
            runs_ahead = node.kind is ForKind.PIPELINED and _stages(node) >= least
            self._loop = node if runs_ahead and not any(map(synchronizes, walk(node))) else None
            made = self.rebuild_stmt(node)
            self._loop = around
            return made
        if isinstance(node, Seq) and self._loop is not None:
            node = self._sequence(node, self._loop)
        return self.rebuild_stmt(node)

    def _sequence(self, node: Seq, loop: For) -> Seq:
        statements = flat_statements(node)
        fills: dict[Buffer, list[int]] = {}
        has_producer = self._has_producer and any(isinstance(stmt, Gemm) for stmt in walk(loop))
        for place, stmt in enumerate(statements):
            if is_load(stmt) and _fills(stmt):
                fills.setdefault(stmt.dst.buffer, []).append(place)
            elif has_producer and (updated := _updated(stmt)) in fills and updated is not None:
                fills[updated].append(place)
        for tile, places in fills.items():
            loads = sum(1 for place in places if isinstance(statements[place], Copy))
            computed = len(places) - loads  # tiles of a single stage
            needed = _bytes(tile) * ((loads - 1) * _stages(loop) + computed)
            if len(places) < 2 or tile not in self._tiles or tile in self.made or needed > self._left:
                continue
            self._left -= needed
            made = [dataclasses.replace(tile, name=f"{tile.name}_{n}") for n in range(1, len(places))]
            self.made[tile] = made
            own = f"T.Pipelined: each load of '{tile.name}' in an iteration has a tile of its own"
            self.notes.append(Note(own, loop.loc))
            for before, new, begin, end in zip((tile, *made), (*made, tile), places, (*places[1:], None), strict=True):
                first, *others = (substitute_stmt(stmt, {}, {tile: new}) for stmt in statements[begin:end])
                statements[begin:end] = [_with_loads_from(first, new, before), *others]
        return Seq(tuple(statements), loc=node.loc) if self.made.keys() & fills.keys() else node


def _fills(copy: Copy) -> bool:
    """Whether a copy fills all of a tile before the next statement, as far as the program can tell."""
    return is_whole(copy.dst) and copy.barrier is None and not copy.is_async


def _updated(stmt: Stmt) -> Buffer | None:
    """The tile of which a loop computes each element from the same element, and from no others."""
    if not isinstance(stmt, ParallelLoop) or not isinstance(stmt.body, Store):
        return None
    store = stmt.body
    loads = [load for load in loads_of(store.value) if load.buffer.storage is store.buffer.storage]
    own = bool(loads) and all(all(map(same_expr, load.indices, store.indices)) for load in loads)
    return store.buffer if own and stores_all(store, stmt) else None


def _with_loads_from(stmt: Stmt, tile: Buffer, source: Buffer) -> Stmt:
    """A loop that computes a tile, from the elements of another one; a load as it is."""
    if not isinstance(stmt, ParallelLoop):
        return stmt
    computed = substitute_stmt(stmt.body, {}, {tile: source})
    assert isinstance(computed, Store)
    return dataclasses.replace(stmt, body=dataclasses.replace(computed, buffer=tile))


class _WithTiles(Rewriter):
    """Allocates further tiles beside others."""

    def __init__(self, tiles: Mapping[Buffer, Sequence[Buffer]]) -> None:
        self._tiles = tiles

    def stmt(self, node: Stmt) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        if not isinstance(rebuilt, Seq):
            return rebuilt
        body = [each for stmt in rebuilt.body for each in (*self._beside(stmt), stmt)]
        return with_statements(rebuilt, body)

    def _beside(self, stmt: Stmt) -> list[Stmt]:
        tiles = self._tiles.get(stmt.buffer, ()) if isinstance(stmt, Alloc) else ()
        return [Alloc(tile, loc=stmt.loc) for tile in tiles]


PASS = Pass(
    "separate_fills", _run, Level.TILE, Level.TILE,
    requires=(Property.RULES_CHECKED, Property.SUBSCRIPTS_AFFINE),
)
