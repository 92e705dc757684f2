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

from tilelang.analysis.accesses import accesses
from tilelang.analysis.whole_stores import overwritten
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, Var, binary, const, int_const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Assert, Atomic, Bind, For, If, Launch, ParallelLoop, Print, Seq, Stmt
from tilelang.ir.visit import jumps, substitute_stmt, walk
from tilelang.lowering.regions import is_whole, whole
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.rasterize_grid import smallest
from tilelang.records import record
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.partition_epilogue_n import ColumnPartition, NotPartitioned, partition_epilogue_n
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import flatten_sequences, is_pipelined, trip_count
from tilelang.targets.nvidia.schedule import schedule_of

_RANK = 2  # of an accumulator that is partitioned by columns
_MIN_COLUMNS = 16  # columns of a block: full sectors of 32 bytes are stored to global memory
_OPAQUE = SCALARS["uint64"]  # a barrier. Source: PTX ISA, "mbarrier", "Contents"


class NotSplit(Exception):
    """Why the reduction of a launch cannot be split, in a few words."""


@record(slots=True)
class GemmLoop:
    """A launch with one reduction loop that can be split.

    Attributes:
        before: The statements before the loop.
        loop: The loop.
        gemm: The only statement of its body, beside bindings, loads from global memory, and parallel loops that compute
            fragments for it.
        after: The epilogue.
    """

    before: tuple[Stmt, ...]
    loop: For
    gemm: Gemm
    after: tuple[Stmt, ...]

    @property
    def tile(self) -> Buffer:
        """The accumulator."""
        return self.gemm.c.buffer


def _find_gemm_loop(launch: Launch, blocks: int) -> GemmLoop:
    """The reduction loop of a launch from `flatten_sequences`, checked for a split into so many blocks."""
    body = launch.body.body if isinstance(launch.body, Seq) else ()
    loops = [s for s in body if isinstance(s, For) and any(isinstance(inner, Gemm) for inner in walk(s))]
    gemms = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    if len(loops) != 1 or len(gemms) != 1:
        raise NotSplit("it takes one loop with one gemm, and no other gemms")
    (loop,), (gemm,) = loops, gemms
    position = body.index(loop)
    gemm_loop = GemmLoop(body[:position], loop, gemm, body[position + 1 :])
    _check_loop(gemm_loop, blocks)
    _check_initialized(gemm_loop)
    _check_repeatable(gemm_loop)
    if any(buffer is gemm_loop.tile for buffer, _ in launch.hints.layouts):
        raise NotSplit(f"the layout of '{gemm_loop.tile.name}' is annotated")
    return gemm_loop


def _check_loop(gemm_loop: GemmLoop, blocks: int) -> None:
    """Refuses loops that do more than to load operands, to compute fragments of them, and to multiply them."""
    loop, gemm = gemm_loop.loop, gemm_loop.gemm
    parts = statements_of(loop.body)
    count = int_const(trip_count(loop))
    if not is_pipelined(loop) or jumps(loop.body):
        raise NotSplit("the loop of the gemm is not pipelined, or has an early exit")
    if count is not None and count < blocks:
        raise NotSplit(f"{blocks} blocks would share iterations of which there are {count}")
    for stmt in parts:
        loads = isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (
            Scope.GLOBAL,
            Scope.SHARED,
        )
        if stmt is not gemm and not loads and not isinstance(stmt, Bind | Alloc) and not _computes_fragments(stmt):
            raise NotSplit("the loop does more than to load tiles and to multiply them")
    made = {access.buffer.storage for stmt in parts if stmt is not gemm for access in accesses(stmt).writes}
    for stmt in (*gemm_loop.before, *gemm_loop.after):
        if any(access.buffer.storage in made for access in accesses(stmt).all):
            raise NotSplit("a tile that the loop loads is used outside of it")


def _computes_fragments(stmt: Stmt) -> bool:
    """Whether a statement does nothing but to overwrite whole fragments."""
    written = {access.buffer.storage for access in accesses(stmt).writes}
    in_registers = all(buffer.scope is Scope.FRAGMENT for buffer in written)
    return isinstance(stmt, ParallelLoop) and in_registers and written <= overwritten(stmt)


def _check_initialized(gemm_loop: GemmLoop) -> None:
    """Refuses accumulators that are not cleared before the loop."""
    tile, gemm = gemm_loop.tile, gemm_loop.gemm
    if tile.scope is not Scope.FRAGMENT or not is_whole(gemm.c) or tile.rank != _RANK or tile.view_of is not None:
        raise NotSplit(f"'{tile.name}' is no fragment of two dimensions")
    rows = gemm.sizes[0]
    if (int_const(rows) or 0) % ROWS:
        raise NotSplit(f"'{tile.name}' has {rows} rows, no multiple of {ROWS}")
    accumulates = gemm.clear_accum is None or isinstance(gemm.clear_accum, Const) and not gemm.clear_accum.value
    touching = [s for s in gemm_loop.before if any(a.buffer.storage is tile.storage for a in accesses(s).all)]
    last = touching[-1] if touching else None
    cleared = isinstance(last, Fill) and isinstance(last.value, Const) and last.value.value == 0 and is_whole(last.dst)
    if not accumulates or not cleared:
        raise NotSplit(f"the sums in '{tile.name}' do not begin with T.clear before the loop")


def _check_repeatable(gemm_loop: GemmLoop) -> None:
    """Refuses prologues that several blocks must not run."""
    for stmt in (inner for each in gemm_loop.before for inner in walk(each)):
        if isinstance(stmt, Print | Assert | Atomic):
            raise NotSplit("a statement before the loop must be executed once")
    for stmt in gemm_loop.before:
        if any(access.buffer.scope is Scope.GLOBAL for access in accesses(stmt).writes):
            raise NotSplit("global memory is written before the loop")


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
    gemm_loop = _find_gemm_loop(launch, blocks)
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
        _split_loop(gemm_loop.loop, rank, blocks),
        *(() if own is gemm_loop.tile else (Alloc(own, loc=own.loc),)),
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
    name, zero, one = gemm_loop.tile.name, const(0, INT32), const(1, INT32)
    count = math.prod(own.static_shape or (0,)) * (blocks - 1)
    barrier = Buffer(f"{name}_sent", (one,), _OPAQUE, Scope.BARRIER)
    parts = Buffer(f"{name}_parts", (const(count, INT32),), own.dtype, Scope.SHARED)
    sent = Region(barrier, (zero,), (one,))
    return ClusterSum(whole(gemm_loop.tile), whole(own), whole(parts), sent, rank, blocks, loc=gemm_loop.gemm.loc)


def _partitioned_epilogue(
    launch: Launch, gemm_loop: GemmLoop, rank: Expr, blocks: int, consumers: int, notes: list[Note]
) -> tuple[Sequence[Stmt], Buffer, Sequence[Stmt]]:
    """The prologue, the part of the accumulator that a block gets, and its epilogue."""
    rows, columns = gemm_loop.tile.static_shape or (0, 0)
    divisors = [n for n in range(blocks, 1, -1) if not (blocks % n or columns % n or columns // n % _MIN_COLUMNS)]
    try:
        if gemm_loop.gemm.transpose_c:
            raise NotPartitioned("threads divide its columns among them")
        if not divisors:
            raise NotPartitioned(f"{columns} columns are no multiples of {_MIN_COLUMNS} for each block")
        if consumers > 1 and (rows % (ROWS * consumers) or gemm_loop.gemm.policy is GemmWarpPolicy.FullCol):
            raise NotPartitioned("warpgroups share the columns of a tile")
        count = const(columns // divisors[0], INT32)
        tile = gemm_loop.tile
        own = Buffer(f"{tile.name}_own", (tile.shape[0], count), tile.dtype, Scope.FRAGMENT, loc=tile.loc)
        columns_of_block = ColumnPartition(tile, own, rank * count)
        before, after = partition_epilogue_n(columns_of_block, gemm_loop.before, gemm_loop.after)
        _check_annotations(launch, (*before, *after))
    except NotPartitioned as reason:
        notes.append(Note(f"tl.split: one block of each cluster has all results, since {reason}", launch.loc))
        own, before, after = gemm_loop.tile, list(gemm_loop.before), list(gemm_loop.after)
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


def _split_loop(loop: For, rank: Expr, blocks: int) -> For:
    """The iterations of one block; where the trip count does not divide, the first blocks have one more."""
    total = trip_count(loop)
    if not proves(total >= 0, Domain()):
        total = binary(BinaryOp.MAX, total, const(0, INT32))
    share, remainder = total // blocks, total % blocks
    begin, count = rank * share, share
    if int_const(remainder) != 0:
        begin = begin + smallest(rank, remainder)
        count = count + select(rank < remainder, const(1, INT32), const(0, INT32))
    var = Var(loop.var.name, INT32, index=True)
    value = begin + var if loop.step == 1 else (begin + var) * loop.step
    value = value if int_const(loop.start) == 0 else value + loop.start
    body = substitute_stmt(loop.body, {loop.var: value})
    return dataclasses.replace(loop, var=var, start=const(0, INT32), stop=count, step=1, body=body)


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
