"""Chooses the tile order of persistent blocks, also where tiles take different times, as in causal attention.

Takes a launch and its loads; gives the panels of tiles that take the same time, and a `TileOrder` for others, or None
where their times are not known at compile time. Tiles whose loads fit in L2 together form a group; inside a group the
heaviest come first, so that light ones fill the gaps at the end. Blocks take such tiles from a `TileScheduler` as they
become idle.
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
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.load_groups import LoadGroup
from tilelang.targets.nvidia.schedule import TileOrder

_PANEL = 16  # rows of tiles in a panel; 8 to 32 performed the same
_L2_BYTES = 32 << 20  # of the 50 MB of an H200, so that stores and the next group do not evict what is still needed
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


def choose_tile_order(launch: Launch, load_groups: Sequence[LoadGroup]) -> TileOrder | None:
    """The tile order of a persistent launch from `flatten_sequences`."""
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
    # groups of about the same size
    groups = -(-tiles.others // min(tiles.resident(), tiles.others))
    return TileOrder(axis, -(-tiles.others // groups), bool((steps > 0).any()), math.prod(grid))


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
        """Count the heaviest tiles along the other dimensions whose loads fit in L2 together."""
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
