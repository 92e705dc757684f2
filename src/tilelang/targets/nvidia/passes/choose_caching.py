"""Decides what the L2 cache of a GPU shall keep: not what is read once, but what every block reads again and again.

Takes a tile-level function as `choose_schedule` leaves it; writes `Copy.eviction` where the user left it open.
Invariant: these are hints to the copy engine, so that no result changes; what is hinted is among the notes of the
launch.

A tensor is streamed where each of its tiles is brought once in a whole launch, such as the weights of a product of few
rows. It would only drive out of the cache what others still need there, and what the device was about to write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.analysis.accesses import Access, accesses
from tilelang.arith.affine import Affine, linear_form
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, Launch, Stmt
from tilelang.ir.visit import Rewriter, variables_of, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import trip_count

FIRST, LAST = "evict_first", "evict_last"

_SMALL = 4 * 1024 * 1024  # bytes that the cache holds beside everything else: H100 and H200 have 50 MB of it


def evictions(launch: Launch) -> dict[Copy, str]:
    """How long the cache shall keep what the copies of a launch read, where the program shows it.

    Only tensors that a single copy reads, and that nothing writes, are looked at; and only what products multiply is
    streamed in amounts that matter.
    """
    products = {region.buffer for stmt in walk(launch.body) if isinstance(stmt, Gemm) for region in stmt.reads()}
    extents = dict(zip(launch.block_vars, map(int_const, launch.grid), strict=True))
    many, single = ([var for var, extent in extents.items() if (extent == 1) is one] for one in (False, True))
    touching: dict[Buffer, list[Access]] = {}
    for access in accesses(launch.body).all:
        if access.buffer.scope is Scope.GLOBAL:
            touching.setdefault(access.buffer.storage, []).append(access)
    found: dict[Copy, str] = {}
    for tensor, (access, *others) in touching.items():
        copy, loops = access.stmt, access.context.loops()
        if others or access.write or not isinstance(copy, Copy) or copy.dst.buffer not in products:
            continue
        if not all(isinstance(loop, For) for loop in loops):
            continue
        inner = [loop.var for loop in loops if isinstance(loop, For) and int_const(trip_count(loop)) != 1]
        if _is_streamed(copy, [*many, *inner]):
            found[copy] = FIRST
        elif many and (tensor.bytes or _SMALL + 1) <= _SMALL and _names_only(copy, [*single, *inner]):
            found[copy] = LAST
    return found if FIRST in found.values() else {}


def _is_streamed(copy: Copy, variables: Sequence[Var]) -> bool:
    """Whether a copy reads other elements for all other values of these variables."""
    extents = copy.src.static_extent
    if extents is None:
        return False
    forms = [linear_form(start) for start in copy.src.start]
    return all(any(_steps(form, var, extent) for form, extent in zip(forms, extents, strict=True)) for var in variables)


def _steps(form: Affine | None, var: Var, extent: int) -> bool:
    return form is not None and abs(form.coefficient(var)) >= extent


def _names_only(copy: Copy, variables: Sequence[Var]) -> bool:
    """Whether nothing but these variables tells what a copy reads."""
    return frozenset().union(*map(variables_of, copy.source_indices)) <= frozenset(variables)


def _advised(launch: Launch) -> Launch:
    if launch.plan.schedule is None:  # copies by other threads take no hints: `isa.nvidia.cache_policy` says why
        return launch
    wanted = {copy: kind for copy, kind in evictions(launch).items() if copy.eviction is None}
    if not wanted:
        return launch
    notes = [Note(f"L2 cache: '{copy.src.buffer.name}' {_WORDS[kind]}", copy.loc) for copy, kind in wanted.items()]
    body = _Hinted(wanted).visit(launch.body)
    assert body is not None
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    return dataclasses.replace(launch, body=body, plan=plan)


_WORDS = {
    FIRST: "is read once (evict_first)",
    LAST: "is read by all blocks (evict_last)",
}


class _Hinted(Rewriter):
    def __init__(self, wanted: Mapping[Copy, str]) -> None:
        self._wanted = wanted

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Copy) and node in self._wanted:
            return dataclasses.replace(node, eviction=self._wanted[node])
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    if not context.target.has(Feature.TMA) or not context.options.l2_hints:
        return func
    return with_launches(func, _advised)


PASS = Pass(
    "choose_caching", _run, Level.TILE, Level.TILE,
    requires=(Property.GRID_AS_WRITTEN, Property.SCHEDULE_CHOSEN, Property.OPERATORS_WHOLE),
)
