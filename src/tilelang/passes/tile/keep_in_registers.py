"""Keeps tiles of serial loops in registers where nobody needs elements that other threads have loaded.

Takes a tile-level function before lowerings are chosen; tiles in shared memory that a loop which nothing pipelines
fills from global memory become fragments. Loads then go straight to registers, and the assembler starts those of
several iterations at once, where a copy into shared memory would be waited for in each. Invariant: every use goes over
the tile as it lies, whole copies and parallel loops over all of it, each iteration with its own element; and no
product, group of threads or view fixes who holds what, so that the threads that load elements may be those that use
them.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.tile_uses import static_extents
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind, If, Launch, ParallelLoop, While
from tilelang.ir.visit import walk
from tilelang.lowering.regions import is_whole
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.demote_fragments import moved

_MOST_BYTES = 128
"""Of such a tile, per thread: two loads of 16 bytes in each of four iterations."""


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _kept)


def _kept(launch: Launch) -> Launch:
    tiles = _candidates(launch)
    if not tiles:
        return launch
    uses: dict[Buffer, list[Access]] = {tile: [] for tile in tiles}
    for access in accesses(launch.body).all:
        if access.buffer.storage in uses:
            uses[access.buffer.storage].append(access)
    found = [tile for tile, of in uses.items() if any(map(_loads, of)) and all(map(_is_of_own_elements, of))]
    return _loading_together(moved(launch, {}, dict.fromkeys(found, Scope.FRAGMENT))) if found else launch


def _loading_together(launch: Launch) -> Launch:
    """The launch with as many registers as its loads need.

    Without a number of blocks ptxas saves registers for more of them, and loads one by one: on an H200 a matrix-vector
    product by a reducer took 1.15 times as long.
    """
    hints = launch.hints
    return dataclasses.replace(launch, hints=dataclasses.replace(hints, min_blocks_per_sm=hints.min_blocks_per_sm or 1))


def _candidates(launch: Launch) -> list[Buffer]:
    """The tiles of shared memory that threads may hold: one name each, not too large, lying as suits the compiler."""
    stmts = list(walk(launch.body))
    if any(isinstance(s, Gemm | ClusterSum) or isinstance(s, If) and s.group is not None for s in stmts):
        return []
    allocated = [s.buffer for s in stmts if isinstance(s, Alloc)]
    fixed = {b.storage for b in allocated if b.view_of is not None}
    fixed |= {b.storage for b, _ in (*launch.hints.layouts, *launch.hints.safe_values)}
    return [
        b
        for b in allocated
        if b.scope is Scope.SHARED and b not in fixed and b.strides is None and _fits(b, launch.num_threads)
    ]


def _fits(tile: Buffer, threads: int) -> bool:
    """Whether every thread has some elements, and none too many."""
    size, element = tile.bytes or 0, tile.dtype.storage_bytes
    return tile.dtype.bits >= 8 and threads * element <= size <= threads * _MOST_BYTES


def _loads(access: Access) -> bool:
    """Whether an access copies from global memory in a loop."""
    stmt = access.stmt
    if not access.write or not isinstance(stmt, Copy) or stmt.src.buffer.scope is not Scope.GLOBAL:
        return False
    return any(isinstance(loop, For) and loop.kind is not ForKind.UNROLLED for loop in access.context.loops())


def _is_of_own_elements(access: Access) -> bool:
    """Whether an access goes over a tile element by element, outside of loops that are pipelined."""
    loops = access.context.loops()
    if any(isinstance(loop, While) or isinstance(loop, For) and _is_pipelined(loop) for loop in loops):
        return False
    if isinstance(access.stmt, Copy):
        return access.extent is not None and _is_plain(access.stmt, access.buffer)
    nest = loops[-1] if loops else None
    if not isinstance(nest, ParallelLoop) or access.atomic or access.extent is not None or nest.layout is not None:
        return False
    shape, extents, axis = access.buffer.static_shape, static_extents(nest), 0
    for index, size in zip(access.start, shape or (), strict=True):
        if axis < len(nest.vars) and index is nest.vars[axis] and extents is not None and extents[axis] == size:
            axis += 1
        elif size != 1 or int_const(index) != 0:
            return False
    return axis == len(nest.vars)


def _is_pipelined(loop: For) -> bool:
    spec = loop.pipeline
    return loop.kind is ForKind.PIPELINED and (spec is None or spec.num_stages > 0 or spec.stage is not None)


def _is_plain(copy: Copy, tile: Buffer) -> bool:
    """Whether a copy of all of a tile may be done by loads and stores of any thread."""
    asked = (copy.barrier, copy.multicast_mask, copy.part, copy.layout, copy.leaders)
    if copy.request or copy.is_async or any(each is not None for each in asked):
        return False
    regions = [region for region in (copy.src, copy.dst) if region.buffer is tile]
    return len(regions) == 1 and is_whole(regions[0])


PASS = Pass(
    "keep_in_registers", _run, Level.TILE, Level.TILE,
    requires=(Property.THREAD_GROUPS, Property.WARPS_SPECIALIZED, Property.OPERATORS_WHOLE),
    establishes=(Property.REGISTER_TILES_FOUND,),
)
