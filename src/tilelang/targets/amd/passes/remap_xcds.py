"""Remaps the blocks of gemms to dies (XCDs), so that blocks with neighboring tiles share the L2 of their die.

Takes a tile-level function; a launch with gemms and constant extents gets new block indices, from which its own are
computed at the start of the block. The hardware assigns blocks to XCDs round-robin, by their linear index, x fastest;
after remapping, each XCD has consecutive ones. Invariant: the map of indices is a bijection of the grid, and its values
are provably in range.

Source: AMD Instinct MI300X Workload Optimization, "Programming MI300X with multiple XCDs"; AMD CDNA 3 white paper.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Launch, Seq
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.rasterize_grid import Names, bound, smallest
from tilelang.targets.amd.machines import XCDS, Feature

_NAMES = ("start_x", "start_y", "start_z")
_MAX_BLOCKS = 2**31  # blocks that have a linear index of 32 bits


def remapped(launch: Launch) -> Launch:
    """The launch with its blocks remapped, if it has gemms and tiles in two dimensions at least."""
    extents = [int_const(extent) or 0 for extent in launch.grid]
    total = math.prod(extents)
    if len([extent for extent in extents if extent > 1]) < 2 or not XCDS < total < _MAX_BLOCKS:
        return launch
    if not any(isinstance(stmt, Gemm) for stmt in walk(launch.body)):
        return launch
    fresh = tuple(Var(name, INT32, index=True) for name, _ in zip(_NAMES, extents, strict=False))
    name = Names(launch.loc)
    started: Expr = fresh[-1]
    for var, extent in zip(fresh[-2::-1], extents[-2::-1], strict=True):
        started = var + started * extent
    started = name("started", started)
    each, more = divmod(total, XCDS)  # blocks of an XCD; some have one more
    xcd = started % XCDS
    before = xcd * each if not more else xcd * each + smallest(xcd, const(more, INT32))
    number: Expr = name("block", smallest(before + started // XCDS, const(total - 1, INT32)))
    indices: list[Expr] = []
    for extent in extents[:-1]:
        indices.append(number % extent)
        number = number // extent
    indices.append(smallest(number, const(extents[-1] - 1, INT32)))
    body = (*name.binds, *bound(launch.block_vars, indices, launch.loc), *statements_of(launch.body))
    return dataclasses.replace(launch, block_vars=fresh, body=Seq(body, loc=launch.body.loc))


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    if not context.target.has(Feature.L2_PER_XCD):
        return func
    return with_launches(func, remapped)


PASS = Pass(
    "remap_xcds", _run, Level.TILE, Level.TILE,
    requires=(Property.GRID_RASTERIZED, Property.OPERATORS_UNEXPANDED),
)  # fmt: skip
