"""Loops that are one gemm and nothing else, beside bindings and the loads of the producer."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, Bind, For, ParallelLoop, Seq, TileOp
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.load_groups import LoadGroup


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
    if len(rest) != 1 or not mine or not runs or any(group.fills_each_iteration_of() is None for group in mine):
        return None
    (gemm,) = rest
    if not isinstance(gemm, Gemm):
        return None
    in_place = all(region.buffer.scope is Scope.SHARED for region in (gemm.a, gemm.b))
    return gemm if in_place else None
