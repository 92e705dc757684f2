"""What the warps of a block do to memory when a loop nest has a certain layout, on a sample of warps and values.

Takes an access in a nest and a layout of the nest, gives the coordinates that each lane touches. Invariant: the sample
begins with the first warps and values, which those that follow repeat elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tilelang.analysis.accesses import Access
from tilelang.analysis.memory_patterns import VECTOR_BYTES, strides_of
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.stmt import ParallelLoop
from tilelang.ir.visit import variables_of, walk_expr
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.machine import Machine

SECTOR_BYTES = 32
"""What global memory is read and written by. Source: CUDA C++ Best Practices Guide, "Coalesced Access"."""

_WARPS = 2  # of which the accesses are counted
_VECTORS = 8  # per lane
_FAR = 1 << 16  # elements between rows whose distance is not known


@record(eq=False)
class TileAccess:
    """What a nest does to a tile, on a sample.

    Attributes:
        machine: What executes it.
        places: Coordinates per warp, value and lane; negative where a lane takes no part.
            Shape (warps, values, lanes, rank).
        vector: How many successive values of a lane are neighbors along the last dimension.
        weight: How many such accesses the sample stands for.
        kept: What was computed of it, by what it was computed for.
    """

    machine: Machine
    places: np.ndarray
    vector: int
    weight: float
    kept: dict[int, tuple[object, float]] = field(default_factory=dict)


def tile_access(
    access: Access,
    nest: ParallelLoop,
    layout: Fragment,
    rank: int,
    domain: Domain,
    machine: Machine,
    *,
    copies: bool = True,
) -> TileAccess | None:
    """The coordinates in the last `rank` dimensions that warps touch; None if they depend on data.

    Variables other than the nest's have their smallest values: where they move a tile as a whole, nothing changes.

    Args:
        access: The access.
        nest: The parallel loop around it.
        layout: Of the loop.
        rank: How many of the last dimensions are of interest.
        domain: What is known at the access.
        machine: What executes it.
        copies: Whether threads that repeat what others do take part.
    """
    lanes = machine.warp_size
    values = min(layout.values, layout.value[0].size * _VECTORS if layout.value else 1)
    threads = min(layout.threads, _WARPS * lanes)
    table = layout.table.reshape(layout.threads, layout.values, len(layout.shape))[:threads, :values]
    inside = (table < np.array(layout.shape)).all(axis=-1)
    if not copies:
        inside &= (layout.first_copy(np.arange(threads)) == np.arange(threads))[:, None]
    env = {var: table[..., axis] for axis, var in enumerate(nest.vars)}
    places = np.zeros((*inside.shape, rank), np.int64)
    for axis, index in enumerate(access.start[len(access.start) - rank :]):
        place = _place(index, env, domain)
        if place is None:
            return None
        places[..., axis] = place
    places[~inside] = -1
    if threads % lanes:  # a last warp of which some lanes do not exist
        missing = np.full((lanes - threads % lanes, *places.shape[1:]), -1, np.int64)
        places = np.concatenate([places, missing])
    shaped = places.reshape(len(places) // lanes, lanes, values, rank).transpose(0, 2, 1, 3)
    first = layout.value[0].size if layout.value else 1
    vector = first if _is_vector(shaped, first) else 1
    return TileAccess(machine, shaped, vector, layout.values * layout.threads / (values * threads))


def _place(index: Expr, env: Mapping[Var, np.ndarray], domain: Domain) -> np.ndarray | None:
    known: dict[Var, np.ndarray | int] = dict(env)
    for node in walk_expr(index):
        if isinstance(node, Load):
            return None
        if isinstance(node, Var) and node not in known:
            known[node] = bounds(node, domain).low or 0
    return np.asarray(evaluate(index, known, exact=True))


def _is_vector(places: np.ndarray, size: int) -> bool:
    """Whether successive values are neighbors along the last dimension and begin at a multiple of their number.

    Shapes: places (warps, values, lanes, rank).
    """
    if size == 1 or places.shape[1] % size or not places.shape[-1]:
        return False
    groups = places.reshape(places.shape[0], -1, size, *places.shape[2:])
    last, rest = groups[..., -1], groups[..., :-1]
    outside = np.asarray(last < 0)
    steps = np.asarray(last == last[:, :, :1] + np.arange(size)[:, None]) | outside
    first: np.ndarray = last[:, :, 0]
    aligned = np.asarray(first % size == 0) | (first < 0)
    still = np.asarray(rest == rest[:, :, :1]).all(axis=-1) | outside
    return bool(steps.all() and aligned.all() and still.all())


def sectors_per_byte(
    access: Access, nest: ParallelLoop, layout: Fragment, domain: Domain, machine: Machine
) -> float | None:
    """How many bytes of global memory are moved for each byte that a nest wants; None if that depends on data.

    Threads that repeat what others do are left out. What a warp has read once, it finds in its cache.
    """
    size = access.buffer.dtype.storage_bytes
    sample = tile_access(access, nest, layout, access.buffer.rank, domain, machine, copies=False)
    if sample is None:
        return None
    strides = np.array([int_const(stride) or _FAR * size for stride in strides_of(access.buffer)], np.int64)
    width = min(sample.vector, max(1, VECTOR_BYTES // size))
    first = sample.places[:, ::width]
    inside = (first >= 0).all(axis=-1)
    sectors = np.where(inside, first @ strides * size // SECTOR_BYTES, -1)
    sectors = sectors.reshape(-1, machine.warp_size) if access.write else sectors.reshape(len(sectors), -1)
    ordered = np.sort(sectors, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    touched = int((new & (ordered >= 0)).sum()) * max(1, width * size // SECTOR_BYTES)
    wanted = int(inside.sum()) * width * size
    return touched * SECTOR_BYTES / wanted if wanted else None


def excess(
    nest: ParallelLoop,
    accesses: list[Access],
    layout: Fragment,
    best: Fragment,
    domain: Domain,
    machine: Machine,
) -> float:
    """How many times more bytes a layout moves than the best one, over all accesses to global memory.

    What all iterations have in common, such as a scale of the tile, is not counted: no layout moves more of it.
    """
    moved = [0.0, 0.0]
    for access in accesses:
        if all(variables_of(index).isdisjoint(nest.vars) for index in access.start):
            continue
        known = access.context.domain(domain)
        costs = [sectors_per_byte(access, nest, one, known, machine) for one in (layout, best)]
        for n, amount in enumerate(costs):
            moved[n] += (amount or 0.0) * access.buffer.dtype.storage_bytes
    return moved[0] / moved[1] if moved[1] and math.isfinite(moved[0]) else 1.0
