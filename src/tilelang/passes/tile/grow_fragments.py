"""Grows fragments that parallel loops index beyond their extent.

Takes a tile-level function; a fragment that a `T.Parallel` variable indexes beyond its extent gets as many elements as
the largest index requires, with a warning, where the index counts iterations and does not come from data. Operators on
the whole of it keep the extents of its allocation. Invariant: a function without such accesses is returned unchanged.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.arith.domain import of_function
from tilelang.arith.interval import bounds
from tilelang.errors import Note, warn
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, Launch, ParallelLoop, Stmt
from tilelang.ir.visit import loads_of, substitute_stmt, variables_of, walk
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property


def grow_fragments(func: PrimFunc) -> PrimFunc:
    """The function with fragments that contain every element that parallel loops access."""
    if not any(isinstance(stmt, ParallelLoop) for stmt in walk(func.body)):
        return func

    def step(launch: Launch) -> Stmt:
        grown = _grown(func, launch)
        return launch if not grown else dataclasses.replace(launch, body=substitute_stmt(launch.body, {}, grown))

    return with_launches(func, step)


def _grown(func: PrimFunc, launch: Launch) -> dict[Buffer, Buffer]:
    """A larger fragment for each one that is indexed beyond its extent."""
    fixed = {buffer for buffer, _ in launch.hints.layouts}
    domain = of_function(dataclasses.replace(func, attributes=())).with_extents(launch.block_vars, launch.grid)
    reached: dict[Buffer, dict[int, int]] = {}
    for access in accesses(launch.body).all:
        buffer = access.buffer
        if buffer.scope is not Scope.FRAGMENT or access.extent is not None or buffer in fixed:
            continue
        if buffer.view_of is not None:
            continue
        parallel: set[Var] = set()
        counted = set(launch.block_vars)
        for loop in access.context.loops():
            if isinstance(loop, ParallelLoop):
                parallel.update(loop.vars)
            elif isinstance(loop, For):
                counted.add(loop.var)
        for axis, (index, extent) in enumerate(zip(access.start, buffer.shape, strict=True)):
            # of data and scalars the bounds are those of their dtype, which say nothing of what is accessed
            if loads_of(index) or parallel.isdisjoint(used := variables_of(index)) or not used <= parallel | counted:
                continue
            last, size = bounds(index, access.context.domain(domain)).high, int_const(extent)
            if last is None or size is None or last < max(size, reached.get(buffer, {}).get(axis, 0)):
                continue
            reached.setdefault(buffer, {})[axis] = last + 1
            _warn(buffer, axis, size, last, access.stmt)
    return {buffer: _with_extents(buffer, extents) for buffer, extents in reached.items()}


def _with_extents(buffer: Buffer, extents: dict[int, int]) -> Buffer:
    shape = tuple(
        const(extents[axis], extent.dtype) if axis in extents else extent for axis, extent in enumerate(buffer.shape)
    )
    return dataclasses.replace(buffer, shape=shape)


def _warn(buffer: Buffer, axis: int, size: int, last: int, stmt: Stmt) -> None:
    warn(
        f"'{buffer.name}': index {last} is beyond dimension {axis}, whose extent is {size}: the fragment grows",
        stmt.loc,
        notes=(Note(f"'{buffer.name}' is allocated here", buffer.loc),) if buffer.loc.file else (),
        hint=f"allocate it with {last + 1} elements along dimension {axis}, if that is meant",
    )


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return grow_fragments(func)


PASS = Pass(
    "grow_fragments", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN,),
    establishes=(Property.FRAGMENTS_COVER_LOOPS,),
)
