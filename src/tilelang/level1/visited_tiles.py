"""Block-sparse masks that depend on values in memory: which tiles a loop visits.

A kernel before the loop lists the tiles for each block, by evaluating the mask on whole tiles (`tile_condition.py`):
first partial tiles, of which the mask keeps some elements, then whole tiles, of which it keeps all, so that it need not
be computed there. Tiles of which it keeps nothing are skipped, as `loop_bounds.py` skips steps by indices alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, KeyedExpr, expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Var, binary, conjunction, conjuncts, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter, loads_of, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fused import FusedKernel
from tilelang.level1.loop_bounds import bounds_range, masks_of, reduced_body
from tilelang.level1.placement import Placement, Tiling, next_origin
from tilelang.level1.tile_condition import Range, RangeOf, tile_condition
from tilelang.level1.tile_values import TileValues
from tilelang.records import record

_MIN_TILES = 8  # of a loop whose tiles are worth a list


@record(eq=False)
class VisitedTiles:
    """The tiles along an axis that a kernel's loop visits.

    Attributes:
        axis: The axis.
        condition: The mask: true for elements that are kept.
        grid: The grid of the kernel that lists them: the part of the loop's grid on which the mask depends.
        partial, whole: The lists of partial and whole tiles; a row for each block.
        partial_count, whole_count: Their lengths.
        number: The variable of the loop, which counts the tiles.
        partial_of_block: The variable with the number of the block's partial tiles.
    """

    axis: Var
    condition: Expr
    grid: tuple[tuple[Var, Expr], ...]
    partial: Buffer
    whole: Buffer
    partial_count: Buffer
    whole_count: Buffer
    number: Var
    partial_of_block: Var

    @property
    def is_partial(self) -> Expr:
        """Whether the current tile is partial."""
        return self.number < self.partial_of_block

    def unless_whole(self, condition: Expr) -> Expr:
        """A condition that is not computed for whole tiles."""
        return binary(BinaryOp.OR, self.number >= self.partial_of_block, condition)

    def in_mask(self, condition: Expr) -> Expr | None:
        """The argument of `unless_whole` that gave a condition; None for other conditions."""
        match condition:
            case Binary(op=BinaryOp.OR, a=Binary(a=number), b=b) if number is self.number:
                return b
        return None


def with_visited_tiles(
    kernel: FusedKernel, tiling: Tiling, placement: Placement
) -> tuple[FusedKernel, VisitedTiles | None]:
    """The kernel, with a loop over listed tiles if that skips any, and the lists.

    Args:
        kernel: What is computed.
        tiling: How it is divided.
        placement: Where that puts its axes.
    """
    masks = _masks(kernel, tiling, placement)
    if not masks:
        return kernel, None
    (axis,) = kernel.streamed
    condition = conjunction(mask.expr for mask in masks)

    def workspace(name: str) -> Buffer:
        return Buffer(f"{axis.name}_{name}", (), INT32, Scope.GLOBAL)

    visited = VisitedTiles(
        axis,
        condition,
        _grid_of(condition, placement),
        partial=workspace("partial"),
        whole=workspace("whole"),
        partial_count=workspace("partial_count"),
        whole_count=workspace("whole_count"),
        number=Var(f"{axis.name}_number", INT32, index=True),
        partial_of_block=Var(f"{axis.name}_masked", INT32),
    )
    unless = _UnlessWhole(visited, set(masks))
    reductions = tuple(dataclasses.replace(r, body=unless.expr(r.body)) for r in kernel.reductions)
    return dataclasses.replace(kernel, reductions=reductions), visited


def _masks(kernel: FusedKernel, tiling: Tiling, placement: Placement) -> list[KeyedExpr]:
    """The masks by which tiles are listed; none for short loops, or if loop bounds already express them."""
    if len(kernel.streamed) != 1 or kernel.streamed[0] not in tiling.blocks:
        return []
    if all(contraction(reduction) is None for reduction in kernel.reductions):
        return []  # loading a tile costs no more than loading the mask
    (axis,) = kernel.streamed
    size = int_const(kernel.extents[axis])
    if size is not None and size <= (_MIN_TILES - 1) * tiling.blocks[axis]:
        return []
    passes = data_passes(kernel)
    if len(passes) != 1 or passes[0].outputs or not variables_of(kernel.extents[axis]).isdisjoint(kernel.extents):
        return []
    masks = masks_of(axis, [reduced_body(each) for each in passes[0].accumulations], TileValues(placement))
    ends = Range(Var("low", INT32), Var("high", INT32))

    def is_known(condition: Expr) -> bool:
        loads = [load for load in loads_of(condition) if is_ranged(load, kernel, placement)]
        ranges = range_of_elements(placement, {expr_key(load): ends for load in loads})
        return not isinstance(tile_condition(condition, ranges).may_hold, Const)

    parts = [part for mask in masks for part in conjuncts(mask.expr)]
    if not any(is_known(part) and not bounds_range(part, axis) for part in parts):
        return []
    return [mask for mask in masks if is_known(mask.expr)]


def _grid_of(expr: Expr, placement: Placement) -> tuple[tuple[Var, Expr], ...]:
    """The part of a kernel's grid on which an expression depends."""
    behind = {var for each in variables_of(expr) for var in _variables_of_place(each, placement)}
    return tuple((var, extent) for var, extent in placement.grid if var in behind)


def is_ranged(load: Load, kernel: FusedKernel, placement: Placement) -> bool:
    """Whether lists depend on an element of an array in memory.

    It varies along one axis of a tile at most, or it is read for several blocks: along the listed axis and another one.
    """
    if not load.dtype.is_int and not load.dtype.is_bool:
        return False
    if any(each.buffer in kernel.by_array for each in loads_of(load)):
        return False
    axes = tile_axes(load, placement)
    if len(axes) == 2 and kernel.streamed[0] in set(axes):
        own = _grid_of(load, placement)
        return any(int_const(extent) != 1 for var, extent in placement.grid if var not in dict(own))
    return len(axes) <= 1


def tile_axes(expr: Expr, placement: Placement) -> tuple[Var, ...]:
    """The axes of a tile along which an expression varies."""
    return TileValues(placement).dims(variables_of(expr))


def range_of_elements(placement: Placement, loads: Mapping[ExprKey, Range]) -> RangeOf:
    """The function that gives the ranges of axes on a tile, and of loads as given."""

    def range_of(expr: Expr) -> Range | None:
        if isinstance(expr, Load):
            return loads.get(expr_key(expr))
        if not isinstance(expr, Var):
            return None
        place = placement.places.get(expr)
        if place is None or place.local is None:
            point = expr if place is None else place.origin
            return Range(point, point)
        return Range(place.origin, binary(BinaryOp.MIN, next_origin(place), place.extent) - 1)

    return range_of


def _variables_of_place(axis: Var, placement: Placement) -> frozenset[Var]:
    place = placement.places.get(axis)
    return frozenset() if place is None else variables_of(place.origin)


class _UnlessWhole(Rewriter):
    """Selects by a mask, which is not computed for whole tiles."""

    def __init__(self, visited: VisitedTiles, masks: Set[ExprKey]) -> None:
        self._visited, self._masks = visited, masks

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Select) and expr_key(node.condition) in self._masks:
            return select(self._visited.unless_whole(node.condition), self.expr(node.a), self.expr(node.b))
        return self.rebuild_expr(node)
