"""Says what follows where a program starts the engines of the GPU itself: who knows its barriers, what waits are for.

Takes a tile-level function as the user wrote it. Barriers that engines or other blocks of the cluster count on are made
known to them when they are initialized, and waits for engines name the tiles that these may read until then, so that
nothing else takes their memory. Invariant: nothing changes where the user starts no engine and asks for no cluster.

Source: PTX ISA, "membar, fence": `fence.mbarrier_init`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Launch, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.async_units import TMA_STORE, WGMMA
from tilelang.targets.nvidia.isa.mbarrier import FENCE_MBARRIER_INIT, MBARRIER_INIT
from tilelang.targets.nvidia.requests import COPY_TMA_STORE

_QUEUES = (WGMMA, TMA_STORE)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _connected)


def _connected(launch: Launch) -> Stmt | None:
    operators = [s for s in walk(launch.body) if isinstance(s, TileOp)]
    tiles = {queue: tuple(dict.fromkeys(_tiles(op for op in operators if _queue(op) is queue))) for queue in _QUEUES}
    counted = any(isinstance(op, Copy) and op.request and op.barrier is not None for op in operators)
    beyond = counted or launch.hints.cluster != (1, 1, 1)
    return _Connect(tiles, beyond=beyond).rebuild_stmt(launch)


def _queue(op: TileOp) -> AsyncUnit | None:
    """The queue of an operator that may still be under way behind its statement."""
    if isinstance(op, Gemm) and (op.demanded or op.wait):
        return WGMMA
    return TMA_STORE if op.demanded == COPY_TMA_STORE else None


def _tiles(operators: Iterable[TileOp]) -> Iterable[Buffer]:
    """The shared tiles that operators read."""
    for op in operators:
        for region in (op.a, op.b) if isinstance(op, Gemm) else op.reads():
            if region.buffer.scope is Scope.SHARED:
                yield region.buffer


class _Connect(Rewriter):
    """Rewrites one launch.

    Args:
        tiles: What work of each queue reads.
        beyond: Whether more than the block's threads use its barriers.
    """

    def __init__(self, tiles: Mapping[AsyncUnit, tuple[Buffer, ...]], *, beyond: bool) -> None:
        self._tiles, self._beyond = tiles, beyond

    def stmt(self, node: Stmt) -> Stmt | None:
        if self._beyond and isinstance(node, Seq) and any(_initializes(s) for s in node.body):
            return self._published(node)
        if self._beyond and _initializes(node):
            return self._published(Seq((node,), loc=node.loc))
        if isinstance(node, CallStmt) and isinstance(node.routine, Instruction) and not node.reads:
            return self._awaited(node, node.routine)
        return self.rebuild_stmt(node)

    def _published(self, node: Seq) -> Stmt:
        """The statements with a fence behind the last of those that initialize barriers."""
        last = max(n for n, s in enumerate(node.body) if _initializes(s))
        if any(isinstance(s, CallStmt) and s.routine is FENCE_MBARRIER_INIT for s in node.body[last:]):
            return node
        fence = CallStmt(FENCE_MBARRIER_INIT, (), loc=node.body[last].loc)
        return Seq((*node.body[: last + 1], fence, *node.body[last + 1 :]), loc=node.loc)

    def _awaited(self, node: CallStmt, routine: Instruction) -> Stmt:
        unit = routine.async_unit if Effect.WAIT in routine.effect else None
        tiles = () if unit is None else self._tiles.get(unit, ())
        regions: tuple[Region, ...] = tuple(map(whole, tiles))
        return dataclasses.replace(node, reads=regions) if regions else node


def _initializes(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine is MBARRIER_INIT


PASS = Pass(
    "connect_engines", _run, Level.TILE, Level.TILE,
    requires=(Property.BARRIERS_AS_WRITTEN, Property.USER_PIPELINES_VERSIONED),
)
"""The pass."""
