"""Lets blocks of a cluster share the sums of a tile, each a part of the loop, where the schedule of a launch says so.

Takes a tile-level function as `choose_schedule` and `rasterize_grid` leave it. Such a launch has as many blocks for
each tile as the schedule says, neighbors along the grid's first dimension. All of them do what stands before the loop,
and each does its share of the iterations. Then each gets some columns of the sum and does the rest with these; where
the rest needs whole tiles, the first block does it. Invariant: every iteration is done by exactly one block, in shares
of neighbors that differ by one iteration at most; and nothing that others can see is done twice.

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
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, Var, binary, const, int_const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Assert, Atomic, Bind, For, If, Launch, Print, Seq, Stmt
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
from tilelang.targets.nvidia.passes.own_columns import Columns, Undivided, own_columns
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import flatten_sequences, is_pipelined, trip_count
from tilelang.targets.nvidia.schedule import schedule_of

_RANK = 2  # of a tile whose columns blocks own
_FEWEST = 16  # neighboring columns that a block owns: whole sectors of 32 bytes leave for global memory
_OPAQUE = SCALARS["uint64"]  # a barrier. Source: PTX ISA, "mbarrier", "Contents"


class Unsplit(Exception):
    """Why blocks cannot share the sums of a launch, in a few words."""


@record(slots=True)
class Sums:
    """A launch that consists of sums that blocks may share.

    Attributes:
        before: What stands before the loop.
        loop: The loop of products.
        product: The only statement of its body, beside names and what it brings from global memory.
        after: What is done with the sums.
    """

    before: tuple[Stmt, ...]
    loop: For
    product: Gemm
    after: tuple[Stmt, ...]

    @property
    def tile(self) -> Buffer:
        """The fragment of the sums."""
        return self.product.c.buffer


def _found(launch: Launch, blocks: int) -> Sums:
    """What so many blocks can share of a flat launch."""
    body = launch.body.body if isinstance(launch.body, Seq) else ()
    loops = [s for s in body if isinstance(s, For) and any(isinstance(inner, Gemm) for inner in walk(s))]
    products = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    if len(loops) != 1 or len(products) != 1:
        raise Unsplit("it takes one loop with one product, and no other products")
    (loop,), (product,) = loops, products
    position = body.index(loop)
    found = Sums(body[:position], loop, product, body[position + 1 :])
    _check_loop(found, blocks)
    _check_begin(found)
    _check_twice(found)
    if any(buffer is found.tile for buffer, _ in launch.hints.layouts):
        raise Unsplit(f"the layout of '{found.tile.name}' is annotated")
    return found


def _check_loop(sums: Sums, blocks: int) -> None:
    """Refuses loops that do anything but products of what they bring."""
    loop, product = sums.loop, sums.product
    parts = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
    count = int_const(trip_count(loop))
    if not is_pipelined(loop) or jumps(loop.body):
        raise Unsplit("the loop of the product is not pipelined, or is left early")
    if count is not None and count < blocks:
        raise Unsplit(f"{blocks} blocks would share iterations of which there are {count}")
    for stmt in parts:
        brings = isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (
            Scope.GLOBAL,
            Scope.SHARED,
        )
        if stmt is not product and not brings and not isinstance(stmt, Bind | Alloc):
            raise Unsplit("the loop does more than to bring tiles and to multiply them")
    brought = {stmt.dst.buffer.storage for stmt in parts if isinstance(stmt, Copy)}
    for stmt in (*sums.before, *sums.after):
        if any(access.buffer.storage in brought for access in accesses(stmt).all):
            raise Unsplit("a tile that the loop brings is used outside of it")


def _check_begin(sums: Sums) -> None:
    """Refuses sums that do not visibly begin with zero."""
    tile, product = sums.tile, sums.product
    if tile.scope is not Scope.FRAGMENT or not is_whole(product.c) or tile.rank != _RANK or tile.view_of is not None:
        raise Unsplit(f"'{tile.name}' is no fragment of two dimensions")
    if (int_const(tile.shape[0]) or 0) % ROWS:
        raise Unsplit(f"'{tile.name}' has {tile.shape[0]} rows, no multiple of {ROWS}")
    fetched = product.clear_accum is None or isinstance(product.clear_accum, Const) and not product.clear_accum.value
    touching = [s for s in sums.before if any(a.buffer.storage is tile.storage for a in accesses(s).all)]
    last = touching[-1] if touching else None
    cleared = isinstance(last, Fill) and isinstance(last.value, Const) and last.value.value == 0 and is_whole(last.dst)
    if not fetched or not cleared:
        raise Unsplit(f"the sums in '{tile.name}' do not begin with T.clear before the loop")


def _check_twice(sums: Sums) -> None:
    """Refuses what must not be done by several blocks."""
    for stmt in (inner for each in sums.before for inner in walk(each)):
        if isinstance(stmt, Print | Assert | Atomic):
            raise Unsplit("something stands before the loop that must be done once")
    for stmt in sums.before:
        if any(access.buffer.scope is Scope.GLOBAL for access in accesses(stmt).writes):
            raise Unsplit("global memory is written before the loop")


def split(launch: Launch, blocks: int, consumers: int) -> Launch:
    """The launch with so many blocks for each tile, in clusters.

    Args:
        launch: Any launch.
        blocks: How many share a tile.
        consumers: Warpgroups of each that do its products.

    Raises:
        Unsplit: They cannot share it.
    """
    launch = flatten_sequences(launch)
    sums = _found(launch, blocks)
    loc = launch.loc
    block, rank = (Var(name, INT32, index=True) for name in ("block", "rank"))
    first = smallest(block // blocks, launch.grid[0] - 1)  # said for proofs about it
    notes: list[Note] = []
    before, own, rest = _shared_out(launch, sums, rank, blocks, consumers, notes)
    added = _sum(sums, own, rank, blocks)
    body = (
        Bind(launch.block_vars[0], first, loc=loc),
        Bind(rank, block % blocks, loc=loc),
        Alloc(added.barrier.buffer, loc=loc),
        Alloc(added.parts.buffer, loc=loc),
        *before,
        _share(sums.loop, rank, blocks),
        *(() if own is sums.tile else (Alloc(own, loc=own.loc),)),
        added,
        *rest,
    )
    return dataclasses.replace(
        launch,
        block_vars=(block, *launch.block_vars[1:]),
        grid=(launch.grid[0] * blocks, *launch.grid[1:]),
        hints=dataclasses.replace(launch.hints, cluster=(blocks, 1, 1)),
        body=Seq(body, loc=launch.body.loc),
        plan=dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes)),
    )


def _sum(sums: Sums, own: Buffer, rank: Expr, blocks: int) -> ClusterSum:
    """What adds up what blocks have."""
    name, zero, one = sums.tile.name, const(0, INT32), const(1, INT32)
    count = math.prod(own.static_shape or (0,)) * (blocks - 1)
    barrier = Buffer(f"{name}_sent", (one,), _OPAQUE, Scope.BARRIER)
    parts = Buffer(f"{name}_parts", (const(count, INT32),), own.dtype, Scope.SHARED)
    sent = Region(barrier, (zero,), (one,))
    return ClusterSum(whole(sums.tile), whole(own), whole(parts), sent, rank, blocks, loc=sums.product.loc)


def _shared_out(
    launch: Launch, sums: Sums, rank: Expr, blocks: int, consumers: int, notes: list[Note]
) -> tuple[Sequence[Stmt], Buffer, Sequence[Stmt]]:
    """What stands before the loop, which part of the tile a block owns behind it, and what it does with that."""
    rows, columns = sums.tile.static_shape or (0, 0)
    fitting = [n for n in range(blocks, 1, -1) if not (blocks % n or columns % n or columns // n % _FEWEST)]
    try:
        if not fitting:
            raise Undivided(f"{columns} columns do not come to multiples of {_FEWEST} for each block")
        if consumers > 1 and (rows % (ROWS * consumers) or sums.product.policy is GemmWarpPolicy.FullCol):
            raise Undivided("warpgroups share the columns of a tile")
        count = const(columns // fitting[0], INT32)
        tile = sums.tile
        own = Buffer(f"{tile.name}_own", (tile.shape[0], count), tile.dtype, Scope.FRAGMENT, loc=tile.loc)
        before, after = own_columns(Columns(tile, own, rank * count), sums.before, sums.after)
        _check_annotations(launch, (*before, *after))
    except Undivided as why:
        notes.append(Note(f"tl.split: one block of each cluster has all results, since {why}", launch.loc))
        own, before, after = sums.tile, list(sums.before), list(sums.after)
    owners = columns // (int_const(own.shape[-1]) or 1)
    loc = launch.loc
    rest = after if owners == blocks or not after else [If(rank < owners, Seq(tuple(after), loc=loc), loc=loc)]
    return before, own, rest


def _check_annotations(launch: Launch, stmts: Sequence[Stmt]) -> None:
    """Refuses tiles that have become narrower than what is annotated of them."""
    kept = {s.buffer for each in stmts for s in walk(each) if isinstance(s, Alloc)}
    for buffer, _ in launch.hints.layouts:
        if buffer not in kept and isinstance(buffer, Buffer):
            raise Undivided(f"the layout of '{buffer.name}' is annotated")


def _share(loop: For, rank: Expr, blocks: int) -> For:
    """The iterations of one of the blocks; the first ones have one more where they cannot all have as many."""
    total = trip_count(loop)
    if not proves(total >= 0, Domain()):
        total = binary(BinaryOp.MAX, total, const(0, INT32))
    each, left = total // blocks, total % blocks
    begin, count = rank * each, each
    if int_const(left) != 0:
        begin = begin + smallest(rank, left)
        count = count + select(rank < left, const(1, INT32), const(0, INT32))
    var = Var(loop.var.name, INT32, index=True)
    value = begin + var if loop.step == 1 else (begin + var) * loop.step
    value = value if int_const(loop.start) == 0 else value + loop.start
    body = substitute_stmt(loop.body, {loop.var: value})
    return dataclasses.replace(loop, var=var, start=const(0, INT32), stop=count, step=1, body=body)


def _shared(launch: Launch) -> Launch:
    schedule = schedule_of(launch)
    return launch if schedule is None or schedule.split_k == 1 else split(launch, schedule.split_k, schedule.consumers)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _shared)


PASS = Pass(
    "split_sums", _run, Level.TILE, Level.TILE,
    requires=(Property.SCHEDULE_CHOSEN, Property.GRID_RASTERIZED),
    establishes=(Property.REDUCTION_SPLIT,),
    invalidates=(Property.GRID_AS_WRITTEN,),
)
