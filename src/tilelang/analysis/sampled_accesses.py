"""Simulated memory accesses of the warps of a block for a layout of a loop nest, on a sample of warps and values.

Takes an access in a nest and a layout of the nest, gives the coordinates that each lane accesses. The sample has the
first warps and values; later ones repeat their pattern at other addresses.
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
from tilelang.ir.stmt import For, ForKind, ParallelLoop
from tilelang.ir.visit import variables_of, walk_expr
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.machine import SECTOR_BYTES, Machine

_WARPS = 2  # sampled warps
_VECTORS = 8  # sampled vectors per lane
_FAR = 1 << 16  # assumed stride of symbolic dimensions, in elements


@record(eq=False)
class TileAccess:
    """A sample of the accesses of a nest to a tile.

    Attributes:
        machine: The machine that executes them.
        coordinates: Tile coordinates per warp, value and lane; negative for inactive lanes. Shape (warps, values,
            lanes, rank).
        vector: How many successive values of a lane are contiguous along the last dimension.
        weight: The number of accesses that the sample represents.
        kind: "load" or "store".
        steps: Whether a loop inside the nest changes its coordinates from one iteration to the next.
        cache: Costs computed for it, by id of the layout.
    """

    machine: Machine
    coordinates: np.ndarray
    vector: int
    weight: float
    kind: str
    steps: bool = False
    cache: dict[int, tuple[object, float]] = field(default_factory=dict)

    @property
    def content(self) -> tuple[object, ...]:
        """All that costs depend on but the machine and the size of elements, as a hashable value."""
        places = np.ascontiguousarray(self.coordinates)
        return places.tobytes(), places.shape, self.vector, self.weight, self.kind, self.steps


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
    """The sampled coordinates in the last `rank` dimensions; None if they depend on data.

    Variables other than the nest's have their smallest values, or 0 if nothing is known of them; those that shift a
    tile as a whole make no difference.

    Args:
        access: The access.
        nest: The parallel loop around it.
        layout: The layout of the loop.
        rank: Number of trailing dimensions to sample.
        domain: Facts that hold at the access.
        machine: The machine that executes it.
        copies: Whether threads that replicate iterations are included.
    """
    lanes = machine.warp_size
    values = min(layout.values, layout.value[0].size * _VECTORS if layout.value else 1)
    threads = min(layout.threads, _WARPS * lanes)
    table = layout.table.reshape(layout.threads, layout.values, len(layout.shape))[:threads, :values]
    inside = (table < np.array(layout.shape)).all(axis=-1)
    if not copies:
        inside &= (layout.first_copy(np.arange(threads)) == np.arange(threads))[:, None]
    env = {var: table[..., axis] for axis, var in enumerate(nest.vars)}
    coordinates = np.zeros((*inside.shape, rank), np.int64)
    for axis, index in enumerate(access.start[len(access.start) - rank :]):
        place = _coordinate(index, env, domain)
        if place is None:
            return None
        coordinates[..., axis] = place
    coordinates[~inside] = -1
    if threads % lanes:  # the last warp is partial
        missing = np.full((lanes - threads % lanes, *coordinates.shape[1:]), -1, np.int64)
        coordinates = np.concatenate([coordinates, missing])
    shaped = coordinates.reshape(len(coordinates) // lanes, lanes, values, rank).transpose(0, 2, 1, 3)
    first = layout.value[0].size if layout.value else 1
    vector = first if _is_vector(shaped, first) else 1
    weight = layout.values * layout.threads / (values * threads)
    kind = "store" if access.write else "load"
    return TileAccess(machine, shaped, vector, weight, kind, _steps(access, nest, rank))


def _steps(access: Access, nest: ParallelLoop, rank: int) -> bool:
    loops = access.context.loops()
    inside = loops[loops.index(nest) + 1 :] if nest in loops else ()
    serial = {loop.var for loop in inside if isinstance(loop, For) and loop.kind is ForKind.SERIAL}
    return any(serial & variables_of(index) for index in access.start[len(access.start) - rank :])


def _coordinate(index: Expr, env: Mapping[Var, np.ndarray], domain: Domain) -> np.ndarray | None:
    values: dict[Var, np.ndarray | int] = dict(env)
    for node in walk_expr(index):
        if isinstance(node, Load):
            return None
        if isinstance(node, Var) and node not in values:
            low = bounds(node, domain).low
            values[node] = 0 if low is None or low == node.dtype.limits[0] else low
    return np.asarray(evaluate(index, values, exact=True))


def _is_vector(coordinates: np.ndarray, size: int) -> bool:
    """Whether successive values are contiguous along the last dimension and aligned to their number.

    Shapes: coordinates (warps, values, lanes, rank).
    """
    if size == 1 or coordinates.shape[1] % size or not coordinates.shape[-1]:
        return False
    groups = coordinates.reshape(coordinates.shape[0], -1, size, *coordinates.shape[2:])
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
    """Bytes of global memory transferred per byte that a nest uses; None if that depends on data.

    Threads that replicate iterations are left out. Data that a warp has read once is in its cache.
    """
    size = access.buffer.dtype.storage_bytes
    sample = tile_access(access, nest, layout, access.buffer.rank, domain, machine, copies=False)
    if sample is None:
        return None
    strides = np.array([int_const(stride) or _FAR * size for stride in strides_of(access.buffer)], np.int64)
    width = min(sample.vector, max(1, VECTOR_BYTES // size))
    first = sample.coordinates[:, ::width]
    inside = (first >= 0).all(axis=-1)
    sectors = np.where(inside, first @ strides * size // SECTOR_BYTES, -1)
    sectors = sectors.reshape(-1, machine.warp_size) if access.write else sectors.reshape(len(sectors), -1)
    ordered = np.sort(sectors, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    touched = int((new & (ordered >= 0)).sum()) * max(1, width * size // SECTOR_BYTES)
    wanted = int(inside.sum()) * width * size
    return touched * SECTOR_BYTES / wanted if wanted else None


def traffic_ratio(
    nest: ParallelLoop,
    accesses: list[Access],
    layout: Fragment,
    best: Fragment,
    domain: Domain,
    machine: Machine,
) -> float:
    """The ratio of bytes transferred by a layout and by the best one, over all accesses to global memory.

    Accesses that are invariant in the nest, such as a scale of the tile, are not counted: no layout changes their
    traffic.
    """
    moved = [0.0, 0.0]
    for access in accesses:
        if all(variables_of(index).isdisjoint(nest.vars) for index in access.start):
            continue
        facts = access.context.domain(domain)
        costs = [sectors_per_byte(access, nest, one, facts, machine) for one in (layout, best)]
        for n, amount in enumerate(costs):
            moved[n] += (amount or 0.0) * access.buffer.dtype.storage_bytes
    return moved[0] / moved[1] if moved[1] and math.isfinite(moved[0]) else 1.0
