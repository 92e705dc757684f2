"""How the axes of a kernel map to blocks, loop iterations and tiles."""

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
        blocks: The tile size of each divided axis. Of other axes, a block has one element if they are in the grid, and
            all elements otherwise.
        threads: Of a block.
        stages: The `num_stages` of pipelined loops.
        pass_configs: Options to compile it with.
    """

    blocks: Mapping[Var, int]
    threads: int
    stages: int
    pass_configs: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text by which files of decisions identify it."""
        sizes = [f"{axis.name} {size}" for axis, size in self.blocks.items()]
        pass_configs = [f"{name} {value}" for name, value in self.pass_configs.items()]
        return ", ".join([*sizes, f"{self.threads} threads", f"{self.stages} stages", *pass_configs])


@record(eq=False)
class Place:
    """The index along an axis, in terms of block, iteration and tile.

    Attributes:
        origin: The index of the first element of the tile, or of the only one.
        local: The index within the tile; None for a tile of one element.
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
        """The index of an element along the axis."""
        if self.local is None:
            return self.origin
        return self.local if int_const(self.origin) == 0 else self.origin + self.local


@record(eq=False)
class Placement:
    """The places of all axes of a kernel, and its grid and loops.

    Attributes:
        places: By axis, in the order of the kernel.
        grid: The variables of the grid, and how many blocks there are along each; the fastest first.
        steps: The loop variable of each axis that a loop divides.
        block_names: The variable with the tile size of each divided axis.
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
