"""Multicast of tiles that several blocks of a cluster read: each block loads a part for all of them.

Takes launches and their load groups, gives the dimensions of the grid along which a tile is the same
(`multicast_axes`), and which block of a cluster loads which part for which others (`ClusterBlocks`). Invariant: the
blocks that share a tile fill it equally often and in the same order; full barriers count the bytes of all parts, empty
barriers the arrivals of all readers.

Blocks of a cluster are numbered with x running fastest.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import Launch
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.schedule.load_groups import LoadGroup


def multicast_axes(launch: Launch, load_group: LoadGroup, copy: Copy) -> tuple[int, ...]:
    """The dimensions of the grid along which all blocks load the same by a copy, and equally often."""
    named = load_group.backward_slice(copy).variables
    return tuple(axis for axis, var in enumerate(launch.block_vars) if var not in named)


@record(slots=True, eq=False)
class ClusterBlocks:
    """The blocks of a cluster, relative to the executing one.

    Attributes:
        extents: Blocks along x, y and z.
        position: The position of the executing block in the cluster.
    """

    extents: tuple[int, int, int]
    position: tuple[Expr, Expr, Expr]

    def parts(self, axes: tuple[int, ...]) -> int:
        """How many blocks share a tile that is the same along some dimensions."""
        return math.prod(self.extents[axis] for axis in axes)

    def part(self, axes: tuple[int, ...]) -> Expr:
        """The number of the part that the executing block loads."""
        strides = {axis: math.prod(self.extents[a] for a in axes if a < axis) for axis in axes}
        return self._number(self.position, strides)

    def multicast_mask(self, axes: tuple[int, ...]) -> Expr:
        """The mask of the blocks that share it, one bit each."""
        places = [
            sum(at * stride for at, stride in zip(step, self._strides.values(), strict=True))
            for step in self._steps(axes)
        ]
        mask = const(sum(1 << rank for rank in places), INT32)
        apart = {axis: stride for axis, stride in self._strides.items() if axis not in axes}
        return mask << self._number(self.position, apart) if self.parts(tuple(apart)) > 1 else mask

    def multicast_part(self, copy: Copy, axes: tuple[int, ...]) -> Copy:
        """The multicast copy of the executing block's part."""
        return dataclasses.replace(
            copy, multicast_mask=self.multicast_mask(axes), part=self.part(axes), parts=self.parts(axes)
        )

    def senders(self, multicast: Iterable[tuple[int, ...]]) -> tuple[Expr, ...]:
        """The ranks of the blocks that load parts of any such tile for the executing block, itself first."""
        steps = dict.fromkeys(step for axes in multicast for step in self._steps(axes))
        return tuple(self._number(self._away(step), self._strides) for step in steps)

    @property
    def _strides(self) -> dict[int, int]:
        """What a step along each dimension adds to a block's rank."""
        return {axis: math.prod(self.extents[:axis]) for axis in range(len(self.extents))}

    def _steps(self, axes: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        return itertools.product(*(range(extent if axis in axes else 1) for axis, extent in enumerate(self.extents)))

    def _away(self, step: tuple[int, ...]) -> tuple[Expr, ...]:
        """The position of the block that is some steps away, modulo the extents of the cluster."""
        moved = zip(self.position, step, self.extents, strict=True)
        return tuple((at + by) % extent if by else at for at, by, extent in moved)

    def _number(self, position: Sequence[Expr], strides: Mapping[int, int]) -> Expr:
        needed = {axis: stride for axis, stride in strides.items() if self.extents[axis] > 1}
        terms = [position[axis] * stride if stride > 1 else position[axis] for axis, stride in needed.items()]
        return sum(terms[1:], terms[0]) if terms else const(0, INT32)


def cluster_blocks(launch: Launch, extents: tuple[int, int, int], *, persistent: bool) -> ClusterBlocks:
    """The blocks of a cluster of these extents of a launch, whose grid is flat if it is persistent."""
    if persistent:
        return ClusterBlocks(extents, position_of(launch.block_vars[0] % math.prod(extents), extents))
    at = [var % extent for var, extent in zip(launch.block_vars, extents, strict=False)]
    x, y, z = (*at, const(0, INT32), const(0, INT32))[:3]
    return ClusterBlocks(extents, (x, y, z))


def position_of(number: Expr, extents: tuple[int, int, int]) -> tuple[Expr, Expr, Expr]:
    """The position of the block of a rank in its cluster."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)
