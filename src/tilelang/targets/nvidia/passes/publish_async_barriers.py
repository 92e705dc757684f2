"""Publishes barriers that the user initializes to the async proxy and the cluster, and completes the reads of waits.

Takes a tile-level function as the user wrote it. Where asynchronous copies or other blocks of the cluster arrive at the
user's barriers, a fence follows their initialization. A wait for wgmma or for TMA stores gets the tiles that these may
still read among its reads, so that their memory is not reused before. Invariant: functions without asynchronous
operators of the user and without clusters are unchanged.

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

_UNITS = (WGMMA, TMA_STORE)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _published_launch)


def _published_launch(launch: Launch) -> Stmt | None:
    operators = [s for s in walk(launch.body) if isinstance(s, TileOp)]
    tiles = {unit: tuple(dict.fromkeys(_tiles(op for op in operators if _unit(op) is unit))) for unit in _UNITS}
    counted = any(isinstance(op, Copy) and op.request and op.barrier is not None for op in operators)
    outside_block = counted or launch.hints.cluster != (1, 1, 1)
    return _Publish(tiles, outside_block=outside_block).rebuild_stmt(launch)


def _unit(op: TileOp) -> AsyncUnit | None:
    """The asynchronous unit that may still work on an operator after its statement."""
    if isinstance(op, Gemm) and (op.required_lowering or op.wait):
        return WGMMA
    return TMA_STORE if op.required_lowering == COPY_TMA_STORE else None


def _tiles(operators: Iterable[TileOp]) -> Iterable[Buffer]:
    """The shared tiles that operators read."""
    for op in operators:
        for region in (op.a, op.b) if isinstance(op, Gemm) else op.reads():
            if region.buffer.scope is Scope.SHARED:
                yield region.buffer


class _Publish(Rewriter):
    """Rewrites one launch.

    Args:
        tiles: The shared tiles that each unit reads.
        outside_block: Whether asynchronous copies or other blocks use the barriers.
    """

    def __init__(self, tiles: Mapping[AsyncUnit, tuple[Buffer, ...]], *, outside_block: bool) -> None:
        self._tiles, self._outside_block = tiles, outside_block

    def stmt(self, node: Stmt) -> Stmt | None:
        if self._outside_block and isinstance(node, Seq) and any(_initializes(s) for s in node.body):
            return self._with_fence(node)
        if self._outside_block and _initializes(node):
            return self._with_fence(Seq((node,), loc=node.loc))
        if isinstance(node, CallStmt) and isinstance(node.routine, Instruction) and not node.reads:
            return self._with_reads(node, node.routine)
        return self.rebuild_stmt(node)

    def _with_fence(self, node: Seq) -> Stmt:
        """The statements with a fence after the last initialization of a barrier."""
        last = max(n for n, s in enumerate(node.body) if _initializes(s))
        if any(isinstance(s, CallStmt) and s.routine is FENCE_MBARRIER_INIT for s in node.body[last:]):
            return node
        fence = CallStmt(FENCE_MBARRIER_INIT, (), loc=node.body[last].loc)
        return Seq((*node.body[: last + 1], fence, *node.body[last + 1 :]), loc=node.loc)

    def _with_reads(self, node: CallStmt, routine: Instruction) -> Stmt:
        unit = routine.async_unit if Effect.WAIT in routine.effect else None
        tiles = () if unit is None else self._tiles.get(unit, ())
        regions: tuple[Region, ...] = tuple(map(whole, tiles))
        return dataclasses.replace(node, reads=regions) if regions else node


def _initializes(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine is MBARRIER_INIT


PASS = Pass(
    "publish_async_barriers", _run, Level.TILE, Level.TILE,
    requires=(Property.BARRIERS_AS_WRITTEN, Property.USER_PIPELINES_VERSIONED),
)
"""The pass."""
