"""Uses of tiles by parallel loops, tile operators and scalar code.

Takes a launch, gives `TileUses`. Invariant: every access to a buffer of the given scopes is listed, except for buffers
that an iteration of a parallel loop allocates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import cached_property

from tilelang.analysis.access_maps import AccessMap, access_map
from tilelang.analysis.accesses import Access, Accesses, accesses
from tilelang.analysis.unrolled_loops import is_unrolled, values
from tilelang.arith.domain import Domain, of_function
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, int_const
from tilelang.ir.func import PrimFunc
from tilelang.ir.sequences import memoized_on_sequence
from tilelang.ir.stmt import Alloc, CallStmt, For, Launch, ParallelLoop, TileOp
from tilelang.ir.visit import walk
from tilelang.records import record


@record(eq=False)
class NestUse:
    """An access in a parallel loop.

    Attributes:
        access: The access.
        nest: The outermost parallel loop around it.
        domain: Facts that hold in the whole launch.
    """

    access: Access
    nest: ParallelLoop
    domain: Domain

    @cached_property
    def map(self) -> AccessMap | None:
        """The access map; None if it is no digit map."""
        access = self.access
        extents, shape = static_extents(self.nest), access.buffer.static_shape
        if extents is None or shape is None or access.extent is not None:
            return None
        # a condition that fixes a variable would hide that it selects the element
        domain = access.context.named(self.domain)
        return access_map(access.start, self.nest.vars, extents, shape, domain, _walked(access, self.nest))


@record(frozen=False, slots=True)
class Uses:
    """The uses of one buffer, in program order.

    Attributes:
        nests: In parallel loops.
        operators: By tile operators.
        calls: By calls of instructions.
        scalar: In scalar code: subscripts, conditions and values outside of all of these.
    """

    nests: list[NestUse] = field(default_factory=list)
    operators: list[Access] = field(default_factory=list)
    calls: list[Access] = field(default_factory=list)
    scalar: list[Access] = field(default_factory=list)


@record(slots=True)
class TileUses:
    """The uses of the tiles of a launch.

    Attributes:
        found: All accesses of the launch.
        domain: Facts that hold in the whole launch.
        of: The uses of each buffer, in order of first use.
        nests: The outermost parallel loops in program order, with the facts in their bodies.
    """

    found: Accesses
    domain: Domain
    of: Mapping[Buffer, Uses]
    nests: Mapping[ParallelLoop, Domain]


def static_extents(nest: ParallelLoop) -> tuple[int, ...] | None:
    """The extents of a loop nest as positive integers, or None."""
    extents = tuple(int_const(extent) or 0 for extent in nest.extents)
    return extents if all(extent > 0 for extent in extents) else None


def around_launch(func: PrimFunc, launch: Launch) -> Domain:
    """The facts that hold in the body of a launch."""
    domain = of_function(func)
    for var, extent in zip(launch.block_vars, launch.grid, strict=True):
        domain = domain.with_loop(var, 0, extent)
    if launch.thread is not None:
        domain = domain.with_range(launch.thread, 0, launch.num_threads - 1)
    return domain


def tile_uses(func: PrimFunc, launch: Launch, scopes: Collection[Scope]) -> TileUses:
    """The uses of the buffers of some scopes."""
    facts = (func.params, func.symbols, func.assumptions, func.attributes)
    inputs = (*facts, launch.block_vars, launch.grid, launch.thread, launch.threads)
    every = memoized_on_sequence(launch.body, "_tile_uses", inputs, lambda: _all_uses(func, launch))
    return dataclasses.replace(every, of={buffer: uses for buffer, uses in every.of.items() if buffer.scope in scopes})


def _all_uses(func: PrimFunc, launch: Launch) -> TileUses:
    domain = around_launch(func, launch)
    found = accesses(launch.body)
    nests: dict[ParallelLoop, Domain] = {}
    private: dict[ParallelLoop, frozenset[Buffer]] = {}
    for loop, context in found.loops:
        if isinstance(loop, ParallelLoop) and not any(isinstance(o, ParallelLoop) for o in context.loops()):
            inside = context.domain(domain)
            for var, extent in zip(loop.vars, loop.extents, strict=True):
                inside = inside.with_loop(var, 0, extent)
            nests[loop] = inside
            private[loop] = frozenset(s.buffer for s in walk(loop.body) if isinstance(s, Alloc))
    uses: dict[Buffer, Uses] = {}
    for access in found.all:
        nest = next((loop for loop in access.context.loops() if isinstance(loop, ParallelLoop)), None)
        if nest is not None and access.buffer.storage in private[nest]:
            continue
        of = uses.setdefault(access.buffer, Uses())
        if nest is not None:
            of.nests.append(NestUse(access, nest, domain))
        elif isinstance(access.stmt, TileOp) and access.extent is not None:
            of.operators.append(access)
        elif isinstance(access.stmt, CallStmt) and access.extent is not None:
            of.calls.append(access)
        else:
            of.scalar.append(access)
    return TileUses(found, domain, uses, nests)


def _walked(access: Access, nest: ParallelLoop) -> set[Var]:
    """The variables of constant-trip loops between a nest and an access in it, and of unrolled loops around it."""
    loops = access.context.loops()
    place = loops.index(nest)
    around = {loop.var for loop in loops[:place] if isinstance(loop, For) and is_unrolled(loop)}
    return around | {loop.var for loop in loops[place + 1 :] if isinstance(loop, For) and values(loop) is not None}
