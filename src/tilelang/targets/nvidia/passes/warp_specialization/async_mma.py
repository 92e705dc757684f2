"""Asynchronous mma: a gemm still runs when that of the next iteration is issued, and its stage is released then.

Takes a loop and the pipelines that its body reads, gives an `AsyncMma` if the body is one gemm and nothing else.
Invariant: the loop has at least one iteration, so that there is a gemm to wait for after it; operands are in shared
memory, and nothing accesses the accumulator before that wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import substitute, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.nvidia.isa.wgmma import wgmma_wait
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import LoadGroup, trip_count
from tilelang.targets.nvidia.passes.warp_specialization.ping_pong import OrderBarrier
from tilelang.targets.nvidia.passes.warp_specialization.pipeline_buffers import PipelineBuffer, consumer_release


@record(slots=True, eq=False)
class AsyncMma:
    """A loop with one gemm in flight.

    Attributes:
        loop: The loop.
        gemm: The only statement of its body, beside bindings and the loads of the producer.
        pipelines: The tiles that it reads.
        order: Orders the main loops of ping-pong warpgroups; None without ping-pong.
    """

    loop: For
    gemm: Gemm
    pipelines: tuple[PipelineBuffer, ...]
    order: OrderBarrier | None = None

    def issue(self) -> Gemm:
        """The gemm, which waits for that of the previous iteration once it is issued."""
        return dataclasses.replace(self.gemm, wait=1)

    def release_previous(self, thread: Expr) -> list[Stmt]:
        """Releases the stage of the previous iteration, if there was one."""
        releases = self._releases(-1, {}, thread)
        return [If(self.loop.var != self.loop.start, Seq(tuple(releases)))] if releases else []

    def with_drain(self, loop: For, thread: Expr) -> list[Stmt]:
        """The rewritten loop, the wait for its last gemm, and the release of the last stage."""
        last = self.loop.start + (trip_count(self.loop) - 1) * self.loop.step
        drain, releases = CallStmt(wgmma_wait(0), ()), self._releases(0, {self.loop.var: last}, thread)
        if self.order is None:
            return [loop, drain, *releases]
        # a second gemm waits for the first, so that all warps have passed the order barrier; a single one does not
        has_second = int_const(trip_count(self.loop)) != 1
        end = [*self.order.arrive(thread), drain] if has_second else [drain, *self.order.arrive(thread)]
        return [*self.order.wait(), loop, *end, *releases]

    def _releases(self, offset: int, values: Mapping[Var, Expr], thread: Expr) -> list[Stmt]:
        releases: list[Stmt] = []
        for each in self.pipelines:
            number = each.load_group.fill_count().preceding
            assert number is not None
            number = substitute(number, values) + offset
            version = const(0, INT32) if each.versions == 1 else number % each.versions
            releases += consumer_release(each, version, thread)
        return releases


def async_mma_of(loop: For, pipelines: Sequence[PipelineBuffer], order: OrderBarrier | None = None) -> AsyncMma | None:
    """The loop with its gemm in flight; None if each iteration has to wait for its own."""
    mine = tuple(each for each in pipelines if each.load_group.parent is loop.body)
    gemm = only_gemm(loop, [each.load_group for each in mine])
    if gemm is None or any(not each.wgmma_only or each.versions < 2 for each in mine):
        return None
    return AsyncMma(loop, gemm, mine, order)


def has_tile_work(loop: For) -> bool:
    """Whether a loop works on tiles, not only on scalars."""
    return any(isinstance(s, TileOp | ParallelLoop) for s in walk(loop))


def only_gemm(loop: For, load_groups: Sequence[LoadGroup]) -> Gemm | None:
    """The gemm if it is all that a loop does beside loads, and the loop surely has an iteration; otherwise None."""
    body = loop.body.body if isinstance(loop.body, Seq) else ()
    mine = [load_group for load_group in load_groups if load_group.parent is loop.body]
    copies = {copy for load_group in mine for copy in load_group.copies}
    rest = [s for s in body if not isinstance(s, Bind | Alloc) and not (isinstance(s, Copy) and s in copies)]
    runs = proves(trip_count(loop) >= 1, Domain())
    if len(rest) != 1 or not mine or not runs or any(load_group.fill_count().preceding is None for load_group in mine):
        return None
    (gemm,) = rest
    if not isinstance(gemm, Gemm):
        return None
    in_place = all(region.buffer.scope is Scope.SHARED for region in (gemm.a, gemm.b))
    return gemm if in_place else None
