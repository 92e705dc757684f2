"""Chooses the tile order of persistent blocks, also where tiles take different times, as in causal attention.

Takes a launch and its loads; gives the panels of tiles that take the same time, and a `TileOrder` for others, or None
where all tiles take the same time or their times are not known at compile time. Tiles whose loads fit in L2 together
form a group; inside a group the heaviest come first, so that light ones fill the gaps at the end.

Each block has its tiles from the beginning, so how much work a block gets depends on how the number of blocks and the
period of the order meet. The choice is therefore made by adding up the work of each block. In row-major order, 192-row
tiles of causal attention (4 batches, 32 heads, 4096 rows) give one of 132 blocks 1.9 times the work of the average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.scalar import Value
from tilelang.ir.stmt import Bind, For, If, Launch
from tilelang.ir.visit import loads_of, walk
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.passes.warp_specialization.load_groups import LoadGroup, trip_count
from tilelang.targets.nvidia.schedule import TileOrder

_PANEL = 16  # rows of tiles in a panel; 8 to 32 performed the same
_L2_BYTES = 32 << 20  # of the 50 MB of an H200, so that stores and the next group do not evict what is still needed
_BALANCED = 1.05  # the most work of a block, in that of the average; larger groups are preferred to better balance
_HALVINGS = 3  # of groups, while none is balanced
_TILE_OVERHEAD = 1  # what a tile takes beside its iterations, in iterations


def panel_of(launch: Launch, load_groups: Sequence[LoadGroup]) -> tuple[int, str] | None:
    """The tile order where tiles take the same time: panels if neighbors along both dimensions share tiles."""
    if launch.hints.swizzle is not None:
        return launch.hints.swizzle
    if len(launch.grid) < 2:
        return None
    x, y = launch.block_vars[:2]
    pipelined = [group for group in load_groups if group.pipelined]
    named = [group.backward_slice(copy).variables for group in pipelined for copy in group.copies]
    multicast = any(x not in names for names in named) and any(y not in names for names in named)
    both = any(x in names for names in named) and any(y in names for names in named)
    return (_PANEL, "row") if multicast and both else None


def choose_tile_order(launch: Launch, load_groups: Sequence[LoadGroup], blocks: int) -> TileOrder | None:
    """The tile order of a launch from `flatten_sequences` with so many persistent blocks."""
    extents = [int_const(extent) for extent in launch.grid]
    pipelined = [group for group in load_groups if group.pipelined]
    bindings = {s.var: s.value for s in walk(launch.body) if isinstance(s, Bind)}
    axis = _axis(launch, pipelined, bindings)
    if axis is None or any(extent is None for extent in extents):
        return None
    grid = [extent for extent in extents if extent is not None]
    tiles = _Tiles(launch.block_vars, grid, axis, pipelined, bindings)
    work = tiles.work()
    steps = np.diff(work)
    if not steps.any() or (steps < 0).any() and (steps > 0).any():
        return None
    descending = bool((steps > 0).any())
    heaviest_first = work[::-1] if descending else work
    best, least = None, math.inf
    for group in _group_sizes(tiles.resident(), tiles.others):
        if best is not None and group * grid[axis] < blocks:
            break
        for snake in (True, False):
            order = TileOrder(axis, group, descending, snake)
            ratio = imbalance(order, heaviest_first, tiles.others, blocks)
            if ratio < least:
                best, least = order, ratio
        if least <= _BALANCED:
            break
    return best


def imbalance(order: TileOrder, heaviest_first: np.ndarray, others: int, blocks: int) -> float:
    """The most work that a block has, in that of the average.

    Args:
        order: The order.
        heaviest_first: The work of tiles along the axis of the order, beginning with the heaviest.
        others: How many tiles there are along the other dimensions.
        blocks: How many blocks share the tiles.
    """
    sizes = [min(order.group, others - first) for first in range(0, others, order.group)]
    tiles = np.concatenate([np.repeat(heaviest_first, size) for size in sizes])
    rounds = np.pad(tiles, (0, -len(tiles) % blocks)).reshape(-1, blocks)
    if order.snake:
        rounds[1::2] = rounds[1::2, ::-1].copy()
    shares = rounds.sum(axis=0)
    return float(shares.max() / shares.mean())


def _axis(launch: Launch, pipelined: Sequence[LoadGroup], bindings: Mapping[Var, Expr]) -> int | None:
    """The only dimension of the grid on which trip counts depend, and on nothing else that varies."""
    found: set[Var] = set()
    for group in pipelined:
        if any(isinstance(step, If) for step in group.path):
            return None
        counts = [trip_count(step) for step in group.path if isinstance(step, For)]
        on = group.scalars.backward_slice(counts)
        if on.buffers or any(loads_of(count) for count in counts):
            return None
        found |= on.variables
    if any(loads_of(bindings[var]) for var in found if var in bindings):
        return None
    axes = [number for number, var in enumerate(launch.block_vars) if var in found]
    return axes[0] if len(axes) == 1 and found <= {launch.block_vars[axes[0]], *bindings} else None


class _Tiles:
    """The tiles of a grid, whose work depends on their index along one dimension.

    Args:
        block_vars: The block indices.
        grid: The extents of the grid.
        axis: The dimension.
        pipelined: The loads of pipelined loops.
        bindings: The values of bound variables, definitions before uses.

    Attributes:
        others: How many tiles there are along the other dimensions.
    """

    def __init__(
        self,
        block_vars: Sequence[Var],
        grid: Sequence[int],
        axis: int,
        pipelined: Sequence[LoadGroup],
        bindings: Mapping[Var, Expr],
    ) -> None:
        self._block_vars, self._grid, self._axis = block_vars, grid, axis
        self._pipelined, self._bindings = pipelined, bindings
        self.others = math.prod(grid) // grid[axis]

    def work(self) -> np.ndarray:
        """The work of each tile along the dimension, in iterations."""
        extent = self._grid[self._axis]
        total = np.full(extent, _TILE_OVERHEAD, dtype=np.int64)
        nests = {group.loop: group for group in self._pipelined}
        for group in nests.values():
            counts = [trip_count(step) for step in group.path if isinstance(step, For)]
            used = group.scalars.backward_slice(counts).variables
            env = self._environment({self._block_vars[self._axis]: np.arange(extent, dtype=np.int64)}, used)
            total += np.prod([np.broadcast_to(np.maximum(evaluate(e, env), 0), (extent,)) for e in counts], axis=0)
        return total

    def resident(self) -> int:
        """How many of the heaviest tiles along the other dimensions can have all that they load in L2 together."""
        position = np.arange(self.others, dtype=np.int64)
        values: dict[Var, Value] = {self._block_vars[self._axis]: np.zeros_like(position)}
        for number, extent in enumerate(self._grid):
            if number != self._axis:
                values[self._block_vars[number]] = position % extent
                position = position // extent
        most = int(self.work().max()) - _TILE_OVERHEAD
        needed = np.zeros(self.others, dtype=np.int64)
        for group in self._pipelined:
            for copy in group.copies:
                needed += self._is_new_source(group, copy, values) * group.bytes_of(copy) * most
        return max(int((np.cumsum(needed) <= _L2_BYTES).sum()), 1)

    def _is_new_source(self, group: LoadGroup, copy: Copy, values: Mapping[Var, Value]) -> np.ndarray:
        """For each tile, whether no tile before it loads the same, as query heads that share keys do."""
        new = np.ones(self.others, dtype=np.int64)
        used = group.backward_slice(copy)
        loops = {step.var: 0 for step in group.path if isinstance(step, For)}
        defined = {*values, *loops, *self._bindings}
        if used.buffers or not used.variables <= defined or any(map(loads_of, copy.source_indices)):
            return new
        if any(loads_of(self._bindings[var]) for var in used.variables if var in self._bindings):
            return new
        env = self._environment({**values, **loops}, used.variables)
        indices = [np.broadcast_to(evaluate(index, env), (self.others,)) for index in copy.source_indices]
        _, first = np.unique(np.stack(indices), axis=1, return_index=True)
        new[:] = 0
        new[first] = 1
        return new

    def _environment(self, values: Mapping[Var, Value], used: frozenset[Var]) -> dict[Var, Value]:
        """The values of variables and of the bindings that use only these."""
        environment = dict(values)
        for var, value in self._bindings.items():
            if var in used:
                environment[var] = evaluate(value, environment)
        return environment


def _group_sizes(most: int, others: int) -> list[int]:
    """Sizes of groups, none above `most`, that divide the tiles about evenly; the largest first."""
    sizes = [max(min(most, others) >> times, 1) for times in range(_HALVINGS + 1)]
    return list(dict.fromkeys(-(-others // -(-others // size)) for size in sizes))
