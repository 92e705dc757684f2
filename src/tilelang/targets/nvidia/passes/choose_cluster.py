"""Decides whether blocks of a launch run in clusters, and which tiles they load by multicast.

Takes a launch as `flatten_sequences` gives it; gives the extents of a cluster, and the tiles of which each block loads
a part for all. Invariant: a cluster that the kernel sets stays unless `pass_configs` override it; an override is an
error where the grid does not consist of such clusters, and left out with a note where no tile is shared.

By default, two blocks form a cluster where rows of a tensor do not begin at sectors of the L2 cache. Each row of a TMA
box then touches one sector more, and nearly always one cache line more; on an H200 the plain gemm of 5000^3 took 1.45
times as long with tiles of 128x224 without multicast, and that of 4008^3 1.29 times with 128x256. Where rows begin at
sectors (4016^3, 5008^3) and at 4096^3 clusters changed the time by 0 to 2 %: neighboring blocks hit in the L2 cache.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import const, int_const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Launch
from tilelang.lowering.alignment import is_multiple, strides
from tilelang.ops.copy import Copy
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.multicast import multicast_axes
from tilelang.schedule.override_errors import impossible
from tilelang.targets.machine import SECTOR_BYTES, Machine
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.schedule import Schedule

Extents = tuple[int, int, int]  # blocks along the dimensions of the grid

_NO_CLUSTER: Extents = (1, 1, 1)


def cluster_of(launch: Launch, override: Extents | None, load_groups: Sequence[LoadGroup] = ()) -> Extents:
    """The extents of a launch's clusters.

    Args:
        launch: The launch, from `flatten_sequences`.
        override: The extents that `pass_configs` set.
        load_groups: The loads that may be multicast by default.

    Raises:
        ProgramError: The grid is not known to consist of the clusters that `pass_configs` set.
    """
    given = launch.hints.cluster
    if override is None:
        return _profitable(launch, load_groups) if given == _NO_CLUSTER else given
    if divides_grid(launch, override):
        return override
    grid = " x ".join(map(to_text, launch.grid))
    extents = (*launch.grid, *(const(1, INT32) for _ in override[len(launch.grid) :]))
    fitting = [
        next(size for size in range(most, 0, -1) if is_multiple(extent, size))
        for extent, most in zip(extents, override, strict=True)
    ]
    reason = f"the grid of {grid} blocks is not known to consist of whole clusters"
    raise impossible(launch, "cluster", override, reason, tuple(fitting))


def is_persistent(launch: Launch, cluster: Extents, override: bool | None, machine: Machine) -> bool:
    """Whether blocks are persistent: if the grid has more than run at once.

    With clusters, only where the grid surely consists of whole ones, since later passes no longer see it. Also where
    trip counts depend on data: with 1 to 7 iterations of a gemm and much arithmetic 57 us instead of 66 us, although
    the hardware would balance the load better.
    """
    if not divides_grid(launch, cluster):
        return False
    if override is not None:
        return override
    constants = [count for extent in launch.grid if (count := int_const(extent)) is not None]
    at_once = machine.blocks_at_once(math.prod(cluster))
    return len(constants) < len(launch.grid) or math.prod(constants) > at_once


def _profitable(launch: Launch, load_groups: Sequence[LoadGroup]) -> Extents:
    """Two blocks along the dimension of the grid where they share most bytes, if rows do not begin at sectors."""
    pipelined = [load_group for load_group in load_groups if load_group.pipelined]
    loaded = {copy: load_group.bytes_of(copy) for load_group in pipelined for copy in load_group.copies}
    if not any(map(_is_sector_misaligned, loaded)):
        return _NO_CLUSTER
    same = {copy: multicast_axes(launch, load_group, copy) for load_group in pipelined for copy in load_group.copies}
    sizes = [sum(loaded[copy] for copy, axes in same.items() if axis in axes) for axis in range(len(launch.grid))]
    axis = max(range(len(sizes)), key=lambda axis: sizes[axis])
    x, y, z = (2 if other == axis else 1 for other in range(3))
    return (x, y, z) if 2 * sizes[axis] >= sum(loaded.values()) and divides_grid(launch, (x, y, z)) else _NO_CLUSTER


def _is_sector_misaligned(copy: Copy) -> bool:
    """Whether rows of the source are known not to begin at sectors of the L2 cache."""
    pitches = [int_const(step) for step in strides(copy.src.buffer)[:-1]]
    return any(step is not None and step * copy.src.dtype.storage_bytes % SECTOR_BYTES for step in pitches)


def divides_grid(launch: Launch, cluster: Extents) -> bool:
    """Whether a grid surely consists of whole clusters."""
    if any(extent > 1 for extent in cluster[len(launch.grid) :]):
        return False
    return all(is_multiple(extent, size) for extent, size in zip(launch.grid, cluster, strict=False))


def with_multicast(
    schedule: Schedule,
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    capabilities: TargetCapabilities,
    cluster: Extents,
) -> tuple[Schedule, list[Note]]:
    """The schedule with the tiles that blocks of a cluster load by multicast, and why others are not among them.

    Args:
        schedule: The schedule without clusters.
        launch: The launch, from `flatten_sequences`.
        load_groups: The loads of the producer.
        capabilities: The capabilities of the target.
        cluster: As `cluster_of` gives it.

    Returns:
        The schedule, without clusters if there is no multicast and the kernel does not set them; and notes.
    """
    if cluster == _NO_CLUSTER:
        return schedule, []
    multicast: list[tuple[Buffer, tuple[int, ...]]] = []
    notes: list[Note] = []
    for load_group in load_groups:
        for tile in () if load_group.others else load_group.tiles:
            copies = [copy for copy in load_group.copies if copy.dst.buffer is tile]
            same = set.intersection(*(set(multicast_axes(launch, load_group, copy)) for copy in copies))
            axes = tuple(axis for axis in sorted(same) if cluster[axis] > 1)
            if not axes:
                continue
            parts = math.prod(cluster[axis] for axis in axes)
            reason = next(filter(None, (capabilities.multicast_refusal(copy, parts) for copy in copies)), "")
            if not capabilities.only_read_by_wgmma(load_group, schedule.tile_threads):
                reason = "threads read it, not only wgmma"
            if reason:
                notes.append(Note(f"T.copy: '{tile.name}' is not loaded by multicast: {reason}", copies[0].loc))
            else:
                multicast.append((tile, axes))
    if not multicast and cluster != launch.hints.cluster:
        return schedule, [*notes, not_clustered(launch, "no tile can be loaded by multicast")]
    return dataclasses.replace(schedule, cluster=cluster, multicast=tuple(multicast)), notes


def not_clustered(launch: Launch, reason: str) -> Note:
    """The note on an override `tl.cluster` that is left out."""
    return Note(f"tl.cluster: left out, since {reason}", launch.loc)
