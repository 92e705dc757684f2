"""Decides whether blocks of a launch run in clusters, and which tiles they bring together.

Takes a flat launch with what it and `pass_configs` ask for; gives the extents of a cluster, and the tiles of which each
block brings a part for all. Invariant: a cluster that the kernel asks for stays; one that `pass_configs` asks for is
left out with a note where the grid does not consist of such clusters.

Clusters are never chosen unasked: on an H200 they gained nothing in products, since what neighbors read meets in the L2
cache anyway.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.schedule import Schedule
from tilelang.ir.stmt import Launch
from tilelang.lowering.alignment import is_multiple
from tilelang.passes.tile.roles.abilities import Roles
from tilelang.passes.tile.roles.multicast import alike
from tilelang.passes.tile.roles.rings import Ring

Extents = tuple[int, int, int]  # blocks along the dimensions of the grid


def cluster_of(launch: Launch, wish: Extents | None) -> tuple[Extents, str]:
    """The extents of a launch's clusters, and why they are not what `pass_configs` ask for."""
    x, y, z = (*launch.hints.cluster, 1, 1)[:3]
    if wish is None:
        return (x, y, z), ""
    return (wish, "") if is_cut(launch, wish) else ((x, y, z), "the grid is not known to consist of whole ones")


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
    """
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
