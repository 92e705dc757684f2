"""Where the elements of a kernel's axes are: in which block, at which step of a loop, at which place of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilelang.dtypes import INT32
from tilelang.ir.expr import Binary, Const, Expr, Var, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.level1.fused import ZERO, FusedKernel
from tilelang.records import record


@record(eq=False)
class Tiling:
    """How a kernel is divided.

    Attributes:
        blocks: The axes that are divided, and how many elements of each a tile has; of the axes that are not here, a
            block of the grid has one element, and others stay whole.
        threads: Of a block.
        stages: Tiles of a pipelined loop that are in flight.
        switches: Keys and values of `pass_configs` to compile it with.
    """

    blocks: Mapping[Var, int]
    threads: int
    stages: int
    switches: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text by which decisions in files name it."""
        sizes = [f"{axis.name} {size}" for axis, size in self.blocks.items()]
        switches = [f"{name} {value}" for name, value in self.switches.items()]
        return ", ".join([*sizes, f"{self.threads} threads", f"{self.stages} stages", *switches])


@record(eq=False)
class Place:
    """An axis in a kernel.

    Attributes:
        origin: Where the tile begins; the element itself if there is no `local`.
        local: The place in the tile; None where there is one element.
        size: The extent of the tile.
        extent: The extent of the axis.
        ragged: Whether the last tile may be shorter.
    """

    origin: Expr
    local: Var | None
    size: Expr
    extent: Expr
    ragged: bool

    @property
    def point(self) -> Expr:
        """The place in the whole axis."""
        if self.local is None:
            return self.origin
        return self.local if int_const(self.origin) == 0 else self.origin + self.local


@record(eq=False)
class Placement:
    """The places of all axes of a kernel, and the loops and the grid that give them.

    Attributes:
        places: By axis, in the order of the kernel.
        grid: The variables of the grid, and how many blocks there are along each; the fastest first.
        steps: For each axis that is divided into the steps of a loop, the variable of the loop.
        block_names: The name of the size of each divided axis's tile.
    """

    places: Mapping[Var, Place]
    grid: tuple[tuple[Var, Expr], ...]
    steps: Mapping[Var, Var]
    block_names: Mapping[Var, Var]


ONE = Const(1, INT32, weak=True)


def next_origin(place: Place) -> Expr:
    """Where the next tile begins."""
    match place.origin:
        case Binary(op=BinaryOp.MUL, a=step, b=size):
            return (step + 1) * size
        case Const(value=0):
            return place.size
    return place.origin + place.size


def place_axes(kernel: FusedKernel, tiling: Tiling) -> Placement:
    """The places of the axes of a kernel that is divided in a given way."""
    places: dict[Var, Place] = {}
    steps: dict[Var, Var] = {}
    block_names = {axis: Var(f"block_{axis.name}", INT32, index=True) for axis in tiling.blocks}
    grid_axes = set(kernel.grid)
    stepped = {a for r in kernel.reductions if any(b in tiling.blocks for b in r.reduced) for a in r.reduced}
    numbers = iter("xyz")
    grid: list[tuple[Var, Expr]] = []
    for axis, extent in list(kernel.extents.items())[::-1]:
        if axis in tiling.blocks:
            size = block_names[axis]
            step = Var(f"b{next(numbers)}" if axis in grid_axes else f"{axis.name}_step", INT32, index=True)
            local = Var(axis.name, INT32, index=True)
            places[axis] = Place(step * size, local, size, extent, ragged=True)
            if axis in grid_axes:
                grid.append((step, extent))
            else:
                steps[axis] = step
        elif axis in grid_axes:
            block = Var(axis.name, INT32, index=True)
            places[axis] = Place(block, None, ONE, extent, ragged=False)
            grid.append((block, extent))
        elif axis in stepped:
            steps[axis] = Var(axis.name, INT32, index=True)
            places[axis] = Place(steps[axis], None, ONE, extent, ragged=False)
        else:
            places[axis] = Place(ZERO, Var(axis.name, INT32, index=True), extent, extent, ragged=False)
    in_order = {axis: places[axis] for axis in kernel.extents}
    return Placement(in_order, tuple(grid), steps, block_names)
