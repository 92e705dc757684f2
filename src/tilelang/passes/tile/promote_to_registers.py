"""Promotes shared tiles of serial loops to registers where each thread only uses elements that it loads itself.

Takes a tile-level function before lowerings are chosen; shared tiles that a non-pipelined loop fills from global memory
become fragments. Their loads go directly to registers, and the vendor's compiler hoists loads of several iterations,
where a copy to shared memory would be waited for in each. Invariant: every access is a copy of the whole tile or a
parallel loop over the whole tile in which each iteration accesses its own element; no gemm, thread group or view
constrains the layout, so the threads that load elements can be those that use them.
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
from tilelang.passes.tile.demote_fragments import with_scopes

_MAX_BYTES = 128
"""Limit of a tile's bytes per thread: two loads of 16 bytes in each of four iterations."""


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _promoted)


def _promoted(launch: Launch) -> Launch:
    tiles = _candidates(launch)
    if not tiles:
        return launch
    uses: dict[Buffer, list[Access]] = {tile: [] for tile in tiles}
    for access in accesses(launch.body).all:
        if access.buffer.storage in uses:
            uses[access.buffer.storage].append(access)
    found = [tile for tile, of in uses.items() if any(map(_loads, of)) and all(map(_is_elementwise_over, of))]
    return _with_register_budget(with_scopes(launch, {}, dict.fromkeys(found, Scope.FRAGMENT))) if found else launch


def _with_register_budget(launch: Launch) -> Launch:
    """The launch with `min_blocks_per_sm` of at least 1.

    Without it, NVIDIA's compiler limits registers for occupancy and serializes the loads: a matrix-vector product with
    a reducer took 1.15 times as long on an H200.
    """
    hints = launch.hints
    return dataclasses.replace(launch, hints=dataclasses.replace(hints, min_blocks_per_sm=hints.min_blocks_per_sm or 1))


def _candidates(launch: Launch) -> list[Buffer]:
    """The shared tiles that may be promoted: no views, of small size, without a layout or safe value by the user."""
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
    """Whether every thread gets at least one element, and at most `_MAX_BYTES`."""
    size, element = tile.bytes or 0, tile.dtype.storage_bytes
    return tile.dtype.bits >= 8 and threads * element <= size <= threads * _MAX_BYTES


def _loads(access: Access) -> bool:
    """Whether an access copies from global memory in a loop."""
    stmt = access.stmt
    if not access.write or not isinstance(stmt, Copy) or stmt.src.buffer.scope is not Scope.GLOBAL:
        return False
    return any(isinstance(loop, For) and loop.kind is not ForKind.UNROLLED for loop in access.context.loops())


def _is_elementwise_over(access: Access) -> bool:
    """Whether an access is elementwise over the whole tile, outside of pipelined loops."""
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
    """Whether a copy is of the whole tile, and may be lowered to plain loads and stores."""
    options = (copy.barrier, copy.multicast_mask, copy.part, copy.layout, copy.leaders)
    if copy.request or copy.is_async or any(each is not None for each in options):
        return False
    regions = [region for region in (copy.src, copy.dst) if region.buffer is tile]
    return len(regions) == 1 and is_whole(regions[0])


PASS = Pass(
    "promote_to_registers", _run, Level.TILE, Level.TILE,
    requires=(Property.THREAD_GROUPS_DETECTED, Property.WARPS_SPECIALIZED, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.TILES_PROMOTED,),
)
