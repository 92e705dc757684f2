"""Split-K within a cluster: blocks of a cluster each run a part of a tile's reduction loop.

Takes a tile-level function after `choose_schedule` and `rasterize_grid`. Such a launch has `split_k` blocks for
each tile, neighbors along the grid's first dimension. All of them run what stands before the loop, and each runs its
share of the iterations. A reduction over the cluster then gives each block some columns of the accumulator, with which
it runs the epilogue; where the epilogue needs whole tiles, the first block runs it. Invariant: every iteration is run
by exactly one block, shares differ by one iteration at most, and no effect on global memory happens twice.

    bx, rank = block // n, block % n
    ...; T.clear(C)
    for k in T.Pipelined(begin of the share, end of the share): ...; T.gemm(A, B, C)
    C_own = columns of the sum over the cluster of C
    ...; T.copy(C_own, ...)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.pipeline import barriers
from tilelang.ir.stmt import Alloc, Bind, If, Launch, Seq, Stmt
from tilelang.ir.visit import walk
from tilelang.lowering.regions import whole
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.rasterize_grid import smallest
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.gemm_loop import GemmLoop, NotSplit, find_gemm_loop, split_loop
from tilelang.targets.nvidia.passes.partition_epilogue_n import NotPartitioned, columns_of, partition_epilogue_n
from tilelang.targets.nvidia.schedule import schedule_of

_MIN_COLUMNS = 16  # columns of a block: full sectors of 32 bytes are stored to global memory


def split(launch: Launch, blocks: int, consumers: int) -> Launch:
    """The launch with a cluster of blocks for each tile.

    Args:
        launch: Any launch.
        blocks: Blocks for each tile.
        consumers: Consumer warpgroups of each block.

    Raises:
        NotSplit: The reduction cannot be split.
    """
    launch = flatten_sequences(launch)
    gemm_loop = find_gemm_loop(launch, blocks)
    if len(gemm_loop.tiles) > 1:
        raise NotSplit("a cluster adds up the sums of one gemm")
    loc = launch.loc
    block, rank = (Var(name, INT32, index=True) for name in ("block", "rank"))
    first = smallest(block // blocks, launch.grid[0] - 1)  # makes the bound visible to proofs
    notes: list[Note] = []
    before, own, epilogue = _partitioned_epilogue(launch, gemm_loop, rank, blocks, consumers, notes)
    cluster_sum = _cluster_sum(gemm_loop, own, rank, blocks)
    body = (
        Bind(launch.block_vars[0], first, loc=loc),
        Bind(rank, block % blocks, loc=loc),
        Alloc(cluster_sum.barrier.buffer, loc=loc),
        Alloc(cluster_sum.parts.buffer, loc=loc),
        *before,
        split_loop(gemm_loop.loop, rank, blocks),
        *(() if own in gemm_loop.tiles else (Alloc(own, loc=own.loc),)),
        cluster_sum,
        *epilogue,
    )
    return dataclasses.replace(
        launch,
        block_vars=(block, *launch.block_vars[1:]),
        grid=(launch.grid[0] * blocks, *launch.grid[1:]),
        hints=dataclasses.replace(launch.hints, cluster=(blocks, 1, 1)),
        body=Seq(body, loc=launch.body.loc),
        plan=dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes)),
    )


def _cluster_sum(gemm_loop: GemmLoop, own: Buffer, rank: Expr, blocks: int) -> ClusterSum:
    """The reduction over the cluster."""
    (gemm,), (tile,) = gemm_loop.gemms, gemm_loop.tiles
    zero, one = const(0, INT32), const(1, INT32)
    count = math.prod(own.static_shape or (0,)) * (blocks - 1)
    parts = Buffer(f"{tile.name}_parts", (const(count, INT32),), own.dtype, Scope.SHARED)
    sent = Region(barriers(f"{tile.name}_sent", 1), (zero,), (one,))
    return ClusterSum(whole(tile), whole(own), whole(parts), sent, rank, blocks, loc=gemm.loc)


def _partitioned_epilogue(
    launch: Launch, gemm_loop: GemmLoop, rank: Expr, blocks: int, consumers: int, notes: list[Note]
) -> tuple[Sequence[Stmt], Buffer, Sequence[Stmt]]:
    """The prologue, the part of the accumulator that a block gets, and its epilogue."""
    (gemm,), (tile,) = gemm_loop.gemms, gemm_loop.tiles
    rows, columns = tile.static_shape or (0, 0)
    divisors = [n for n in range(blocks, 1, -1) if not (blocks % n or columns % n or columns // n % _MIN_COLUMNS)]
    try:
        if gemm.transpose_c:
            raise NotPartitioned("threads divide its columns among them")
        if not divisors:
            raise NotPartitioned(f"{columns} columns are no multiples of {_MIN_COLUMNS} for each block")
        if consumers > 1 and (rows % (ROWS * consumers) or gemm.policy is GemmWarpPolicy.FullCol):
            raise NotPartitioned("warpgroups share the columns of a tile")
        part = columns_of((tile,), divisors[0], rank)
        own = part.own[tile]
        before, after = partition_epilogue_n(part, gemm_loop.before, gemm_loop.after)
        _check_annotations(launch, (*before, *after))
    except NotPartitioned as reason:
        notes.append(Note(f"tl.split: one block of each cluster has all results, since {reason}", launch.loc))
        own, before, after = tile, list(gemm_loop.before), list(gemm_loop.after)
    owners = columns // (int_const(own.shape[-1]) or 1)
    loc = launch.loc
    epilogue = after if owners == blocks or not after else [If(rank < owners, Seq(tuple(after), loc=loc), loc=loc)]
    return before, own, epilogue


def _check_annotations(launch: Launch, stmts: Sequence[Stmt]) -> None:
    """Refuses narrowed tiles whose layouts are annotated."""
    allocated = {s.buffer for each in stmts for s in walk(each) if isinstance(s, Alloc)}
    for buffer, _ in launch.hints.layouts:
        if buffer not in allocated and isinstance(buffer, Buffer):
            raise NotPartitioned(f"the layout of '{buffer.name}' is annotated")


def _split(launch: Launch) -> Launch:
    schedule = schedule_of(launch)
    return launch if schedule is None or schedule.split_k == 1 else split(launch, schedule.split_k, schedule.consumers)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _split)


PASS = Pass(
    "cluster_split_k", _run, Level.TILE, Level.TILE,
    requires=(Property.SCHEDULE_CHOSEN, Property.GRID_RASTERIZED),
    establishes=(Property.REDUCTION_SPLIT,),
    invalidates=(Property.GRID_AS_WRITTEN,),
)
