"""Demotes fragments that cannot be distributed over the registers of threads to shared memory.

Takes a tile-level function, gives one in which every `FRAGMENT` buffer is accessed only by tile operators, by parallel
loops of constant extents whose subscripts are digit maps, and by scalar code if each thread can hold all of it, and all
this by the block or by one thread group; and in which no `LOCAL` buffer is subscripted by variables of a parallel loop
around its allocation. Short serial loops around parallel ones are unrolled where their variable subscripts a tile, so
that the subscript is a register number. Invariant: shared memory is always legal, so every fragment that is not proven
distributable is demoted; the reason is noted in the plan.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Mapping

from tilelang.analysis.divergence import divergence
from tilelang.analysis.parallel_legality import parallel_legality
from tilelang.analysis.thread_groups import ThreadGroups
from tilelang.analysis.tile_uses import NestUse, TileUses, Uses, static_extents, tile_uses
from tilelang.analysis.unrolled_loops import subscripting
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, For, ForKind, Launch, ParallelLoop, Seq, Stmt
from tilelang.ir.visit import Rewriter, accessed_buffers, walk, walk_expr, without
from tilelang.layout.digits import DigitMap, NotDigitMap
from tilelang.layout.propagate import reshape_map
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.loops import move, scratch
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.transforms.convert_layouts import replaced
from tilelang.transforms.mask_nests import masked_over_fragment

_MAX_REPLICATED = 16
"""Largest number of elements of a fragment that may be replicated in every thread for access by scalar code."""

_MAX_ITERATION_GROWTH = 64
"""Largest growth of the number of iterations where a loop over a part of a fragment is masked over all of it."""

_IN_REGISTERS = (Scope.FRAGMENT, Scope.LOCAL)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: _demoted(func, launch))


def demotion_reasons(func: PrimFunc, launch: Launch) -> dict[Buffer, str]:
    """The reason to demote each fragment to shared memory; empty for those that stay distributed.

    Args:
        func: The function around the launch.
        launch: A launch, after `expand_to_loops` and `flatten_parallel`.
    """
    return _reasons_by_tile(func, _with_masked_loops(func, _unrolled(launch, subscripting(launch))))


def _reasons_by_tile(func: PrimFunc, launch: Launch) -> dict[Buffer, str]:
    checker = _Distributability(tile_uses(func, launch, _IN_REGISTERS))
    groups = ThreadGroups(launch)
    private = {*_private(launch), *_per_thread_arrays(launch)}
    tiles = [buffer for buffer in _storages(launch) if buffer not in private]
    tiles = [b for b in tiles if b.scope is Scope.FRAGMENT or checker.is_used_across_iterations(b)]
    return {buffer: _used_by_several(groups, buffer) or checker.refusal(buffer) for buffer in tiles}


def _without_unused_views(func: PrimFunc, launch: Launch) -> Launch:
    """The launch without unused views of tiles in registers, which would constrain layouts."""
    uses = tile_uses(func, launch, _IN_REGISTERS).of
    names = [s for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.view_of is not None]
    viewed = {name.buffer.view_of for name in names}
    unused = {s for s in names if s.buffer.scope in _IN_REGISTERS and s.buffer not in uses and s.buffer not in viewed}
    return dataclasses.replace(launch, body=without(launch.body, unused)) if unused else launch


def _demoted(func: PrimFunc, launch: Launch) -> Launch:
    launch = _without_unused_views(func, launch)
    loops = subscripting(launch)
    reasons = _reasons_by_tile(func, _with_masked_loops(func, _unrolled(launch, loops)))
    distributed = {buffer for buffer, reason in reasons.items() if not reason}
    launch = _unrolled(launch, [loop for loop, tiles in loops.items() if not distributed.isdisjoint(tiles)])
    launch = _with_masked_loops(func, launch, distributed)
    return with_scopes(launch, reasons, dict.fromkeys(_private(launch), Scope.LOCAL))


def _with_masked_loops(func: PrimFunc, launch: Launch, tiles: Collection[Buffer] | None = None) -> Launch:
    """The launch with loops over a part of a fragment, where the subscript is no digit map, masked over all of it."""
    uses = tile_uses(func, launch, (Scope.FRAGMENT,))
    new: dict[ParallelLoop, ParallelLoop] = {}
    for buffer, of in uses.of.items():
        if tiles is not None and buffer.storage not in tiles:
            continue
        for use in of.nests:
            if use.map is None and use.nest not in new:
                uses_of_buffer = [other for other in of.nests if other.nest is use.nest]
                accessed = [access for access in uses.found.all if use.nest in access.context.loops()]
                masked = masked_over_fragment(use.nest, uses_of_buffer, accessed)
                if masked is not None and _iterations(masked) <= _MAX_ITERATION_GROWTH * _iterations(use.nest):
                    new[use.nest] = masked
    return dataclasses.replace(launch, body=replaced(launch.body, new)) if new else launch


def with_scopes(launch: Launch, reasons: Mapping[Buffer, str], scopes: Mapping[Buffer, Scope] | None = None) -> Launch:
    """The launch with tiles in shared memory where there is a reason, in registers where that is empty.

    Args:
        launch: The launch.
        reasons: For tiles that are no views, the reason to demote them.
        scopes: New scopes of other tiles.
    """
    scopes = dict(scopes or {})
    scopes |= {buffer: Scope.SHARED if reason else Scope.FRAGMENT for buffer, reason in reasons.items()}
    notes = [
        Note(f"'{buffer.name}' is kept in shared memory: {reason}", buffer.loc)
        for buffer, reason in reasons.items()
        if reason
    ]
    if all(scope is buffer.scope for buffer, scope in scopes.items()):
        return launch
    move_to = _MoveTo(scopes)
    body = move_to.visit(launch.body) or Seq((), loc=launch.loc)
    layouts = tuple(
        (move_to.buffer(buffer), layout)
        for buffer, layout in launch.hints.layouts
        if move_to.buffer(buffer).scope is Scope.FRAGMENT or not isinstance(layout, Fragment)
    )
    hints = dataclasses.replace(launch.hints, layouts=layouts)
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    return dataclasses.replace(launch, body=body, hints=hints, plan=plan)


def _unrolled(launch: Launch, loops: Collection[For]) -> Launch:
    """The launch with some of its loops unrolled."""
    body = _Unroll(loops).visit(launch.body) if loops else launch.body
    return dataclasses.replace(launch, body=body or Seq((), loc=launch.loc))


class _Unroll(Rewriter):
    def __init__(self, loops: Collection[For]) -> None:
        self._loops = loops

    def stmt(self, node: Stmt) -> Stmt | None:
        new = self.rebuild_stmt(node)
        return dataclasses.replace(new, kind=ForKind.UNROLLED) if isinstance(new, For) and node in self._loops else new


def _iterations(nest: ParallelLoop) -> int:
    return math.prod(static_extents(nest) or (0,))


def _used_by_several(groups: ThreadGroups, buffer: Buffer) -> str:
    """The reason if several groups of threads use a tile; empty otherwise."""
    users = groups.users(buffer)
    if len(users) < 2:
        return ""
    others = "the rest of the block" if groups.block in users else "another group"
    return f"a group of threads and {others} use it"


def _storages(launch: Launch) -> list[Buffer]:
    """The tiles in registers that are no views, in order of allocation."""
    allocated = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.view_of is None]
    return [buffer for buffer in allocated if buffer.scope in _IN_REGISTERS]


def _private(launch: Launch) -> Iterable[Buffer]:
    """Tiles allocated inside of an iteration of a parallel loop, of any scope: they are private to its thread."""
    for nest in walk(launch.body):
        if isinstance(nest, ParallelLoop):
            for stmt in walk(nest.body):
                if isinstance(stmt, Alloc) and stmt.buffer.scope in (Scope.FRAGMENT, Scope.SHARED):
                    yield stmt.buffer


def _per_thread_arrays(launch: Launch) -> Iterable[Buffer]:
    """Arrays that single threads access, unless a distributed loop accesses them together with fragments."""
    if not any(buffer.scope is Scope.LOCAL for buffer in _storages(launch)):
        return []
    own = divergence(launch)
    arrays: dict[Buffer, None] = {}
    in_distributed_loops: set[Buffer] = set()
    for nest in walk(launch.body):
        if isinstance(nest, ParallelLoop):
            accessed = [buffer.storage for stmt in walk(nest) for buffer in accessed_buffers(stmt)]
            if own.runs_per_thread(nest):
                arrays.update(dict.fromkeys(buffer for buffer in accessed if buffer.scope is Scope.LOCAL))
            elif any(buffer.scope is Scope.FRAGMENT for buffer in accessed):
                in_distributed_loops.update(accessed)
    return [buffer for buffer in arrays if buffer not in in_distributed_loops]


class _Distributability:
    """Decides which tiles can be distributed over threads."""

    def __init__(self, uses: TileUses) -> None:
        self._uses = uses
        self._of: dict[Buffer, list[tuple[Buffer, Uses]]] = {}
        for buffer, of in uses.of.items():
            self._of.setdefault(buffer.storage, []).append((buffer, of))
        self._in_order: dict[ParallelLoop, str] = {}

    def is_used_across_iterations(self, storage: Buffer) -> bool:
        """Whether variables of a parallel loop subscript it, or iterations of one update it atomically."""
        uses = [use for _, of in self._of.get(storage, ()) for use in of.nests]
        return any(_uses_loop_variable(use) or isinstance(use.access.stmt, Atomic) for use in uses)

    def refusal(self, storage: Buffer) -> str:
        """The reason why a tile cannot be distributed over threads; empty if it can."""
        names = self._of.get(storage, [])
        for buffer, _ in names:
            if buffer is not storage and view_maps(buffer) is None:
                return f"no layout fits its view '{buffer.name}'"
        everywhere = any(of.scalar or of.calls for _, of in names)  # each thread must hold all of it
        for _, of in names:
            reason = self._refusal(storage, of, everywhere=everywhere)
            if reason:
                return reason
        return ""

    def _refusal(self, storage: Buffer, of: Uses, *, everywhere: bool) -> str:
        if everywhere and storage.scope is Scope.FRAGMENT and math.prod(storage.static_shape or (0,)) > _MAX_REPLICATED:
            return "scalar code accesses its elements"
        statements = [access.stmt for access in (*of.scalar, *(use.access for use in of.nests))]
        if any(isinstance(stmt, Atomic) and stmt.buffer.storage is storage for stmt in statements):
            return "it is updated atomically"
        for use in of.nests:
            if static_extents(use.nest) is None:
                return "a parallel loop that uses it has extents that are not constant"
            if use.map is None and (use.access.write or not everywhere):
                return "a subscript of it does not consist of digits of the loop's variables"
            if use.access.write and use.access.update is None and use.map is not None and use.map.forgets:
                return "several iterations store one element of it"
            reason = self._serial_reason(use.nest)
            if reason:
                return reason
        return ""

    def _serial_reason(self, nest: ParallelLoop) -> str:
        """The reason why the iterations of a loop must run serially; empty if they may not."""
        if nest not in self._in_order:
            used_outside = functools.partial(self._is_used_outside, nest)
            self._in_order[nest] = parallel_legality(nest, self._uses.nests[nest], used_outside).reason
        return self._in_order[nest]

    def _is_used_outside(self, nest: ParallelLoop, buffer: Buffer) -> bool:
        reads = (access for access in self._uses.found.reads if access.buffer.storage is buffer.storage)
        return any(nest not in access.context.loops() for access in reads)


def view_maps(view: Buffer) -> tuple[DigitMap, DigitMap] | None:
    """Digit maps from a storage's indices to those of a view and back; None if the view splits elements or rows."""
    own, other, storage = view.dtype, view.storage.dtype, view.storage
    if view.static_shape is None or storage.static_shape is None:
        return None
    if own is not other and (own.bits != other.bits or own.lanes != other.lanes or own.storage_bytes * 8 != own.bits):
        return None
    try:
        to_view = reshape_map(storage.static_shape, view.static_shape)
        return to_view, reshape_map(view.static_shape, storage.static_shape)
    except NotDigitMap:
        return None


def _uses_loop_variable(use: NestUse) -> bool:
    """Whether a subscript uses a variable of the nest."""
    variables = frozenset(use.nest.vars)
    return any(node in variables for e in use.access.start for node in walk_expr(e) if isinstance(node, Var))


class _MoveTo(Rewriter):
    """Changes scopes of buffers; gemms and cluster sums then get operands in registers by copies."""

    def __init__(self, scopes: dict[Buffer, Scope]) -> None:
        self._scopes = scopes
        self._new: dict[Buffer, Buffer] = {}

    def buffer(self, node: Buffer) -> Buffer:
        if node not in self._new:
            scope = self._scopes.get(node.storage, node.scope)
            base = None if node.view_of is None else self.buffer(node.view_of)
            same = scope is node.scope and base is node.view_of
            self._new[node] = node if same else dataclasses.replace(node, scope=scope, view_of=base)
        return self._new[node]

    def stmt(self, node: Stmt) -> Stmt | None:
        new = self.rebuild_stmt(node)
        if isinstance(new, Gemm) and isinstance(node, Gemm):
            was, now = node.c.buffer.scope, new.c.buffer.scope
            if was is Scope.FRAGMENT and now is Scope.SHARED and new.choice:
                return _through_registers(new)
        if isinstance(new, ClusterSum):
            return _sum_through_registers(new)
        return _of_fragments(new) if isinstance(new, GemmWait) else new


def _through_registers(op: Gemm) -> Stmt:
    """A gemm with its accumulator in shared memory, via a fragment; synchronous, as the result is stored at once."""
    build = Builder(op.loc)
    sums = _fragment_for(op.c, build)
    if not op.always_clears:
        move(build, op.c, sums)
    build.emit(dataclasses.replace(op, c=sums, wait=0))
    move(build, sums, op.c)
    return Seq(tuple(build.statements), loc=op.loc)


def _of_fragments(op: GemmWait) -> GemmWait:
    """A wait without tiles in shared memory, for which nothing is in flight."""
    results, computed = (
        tuple(region for region in regions if region.buffer.scope is Scope.FRAGMENT)
        for regions in (op.results, op.computed)
    )
    return dataclasses.replace(op, results=results, computed=computed)


def _sum_through_registers(op: ClusterSum) -> Stmt:
    """A sum over a cluster with operands in shared memory, via fragments."""
    build = Builder(op.loc)
    sums, own = op.sums, op.own
    if op.sums.buffer.scope is Scope.SHARED:
        sums = _fragment_for(op.sums, build)
        move(build, op.sums, sums)
    if op.own.buffer.scope is Scope.SHARED:
        own = sums if op.own.buffer is op.sums.buffer else _fragment_for(op.own, build)
    build.emit(dataclasses.replace(op, sums=sums, own=own))
    if own is not op.own:
        move(build, own, op.own)
    return Seq(tuple(build.statements), loc=op.loc)


def _fragment_for(region: Region, build: Builder) -> Region:
    """A new fragment for a region in shared memory."""
    fragment = scratch(build, f"{region.buffer.name}_sums", region.static_extent or (), region.dtype, Scope.FRAGMENT)
    return Region(fragment.buffer, fragment.start, fragment.extent)


PASS = Pass(
    "demote_fragments", _run, Level.TILE, Level.TILE,
    requires=(Property.PARALLEL_LOOPS_FLAT, Property.THREAD_GROUPS_DETECTED),
    establishes=(Property.FRAGMENTS_DISTRIBUTABLE,),
)
