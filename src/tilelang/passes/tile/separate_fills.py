"""Gives each of several loads that fill a tile in turn, in an iteration of a pipelined loop, a tile of its own.

Takes a tile-level function:

    for k in T.Pipelined(n):               for k in T.Pipelined(n):
        T.copy(A[k], S)                        T.copy(A[k], S_1)
        T.gemm(S, ...)               =>        T.gemm(S_1, ...)
        T.copy(B[k], S)                        T.copy(B[k], S)
        T.gemm(S, ...)                         T.gemm(S, ...)

A load into a tile that is still in use waits for that use; tiles of their own have stages of their own, and the loads
run ahead on every machine. Invariant: what the program computes is the same. Each load fills all of the tile and all of
them run, so that what one brings is read between it and the next one only; the last one keeps the tile, which other
statements may read in the next iteration or elsewhere. All tiles of the launch fit into shared memory together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements, with_statements
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, substitute_stmt, walk
from tilelang.lowering.regions import is_whole
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.machine import CommonFeature, Machine
from tilelang.transforms.statement_places import is_load


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    machine = context.target.machine
    return with_launches(func, lambda launch: _separated(launch, machine)) if machine.warp_size > 1 else func


def _separated(launch: Launch, machine: Machine) -> Launch:
    allocated = [stmt.buffer for stmt in walk(launch.body) if isinstance(stmt, Alloc)]
    viewed = {buffer.storage for buffer in allocated if buffer.view_of is not None}
    annotated = {buffer.storage for buffer, _ in launch.hints.layouts}
    shared = [buffer for buffer in allocated if buffer.scope is Scope.SHARED and buffer.view_of is None]
    left = machine.shared_of_block(1) - sum(map(_bytes, shared))
    # a producer loads tiles of a single stage ahead, too
    least = 1 if machine.has(CommonFeature.ASYNC_GEMMS) else 2
    loads = _Loads({*shared} - viewed - annotated, least, left)
    body = loads.visit(launch.body)
    if not loads.made or body is None:
        return launch
    body = _WithTiles(loads.made).visit(body) or body
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *loads.notes))
    return dataclasses.replace(launch, body=body, plan=plan)


def _bytes(tile: Buffer) -> int:
    return math.prod(tile.static_shape or ()) * tile.dtype.storage_bytes


class _Loads(Rewriter):
    """Separates the loads in sequences of pipelined loops.

    Args:
        tiles: The tiles that may be filled.
        least: The number of stages from which on loops run loads ahead.
        left: How many bytes further tiles may take.

    Attributes:
        made: The further tiles for each tile.
        notes: What is to be said of them.
    """

    def __init__(self, tiles: set[Buffer], least: int, left: int) -> None:
        self._tiles, self._least, self._left = tiles, least, left
        self._loop: For | None = None  # the pipelined loop around, if no other loop is closer
        self.made: dict[Buffer, list[Buffer]] = {}
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            around, stages = self._loop, 0 if node.pipeline is None else node.pipeline.num_stages
            is_pipelined = node.kind is ForKind.PIPELINED and stages >= self._least
            self._loop = node if is_pipelined else None
            made = self.rebuild_stmt(node)
            self._loop = around
            return made
        if isinstance(node, Seq) and self._loop is not None:
            node = self._sequence(node, self._loop)
        return self.rebuild_stmt(node)

    def _sequence(self, node: Seq, loop: For) -> Seq:
        statements = flat_statements(node)
        fills: dict[Buffer, list[int]] = {}
        for place, stmt in enumerate(statements):
            if isinstance(stmt, Copy) and is_load(stmt) and stmt.dst.buffer in self._tiles and _fills(stmt):
                fills.setdefault(stmt.dst.buffer, []).append(place)
        for tile, places in fills.items():
            needed = _bytes(tile) * (len(places) - 1)
            if len(places) < 2 or tile in self.made or needed > self._left:
                continue
            self._left -= needed
            made = [dataclasses.replace(tile, name=f"{tile.name}_{n}") for n in range(1, len(places))]
            self.made[tile] = made
            own = f"T.Pipelined: each load of '{tile.name}' in an iteration has a tile of its own"
            self.notes.append(Note(own, loop.loc))
            for new, begin, end in zip(made, places, places[1:], strict=False):
                statements[begin:end] = [substitute_stmt(stmt, {}, {tile: new}) for stmt in statements[begin:end]]
        return Seq(tuple(statements), loc=node.loc) if self.made.keys() & fills.keys() else node


def _fills(copy: Copy) -> bool:
    """Whether a copy fills all of a tile before the next statement, as far as the program can tell."""
    return is_whole(copy.dst) and copy.barrier is None and not copy.is_async


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
