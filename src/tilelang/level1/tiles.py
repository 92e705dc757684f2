"""How a kernel is divided into tiles, for a machine."""

from __future__ import annotations

import math

from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.visit import loads_of
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.placement import Tiling
from tilelang.targets.target import Target

_LARGE = 1 << 30  # stands for extents that are not known
_ELEMENTS = 4096  # of a tile that is computed element by element
_WHOLE_ROW = 16384  # elements of rows that a block holds at once
_MAX_TILED = 3  # axes of the grid
_THREADS = 128


def choose_tiling(kernel: FusedKernel, target: Target) -> Tiling:
    """The tiling with which a kernel is expected to be fastest."""
    products = [each for each in map(_product_axes, kernel.reductions) if each is not None]
    if products:
        return _of_products(kernel)
    return _of_rows(kernel) if kernel.reductions else _of_elements(kernel)


def _extent(kernel: FusedKernel, axis: Var) -> int:
    return int_const(kernel.extents[axis]) or _LARGE


def _power_of_two(value: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(0, value - 1).bit_length()


def _of_elements(kernel: FusedKernel) -> Tiling:
    blocks: dict[Var, int] = {}
    left = _ELEMENTS
    for axis in list(reversed(kernel.grid))[:_MAX_TILED]:
        blocks[axis] = min(_power_of_two(_extent(kernel, axis)), left)
        left //= blocks[axis]
        if left < 2:
            break
    return Tiling(blocks, _THREADS, 1)


def _of_rows(kernel: FusedKernel) -> Tiling:
    """A few rows for each block, whole if they fit."""
    width = math.prod(_extent(kernel, axis) for axis in kernel.extents if axis not in set(kernel.grid))
    blocks: dict[Var, int] = {}
    if width > _WHOLE_ROW:
        blocks[kernel.streamed[-1]] = min(_ELEMENTS, _power_of_two(_extent(kernel, kernel.streamed[-1])))
    held = blocks[kernel.streamed[-1]] if blocks else width
    if kernel.grid:
        row = kernel.grid[-1]
        wanted = max(1, _ELEMENTS // max(held, 1), 32 if _is_contiguous(kernel, row) else 1)
        blocks[row] = min(_power_of_two(_extent(kernel, row)), 1 << (wanted.bit_length() - 1))
    threads = _THREADS if held <= _ELEMENTS else 2 * _THREADS
    return Tiling(blocks, threads, 2)


def _is_contiguous(kernel: FusedKernel, axis: Var) -> bool:
    """Whether some array is read along an axis by neighbouring elements."""
    loads = [load for reduction in kernel.reductions for load in loads_of(reduction.body)]
    return any(_last_index(load) is axis for load in loads if load.buffer not in kernel.by_array)


def _last_index(load: Load) -> Expr | None:
    return load.indices[-1] if load.indices else None


def _product_axes(reduction: FusedReduction) -> tuple[tuple[Var, ...], tuple[Var, ...]] | None:
    """The axes of rows and columns of a reduction that is a matrix product."""
    product = contraction(reduction)
    return None if product is None else (product.rows, product.columns)


def _of_products(kernel: FusedKernel) -> Tiling:
    blocks: dict[Var, int] = {}
    grid = set(kernel.grid)
    for reduction in kernel.reductions:
        for side in _product_axes(reduction) or ():
            divided = [axis for axis in side if axis in grid]
            if len(divided) == len(side) and not any(axis in blocks for axis in side):
                blocks[side[-1]] = min(128, max(16, _power_of_two(_extent(kernel, side[-1]))))
    for reduction in kernel.reductions:
        last = reduction.reduced[-1]
        if reduction in kernel.accumulated or _extent(kernel, last) > 512:
            blocks[last] = min(64 if len(kernel.reductions) > 1 else 32, max(16, _power_of_two(_extent(kernel, last))))
    return Tiling(blocks, _THREADS, 2 if len(kernel.reductions) > 1 else 3)

