"""Reduction loops of gemms whose iterations several blocks can share, in a cluster or through memory.

Takes a launch from `flatten_sequences`, gives the parts of its program around the one loop of gemms, and the loop of
one of several blocks. Invariant: every iteration is run by exactly one block, and shares differ by one at most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.analysis.accesses import accesses, storages
from tilelang.analysis.whole_stores import overwritten
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, binary, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Assert, Atomic, For, Launch, Print, Seq, Stmt
from tilelang.ir.visit import jumps, substitute_stmt, walk
from tilelang.lowering.regions import is_whole
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import is_load
from tilelang.ops.gemm import Gemm
from tilelang.passes.tile.rasterize_grid import smallest
from tilelang.records import record
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.load_groups import is_pipelined
from tilelang.schedule.loop_body import LoopBody
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.transforms.fuse_clears import is_clear

_RANK = 2  # of an accumulator


class NotSplit(Exception):
    """Why the reduction of a launch cannot be split, in a few words."""


@record(slots=True)
class GemmLoop:
    """A launch with one reduction loop that can be split.

    Attributes:
        before: The statements before the loop.
        loop: The loop.
        gemms: The gemms that add to the sums of the loop, each to a tile of its own. What else the loop writes it
            overwrites in every iteration, or are atomic operations on global memory.
        after: The epilogue.
    """

    before: tuple[Stmt, ...]
    loop: For
    gemms: tuple[Gemm, ...]
    after: tuple[Stmt, ...]

    @property
    def tiles(self) -> tuple[Buffer, ...]:
        """The accumulators."""
        return tuple(gemm.c.buffer for gemm in self.gemms)


def find_gemm_loop(launch: Launch, blocks: int) -> GemmLoop:
    """The reduction loop of a launch from `flatten_sequences`, checked for a split among `blocks` blocks."""
    body = launch.body.body if isinstance(launch.body, Seq) else ()
    loops = [s for s in body if isinstance(s, For) and any(isinstance(inner, Gemm) for inner in walk(s))]
    gemms = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    if len(loops) != 1 or not set(gemms) <= set(statements_of(loops[0].body)):
        raise NotSplit("it takes one loop of gemms, and no gemms elsewhere")
    (loop,), sums = loops, tuple(gemm for gemm in gemms if _accumulates(gemm))
    position = body.index(loop)
    gemm_loop = GemmLoop(body[:position], loop, sums, body[position + 1 :])
    _check_loop(gemm_loop, blocks)
    for gemm in sums:
        _check_initialized(gemm, gemm_loop.before)
    _check_repeatable(gemm_loop)
    for tile in gemm_loop.tiles:
        if any(buffer is tile for buffer, _ in launch.hints.layouts):
            raise NotSplit(f"the layout of '{tile.name}' is annotated")
    return gemm_loop


def _accumulates(gemm: Gemm) -> bool:
    """Whether a gemm always adds to what there was before."""
    return gemm.clear_accum is None or isinstance(gemm.clear_accum, Const) and not gemm.clear_accum.value


def _check_loop(gemm_loop: GemmLoop, blocks: int) -> None:
    """Refuses loops whose iterations need more of one another than sums."""
    loop = gemm_loop.loop
    count = int_const(trip_count(loop))
    if not is_pipelined(loop) or jumps(loop.body):
        raise NotSplit("the loop of the gemm is not pipelined, or has an early exit")
    if count is not None and count < blocks:
        raise NotSplit(f"{blocks} blocks would share iterations of which there are {count}")
    if not gemm_loop.gemms:
        raise NotSplit("no gemm of the loop adds to what there was before")
    body = LoopBody(loop)
    around = (*gemm_loop.before, *gemm_loop.after)
    outside = {storage for stmt in around for storage in storages(stmt).all}
    gemms = {gemm.c.buffer.storage: gemm for gemm in gemm_loop.gemms}
    for storage, touching in body.storages.items():
        numbers = list(dict.fromkeys(number for number, _, _ in touching))
        statements = [body.statements[number] for number in numbers]
        writers = [body.statements[number] for number, _, write in touching if write]
        if storage in gemms:
            if statements != [gemms[storage]]:
                raise NotSplit(f"'{storage.name}' is more than the sums of one gemm")
        elif storage.scope is Scope.GLOBAL:
            atomic = isinstance(statements[0], AtomicTile) or all(access and access.atomic for _, access, _ in touching)
            if writers and not (atomic and len(statements) == 1):
                raise NotSplit(f"the loop does more with '{storage.name}' than one atomic operation")
        elif writers and storage in outside:
            raise NotSplit(f"'{storage.name}' is written by the loop, and used outside of it")
        elif not all(map(is_load, writers)) and storage not in overwritten(statements[0]):
            raise NotSplit(f"'{storage.name}' holds something from one iteration to the next")


def _check_initialized(gemm: Gemm, before: Sequence[Stmt]) -> None:
    """Refuses accumulators that are not cleared before the loop."""
    tile = gemm.c.buffer
    if tile.scope is not Scope.FRAGMENT or not is_whole(gemm.c) or tile.rank != _RANK or tile.view_of is not None:
        raise NotSplit(f"'{tile.name}' is no fragment of two dimensions")
    rows = gemm.sizes[0]
    if (int_const(rows) or 0) % ROWS:
        raise NotSplit(f"'{tile.name}' has {rows} rows, no multiple of {ROWS}")
    touching = [s for s in before if tile.storage in storages(s).all]
    if not is_clear(touching[-1] if touching else None):
        raise NotSplit(f"the sums in '{tile.name}' do not begin with T.clear before the loop")


def _check_repeatable(gemm_loop: GemmLoop) -> None:
    """Refuses prologues that several blocks must not run."""
    for stmt in (inner for each in gemm_loop.before for inner in walk(each)):
        if isinstance(stmt, Print | Assert | Atomic):
            raise NotSplit("a statement before the loop must be executed once")
    for stmt in gemm_loop.before:
        if any(access.buffer.scope is Scope.GLOBAL for access in accesses(stmt).writes):
            raise NotSplit("global memory is written before the loop")


def split_loop(loop: For, rank: Expr, blocks: int) -> For:
    """The iterations of one block; where the trip count does not divide, the first blocks have one more."""
    total = trip_count(loop)
    if not proves(total >= 0, Domain()):
        total = binary(BinaryOp.MAX, total, const(0, INT32))
    share, remainder = total // blocks, total % blocks
    begin, count = rank * share, share
    if int_const(remainder) != 0:
        begin = begin + smallest(rank, remainder)
        count = count + select(rank < remainder, const(1, INT32), const(0, INT32))
    value = begin + loop.var if loop.step == 1 else (begin + loop.var) * loop.step
    value = value if int_const(loop.start) == 0 else value + loop.start
    body = substitute_stmt(loop.body, {loop.var: value})
    return dataclasses.replace(loop, start=const(0, INT32), stop=count, step=1, body=body)
