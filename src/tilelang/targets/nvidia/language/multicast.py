"""Copies to other blocks of a cluster: `T.copy_cluster`, and the source of a multicast `T.tma_copy`.

Takes tiles and masks or ranks of blocks, emits copies and calls of instructions. Invariant: the blocks of a mask
receive the tile of the one of lowest rank; the destination has the same offset in every block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, ExprLike, Load, Var, cast, const, int_const, select
from tilelang.ir.stmt import CallStmt, If, ParallelLoop
from tilelang.ir.visit import Rewriter
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.calls import inside_kernel, rank_in_cluster
from tilelang.language.copies import steering
from tilelang.language.loops import access_width, loop_fragment
from tilelang.language.operators import emit_op, plain_int
from tilelang.language.regions import Operand, align
from tilelang.language.stage import Hints, definition
from tilelang.language.threads import linear_thread
from tilelang.ops.copy import Copy
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cluster import cluster_store, mbarrier_arrive_remote

__all__ = [
    "copy_cluster",
]


@api
def copy_cluster(
    src: Operand,
    dst: Operand,
    *,
    dst_block: ExprLike | None = None,
    cluster_mask: int | None = None,
    remote_barrier: Barrier | None = None,
    eviction_policy: str | None = None,
    coalesced_width: int | None = None,
    annotations: Mapping[str, object] | None = None,
    loop_layout: object = None,
) -> None:
    """Copies a tile to other blocks of the cluster: from global memory to several, or from shared memory to one.

    With `dst_block`, the tile goes from shared memory to the same buffer of that block. `remote_barrier` is a barrier
    of that block, which counts one arrival when the tile is there; without one, it is there after `T.cluster_sync`.
    `T.cluster_sync` is needed before the copy, and before a block exits whose memory others still write.

    With `cluster_mask`, the blocks of the mask receive the tile of the one of lowest rank; it is complete when the
    statement is done. Without either option it is `T.copy`.

    Shapes: as of `T.copy`.

    Args:
        src: What is read.
        dst: What is written.
        dst_block: The rank of a block in the cluster.
        cluster_mask: The blocks that receive a tile of global memory, one bit for each rank.
        remote_barrier: `bar[i]` of `T.alloc_cluster_barrier`, with `dst_block` only.
        eviction_policy: As of `T.copy`.
        coalesced_width: As of `T.copy`.
        annotations: A dict of the same options, which win over the keywords.
        loop_layout: As of `T.copy`, with `dst_block` only.

    Raises:
        ProgramValueError: The extents do not fit, or options do not go together.
        ProgramError: The sides are in other memories, or the cluster has no such blocks.

    Example:
        `T.copy_cluster(S, R, dst_block=rank ^ 1, remote_barrier=full)`
    """
    what = "T.copy_cluster"
    inside_kernel(what)
    given = steering(
        what,
        annotations,
        dst_block=dst_block,
        cluster_mask=cluster_mask,
        remote_barrier=remote_barrier,
        eviction_policy=eviction_policy,
        coalesced_width=coalesced_width,
        loop_layout=loop_layout,
    )
    block, mask = given["dst_block"], given["cluster_mask"]
    if block is not None and mask is not None:
        raise ProgramValueError(f"{what}: dst_block and cluster_mask do not go together", hint="leave one of them out")
    for name in ("remote_barrier", "loop_layout"):
        if given[name] is not None and block is None:
            raise ProgramValueError(f"{what}: {name} goes with dst_block only", hint=f"leave {name} out")
    width, layout = access_width(what, given["coalesced_width"]), loop_fragment(what, given["loop_layout"])
    source, target = align(src, dst, what)
    if block is not None:
        _check_scopes(what, source, target, (Scope.SHARED, Scope.SHARED), "dst_block")
        _push(what, source, target, rank_in_cluster(what, block), given["remote_barrier"], width, layout)  # type: ignore[arg-type]
        return
    if mask is not None:
        _check_scopes(what, source, target, (Scope.GLOBAL, Scope.SHARED), "cluster_mask")
        source = source_of_lowest_rank(source, multicast_mask(what, mask))
    emit_op(Copy(source, target, coalesced_width=width, eviction=given["eviction_policy"]))  # type: ignore[arg-type]


def _push(
    what: str,
    source: Region,
    target: Region,
    rank: Expr,
    barrier: Barrier | None,
    width: int | None,
    layout: object,
) -> None:
    """Stores the elements of a tile to another block, then arrives at a barrier there."""
    stager, _ = inside_kernel(what)
    axes = [[d for d, extent in enumerate(side.extent) if int_const(extent) != 1] for side in (source, target)]
    variables = tuple(Var(f"i{d}", INT32, index=True) for d in range(len(axes[0])))
    places = []
    for side, along in zip((source, target), axes, strict=True):
        start = list(side.start)
        for axis, var in zip(along, variables, strict=True):
            start[axis] = start[axis] + var
        places.append(tuple(start))
    into = Region(target.buffer, places[1], tuple(const(1, INT32) for _ in places[1]))
    value = cast(Load(source.buffer, places[0], source.dtype), target.dtype)
    store = CallStmt(cluster_store(target.dtype), (into, rank, value), (), (into,), written=what, loc=stager.loc)
    extents = tuple(source.extent[axis] for axis in axes[0])
    if variables:
        stager.emit(ParallelLoop(variables, extents, as_body([store]), width, layout))  # type: ignore[arg-type]
    counted = None if barrier is None else barrier_region(what, barrier)
    thread = linear_thread(what)
    if not variables:
        stager.emit(If(thread == 0, as_body([store])))
    if counted is not None:
        stager.emit(CallStmt(SYNC_THREADS, (), written=what))  # one arrives for all
        arrive = CallStmt(mbarrier_arrive_remote(release=True), (counted, rank), written=what, loc=stager.loc)
        stager.emit(If(thread == 0, as_body([arrive])))


def _check_scopes(what: str, source: Region, target: Region, scopes: tuple[Scope, Scope], option: str) -> None:
    if (source.buffer.scope, target.buffer.scope) != scopes:
        raise ProgramError(
            f"{what}: with {option} a tile goes from {scopes[0].value} to {scopes[1].value} memory, but this one from "
            f"'{source.buffer.name}' ({source.buffer.scope.value}) to '{target.buffer.name}' "
            f"({target.buffer.scope.value})",
            hint=f"leave {option} out",
        )


def multicast_mask(what: str, cluster_mask: object) -> int:
    """The checked option `cluster_mask`.

    Raises:
        ProgramError: It is no number, or names blocks that the cluster does not have.
    """
    blocks = math.prod(inside_kernel(what)[1].cluster)
    mask = plain_int(what, "cluster_mask", cluster_mask)
    if not 0 < mask < 1 << blocks:
        raise ProgramValueError(
            f"{what}: cluster_mask is {mask:#b}, but the bits of a cluster of {blocks} are 1 to {(1 << blocks) - 1:#b}",
            hint="name the blocks that shall have the tile" if blocks > 1 else "write T.Kernel(..., cluster_dims=2)",
        )
    return mask


def source_of_lowest_rank(source: Region, mask: int) -> Region:
    """The region as the block of lowest rank in the mask evaluates it; unchanged in blocks outside of the mask."""
    hints = inside_kernel("cluster_mask")[1]
    rank, names = _rank(hints), {}
    named = ((const(mask, INT32) >> cast(rank, INT32)) & 1) == 1
    everywhere = mask == (1 << math.prod(hints.cluster)) - 1
    place = (mask & -mask).bit_length() - 1
    for var, size in zip(hints.block_vars, hints.cluster, strict=False):
        if size > 1:
            lowest = var - var % size + place % size
            names[var] = lowest if everywhere else select(named, lowest, var)
        place //= size
    there = _InBlock(names)
    return Region(source.buffer, tuple(map(there.expr, source.start)), source.extent)


def _rank(hints: Hints) -> Expr:
    """The number of the executing block in its cluster, x running fastest."""
    rank: Expr = const(0, INT32)
    step = 1
    for var, size in zip(hints.block_vars, hints.cluster, strict=False):
        rank = rank + var % size * step
        step *= size
    return rank


class _InBlock(Rewriter):
    """Replaces the block indices in an expression by those of another block."""

    def __init__(self, names: Mapping[Var, Expr]) -> None:
        self._names = names

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Var):
            return self.rebuild_expr(node)
        if node in self._names:
            return self._names[node]
        meaning = definition(node)
        there = None if meaning is None else self.expr(meaning)
        return node if there is None or there is meaning else there
