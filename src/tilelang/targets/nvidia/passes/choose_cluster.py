"""Decides whether blocks of a launch run in clusters, and which tiles they bring together.

Takes a flat launch with what it and `pass_configs` ask for; gives the extents of a cluster, and the tiles of which each
block brings a part for all. Invariant: a cluster that the kernel asks for stays unless `pass_configs` say otherwise;
what these ask for is left out with a note where the grid does not consist of such clusters, or no tile is the same.

Unasked, two blocks are a cluster where rows of a tensor begin in the middle of sectors of the L2 cache. A box then
touches a sector more in each of its rows, and nearly always a line more; on an H200 the plain product of 5000^3 took
1.45 times as long with tiles of 128x224 that blocks bring by themselves, and that of 4008^3 1.29 times with 128x256.
Where rows begin with sectors (4016^3, 5008^3) and at 4096^3 clusters changed the time by 0 to 2 %: what neighbors read
meets in the cache anyway.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Launch
from tilelang.lowering.alignment import is_multiple, strides
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.passes.roles.abilities import Roles
from tilelang.targets.nvidia.passes.roles.multicast import alike
from tilelang.targets.nvidia.passes.roles.rings import Ring
from tilelang.targets.nvidia.schedule import Schedule

Extents = tuple[int, int, int]  # blocks along the dimensions of the grid

_ALONE: Extents = (1, 1, 1)
_SECTOR_BYTES = 32  # Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"


def cluster_of(launch: Launch, wish: Extents | None, rings: Sequence[Ring] = ()) -> tuple[Extents, str]:
    """The extents of a launch's clusters, and why they are not what `pass_configs` ask for.

    Args:
        launch: The launch, which must be `flat`.
        wish: What `pass_configs` ask for.
        rings: What blocks may bring together unasked.
    """
    given = launch.hints.cluster
    if wish is None:
        return _paying(launch, rings) if given == _ALONE else given, ""
    return (wish, "") if is_cut(launch, wish) else (given, "the grid is not known to consist of whole ones")


def _paying(launch: Launch, rings: Sequence[Ring]) -> Extents:
    """Two blocks along the dimension of the grid where they share most, if rows begin in the middle of sectors."""
    pipelined = [ring for ring in rings if ring.pipelined]
    brought = {copy: ring.bytes_of(copy) for ring in pipelined for copy in ring.copies}
    if not any(map(_begins_amid_sectors, brought)):
        return _ALONE
    same = {copy: alike(launch, ring, copy) for ring in pipelined for copy in ring.copies}
    sizes = [sum(brought[copy] for copy, axes in same.items() if axis in axes) for axis in range(len(launch.grid))]
    axis = max(range(len(sizes)), key=lambda axis: sizes[axis])
    x, y, z = (2 if place == axis else 1 for place in range(3))
    return (x, y, z) if 2 * sizes[axis] >= sum(brought.values()) and is_cut(launch, (x, y, z)) else _ALONE


def _begins_amid_sectors(copy: Copy) -> bool:
    """Whether rows of what is copied are known to begin anywhere in sectors of the L2 cache."""
    pitches = [int_const(step) for step in strides(copy.src.buffer)[:-1]]
    return any(step is not None and step * copy.src.dtype.storage_bytes % _SECTOR_BYTES for step in pitches)


def is_cut(launch: Launch, cluster: Extents) -> bool:
    """Whether a grid surely consists of whole clusters."""
    if any(extent > 1 for extent in cluster[len(launch.grid) :]):
        return False
    return all(is_multiple(extent, size) for extent, size in zip(launch.grid, cluster, strict=False))


def in_clusters(
    schedule: Schedule, launch: Launch, rings: Sequence[Ring], roles: Roles, cluster: Extents
) -> tuple[Schedule, list[Note]]:
    """The schedule with the tiles that blocks of a cluster bring together, and why others are not among them.

    Args:
        schedule: What is decided else.
        launch: The launch, which must be `flat`.
        rings: What is brought.
        roles: What the target can do.
        cluster: As `cluster_of` gives it.

    Returns:
        The schedule, in no clusters if they bring nothing together and the kernel does not ask for them; and notes.
    """
    if cluster == _ALONE:
        return schedule, []
    shared: list[tuple[Buffer, tuple[int, ...]]] = []
    notes: list[Note] = []
    for ring in rings:
        for copy in ring.copies:
            axes = tuple(axis for axis in alike(launch, ring, copy) if cluster[axis] > 1)
            if not axes:
                continue
            tile, reason = copy.dst.buffer, roles.parts_refusal(copy, math.prod(cluster[axis] for axis in axes))
            if not roles.read_by_warpgroups(ring, schedule.tile_threads):
                reason = "threads read it one by one"
            if reason:
                notes.append(Note(f"T.copy: blocks of a cluster bring '{tile.name}' apart: {reason}", copy.loc))
            else:
                shared.append((tile, axes))
    if not shared and cluster != launch.hints.cluster:
        return schedule, [*notes, not_clustered(launch, "no tile can be brought by several blocks together")]
    return dataclasses.replace(schedule, cluster=cluster, shared=tuple(shared)), notes


def not_clustered(launch: Launch, reason: str) -> Note:
    """Why a wish for clusters is left out."""
    return Note(f"tl.cluster: left out, since {reason}", launch.loc)
