"""Tiles that several blocks of a cluster read alike: each block brings a part of them for all.

Takes launches and their rings, gives the dimensions of the grid along which a tile is the same (`alike`), and for the
blocks of a cluster who brings which part to whom (`Members`). Invariant: the blocks that share a tile fill it equally
often, in the same order: full barriers see the bytes of all parts, and empty ones the arrivals of all readers.

Blocks of a cluster are numbered with x running fastest. Source: PTX ISA, "Special Registers: %cluster_ctarank".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, const, select
from tilelang.ir.stmt import Launch
from tilelang.ops.copy import Copy
from tilelang.records import record
from tilelang.targets.nvidia.passes.roles.rings import Ring
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule


def alike(launch: Launch, ring: Ring, copy: Copy) -> tuple[int, ...]:
    """The dimensions of the grid along which all blocks bring the same by a copy, and equally often."""
    named = ring.origins(copy).variables
    return tuple(axis for axis, var in enumerate(launch.block_vars) if var not in named)


@record(slots=True, eq=False)
class Members:
    """The blocks of a cluster, as each of them sees the others.

    Attributes:
        extents: Blocks along x, y and z.
        position: Where the executing block is among them.
    """

    extents: tuple[int, int, int]
    position: tuple[Expr, Expr, Expr]

    def parts(self, axes: tuple[int, ...]) -> int:
        """How many blocks share a tile that is alike along some dimensions."""
        return math.prod(self.extents[axis] for axis in axes)

    def part(self, axes: tuple[int, ...]) -> Expr:
        """Which part of it the executing block brings."""
        strides = {axis: math.prod(self.extents[a] for a in axes if a < axis) for axis in axes}
        return self._number(self.position, strides)

    def receivers(self, axes: tuple[int, ...]) -> Expr:
        """Those who share it, one bit each."""
        places = [
            sum(at * stride for at, stride in zip(step, self._strides.values(), strict=True))
            for step in self._steps(axes)
        ]
        mask = const(sum(1 << place for place in places), INT32)
        apart = {axis: stride for axis, stride in self._strides.items() if axis not in axes}
        return mask << self._number(self.position, apart) if self.parts(tuple(apart)) > 1 else mask

    def share(self, copy: Copy, axes: tuple[int, ...]) -> Copy:
        """The copy of the executing block's part, for all."""
        return dataclasses.replace(
            copy, multicast_mask=self.receivers(axes), part=self.part(axes), parts=self.parts(axes)
        )

    def senders(self, shared: Iterable[tuple[int, ...]]) -> tuple[Expr, ...]:
        """The numbers of those who bring parts of any such tiles to the executing block, which is the first."""
        steps = dict.fromkeys(step for axes in shared for step in self._steps(axes))
        return tuple(self._number(self._away(step), self._strides) for step in steps)

    @property
    def _strides(self) -> dict[int, int]:
        """What a step along each dimension adds to a block's number."""
        return {axis: math.prod(self.extents[:axis]) for axis in range(len(self.extents))}

    def _steps(self, axes: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        return itertools.product(*(range(extent if axis in axes else 1) for axis, extent in enumerate(self.extents)))

    def _away(self, step: tuple[int, ...]) -> tuple[Expr, ...]:
        """Where the block is that lies some steps from here, counted around the cluster."""
        moved = zip(self.position, step, self.extents, strict=True)
        return tuple((at + by) % extent if by else at for at, by, extent in moved)

    def _number(self, position: Sequence[Expr], strides: Mapping[int, int]) -> Expr:
        needed = {axis: stride for axis, stride in strides.items() if self.extents[axis] > 1}
        terms = [position[axis] * stride if stride > 1 else position[axis] for axis, stride in needed.items()]
        return sum(terms[1:], terms[0]) if terms else const(0, INT32)


def members_of(launch: Launch, schedule: Schedule) -> Members:
    """The blocks of a cluster of a launch, whose blocks may stay."""
    extents = schedule.cluster
    if schedule.persistent:
        return Members(extents, position_of(launch.block_vars[0] % schedule.cluster_size, extents))
    at = [var % extent for var, extent in zip(launch.block_vars, extents, strict=False)]
    x, y, z = (*at, const(0, INT32), const(0, INT32))[:3]
    return Members(extents, (x, y, z))


def position_of(number: Expr, extents: tuple[int, int, int]) -> tuple[Expr, Expr, Expr]:
    """Where a block is in its cluster."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def by_lane(numbers: tuple[Expr, ...], thread: Expr) -> Expr:
    """The first number for the first thread of a warpgroup, the second for the second, and so on."""
    chosen = numbers[-1]
    for lane in reversed(range(len(numbers) - 1)):
        chosen = select(thread % WARPGROUP_THREADS == lane, numbers[lane], chosen)
    return chosen
