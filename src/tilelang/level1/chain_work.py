"""Predicts the time of kernels of several matrix products, such as attention, from their graphs: to compare tilings.

A multiprocessor computes one tile after another, step by step (`performance/chain.py`). Which steps there are, and
which of them compute a mask, is found by evaluating masks on whole tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tilelang.ir.expr import Expr, Load, Select, Var, conjunction
from tilelang.ir.scalar import Value
from tilelang.ir.visit import variables_of
from tilelang.level1.contraction import contraction, without_widening
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fused import FusedKernel
from tilelang.level1.loop_bounds import masks_of, reduced_body
from tilelang.level1.online_softmax import softmax_step
from tilelang.level1.placement import Tiling, place_axes
from tilelang.level1.tile_condition import tile_condition
from tilelang.level1.tile_values import TileValues
from tilelang.level1.visited_tiles import range_of_elements
from tilelang.performance.arithmetic import instructions_of
from tilelang.performance.chain import by_few_warp_groups, softmax_instructions, step_cycles, thread_cycles
from tilelang.performance.values import Values
from tilelang.records import record
from tilelang.targets.machine import Machine, Rates

_ROW = 15  # cycles of a row of a tile, beside its steps
_MASK = 12.0  # ordinary instructions of an element of a tile with a mask
_SPECULATING_WARP_GROUPS = 3  # so many do without a search for the largest score in steps without masks


@record
class Steps:
    """The steps of a block, on average over the grid.

    Attributes:
        all: How many there are.
        masked: How many of them compute a mask.
    """

    all: float
    masked: float


class ChainWork:
    """What the blocks of a kernel of several products do.

    Args:
        kernel: The kernel.
        extents: Elements along each axis.
    """

    def __init__(self, kernel: FusedKernel, extents: Mapping[Var, int]) -> None:
        self._kernel, self._extents, self._grid = kernel, extents, frozenset(kernel.grid)
        self._passes = data_passes(kernel)
        self._softmax = softmax_step(self._passes[-1], kernel.outputs) if self._passes else None
        self._products = [(r, product) for r in kernel.reductions if (product := contraction(r)) is not None]

    def block_cycles(self, tiling: Tiling, machine: Machine, rates: Rates) -> float:
        """The cycles of a block, on a multiprocessor that computes many of them.

        Args:
            tiling: How the kernel is divided.
            machine: For which machine.
            rates: Those of the machine.
        """
        widths = [
            min(without_widening(operand).dtype.bits for operand in (product.a, product.b))
            for _, product in self._products
        ]
        sizes = [2 * self._elements(tiling, (*r.axes, *r.reduced)) for r, _ in self._products]
        flop = sum(size * max(bits, 8) / 16 for size, bits in zip(sizes, widths, strict=True))
        rows = max(self._elements(tiling, product.rows) for _, product in self._products)
        warp_groups = tiling.threads // (rates.warps_per_group * machine.warp_size)
        threads, masks = self._cycles_of_threads(tiling, rates, warp_groups)
        steps = self.steps(tiling)
        step = step_cycles(flop, threads, warp_groups, rates)
        return _ROW * rows + steps.all * step + steps.masked * by_few_warp_groups(masks, warp_groups)

    def _cycles_of_threads(self, tiling: Tiling, rates: Rates, warp_groups: int) -> tuple[float, float]:
        """The cycles of what threads compute in a step, and of what masks add to it."""
        own, step = [r for r in self._kernel.reductions if contraction(r) is None], self._softmax
        if step is None:
            works = [(instructions_of(r.body, rates, fast_math=False), 1.0, 0.0, r) for r in own]
            of_mask = _MASK
        else:
            scores = _without_masks(step.scores)
            searches = warp_groups < _SPECULATING_WARP_GROUPS or not isinstance(scores, Load)
            ordinary, special = softmax_instructions(searches=searches)
            works = [(instructions_of(scores, rates, fast_math=False), ordinary, special, step.maximum.reduction)]
            of_mask = _MASK + softmax_instructions(searches=True)[0] - ordinary
        threads = masks = 0.0
        for needed, ordinary, special, reduction in works:
            count = self._elements(tiling, (*reduction.axes, *reduction.reduced))
            ordinary += needed.ordinary + needed.conversions
            threads += thread_cycles(count, ordinary, special + needed.special, rates)
            masks += thread_cycles(count, of_mask, 0, rates)
        return threads, masks

    def _elements(self, tiling: Tiling, axes: Iterable[Var]) -> int:
        """Elements that a block computes in a step along some axes."""
        stepped, grid = set(self._kernel.streamed), self._grid

        def size(axis: Var) -> int:
            whole = 1 if axis in grid else self._extents[axis]
            return tiling.blocks.get(axis, whole) if axis in grid or axis in stepped else whole

        return math.prod(map(size, axes))

    def steps(self, tiling: Tiling) -> Steps:
        """The steps of a block on average, as far as masks tell by indices; those that depend on data are masked."""
        kernel, extents, passes = self._kernel, self._extents, self._passes
        divided = [axis for axis in kernel.streamed if axis in tiling.blocks]
        tiles = {axis: -(-extents[axis] // size) for axis, size in tiling.blocks.items()}
        count = math.prod(tiles[axis] for axis in divided) * max(1, len(passes))
        ragged = any(extents[axis] % tiling.blocks[axis] for axis in divided)
        if len(passes) != 1 or len(divided) != 1:
            return Steps(count, int(ragged))
        (axis,) = divided
        placement = place_axes(kernel, tiling)
        masks = masks_of(axis, [reduced_body(each) for each in passes[0].accumulations], TileValues(placement))
        truth = tile_condition(conjunction([mask.expr for mask in masks]), range_of_elements(placement, {}))
        known: dict[Var, Value] = {placement.block_names[each]: size for each, size in tiling.blocks.items()}
        known[placement.steps[axis]] = np.arange(count)
        for each in tiling.blocks:
            for var in variables_of(placement.places[each].origin) - set(known):
                known[var] = np.arange(tiles[each]).reshape(-1, 1)
        values = Values({**{var: 0 for var, _ in placement.grid}, **known})

        def of_tiles(condition: Expr, unknown: bool) -> np.ndarray:
            value = values.of(condition)
            return np.asarray(unknown if value is None else value, bool)

        may, must = of_tiles(truth.may_hold, True), of_tiles(truth.must_hold, False)
        past_end = np.arange(count) >= (count - 1 if ragged else count)
        visited, masked = np.broadcast_arrays(may, may & (~must | past_end))
        return Steps(float(visited.mean() * count), float(masked.mean() * count))


def _without_masks(expr: Expr) -> Expr:
    """Scores as they are where masks keep them."""
    while isinstance(expr, Select):
        expr = expr.a
    return without_widening(expr)
