"""Which tiles a loop visits where a mask depends on values in memory: those of which the mask leaves something.

A kernel before it lists them for each block, by what the mask's condition is on a whole tile (`tile_truth.py`): first
those that it leaves a part of, then those that it leaves whole, on which it need not be computed. A tile that it
excludes adds nothing to what the loop combines, as where `loop_bounds.py` leaves out steps by the indices alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Var, binary, conjunction, conjuncts, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter, loads_of, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel
from tilelang.level1.loop_bounds import bounds_range, combined_by, masks_of
from tilelang.level1.passes import passes_of
from tilelang.level1.placement import Placement, Tiling, next_origin
from tilelang.level1.tile_truth import Range, RangeOf, tile_truth
from tilelang.level1.tile_values import TileValues
from tilelang.records import record

_MIN_TILES = 8  # of a loop whose tiles are worth a list


@record(eq=False)
class VisitedTiles:
    """The tiles along an axis that a kernel's loop visits.

    Attributes:
        axis: The axis.
        condition: The mask: what holds for elements that count.
        grid: The grid of the kernel that lists them: the part of the loop's grid on which the mask depends.
        partial, whole: The lists of tiles of which the mask leaves a part, or everything; a row for each block.
        partial_count, whole_count: How many they are.
        number: The variable of the loop, which counts the tiles.
        partial_of_block: The number of tiles of which it leaves a part, as the block calls it.
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
        """Whether the mask leaves only a part of the current tile."""
        return self.number < self.partial_of_block

    def unless_whole(self, condition: Expr) -> Expr:
        """A condition that need not be computed for tiles that are left whole."""
        return binary(BinaryOp.OR, self.number >= self.partial_of_block, condition)

    def in_mask(self, condition: Expr) -> Expr | None:
        """What `unless_whole` was given; None for other conditions."""
        match condition:
            case Binary(op=BinaryOp.OR, a=Binary(a=number), b=b) if number is self.number:
                return b
        return None


def with_visited_tiles(
    kernel: FusedKernel, tiling: Tiling, placement: Placement
) -> tuple[FusedKernel, VisitedTiles | None]:
    """A kernel whose loop visits listed tiles, if that saves it something, and which these are.

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
    behind = {var for each in variables_of(condition) for var in _variables_of_place(each, placement)}

    def stored(name: str) -> Buffer:
        return Buffer(f"{axis.name}_{name}", (), INT32, Scope.GLOBAL)

    visited = VisitedTiles(
        axis,
        condition,
        tuple((var, extent) for var, extent in placement.grid if var in behind),
        partial=stored("partial"),
        whole=stored("whole"),
        partial_count=stored("partial_count"),
        whole_count=stored("whole_count"),
        number=Var(f"{axis.name}_number", INT32, index=True),
        partial_of_block=Var(f"{axis.name}_masked", INT32),
    )
    unless = _UnlessWhole(visited, set(masks))
    reductions = tuple(dataclasses.replace(r, body=unless.expr(r.body)) for r in kernel.reductions)
    return dataclasses.replace(kernel, reductions=reductions), visited


def _masks(kernel: FusedKernel, tiling: Tiling, placement: Placement) -> list[ExprKey]:
    """The masks by which tiles are listed; none if tiles or loops are small, or if bounds of loops say as much."""
    if len(kernel.streamed) != 1 or kernel.streamed[0] not in tiling.blocks:
        return []
    if all(contraction(reduction) is None for reduction in kernel.reductions):
        return []  # reading a tile costs no more than reading the mask
    (axis,) = kernel.streamed
    size = int_const(kernel.extents[axis])
    if size is not None and size <= (_MIN_TILES - 1) * tiling.blocks[axis]:
        return []
    passes = passes_of(kernel)
    if len(passes) != 1 or passes[0].outputs or not variables_of(kernel.extents[axis]).isdisjoint(kernel.extents):
        return []
    masks = masks_of(axis, [combined_by(each) for each in passes[0].accumulations], TileValues(placement))
    ends = Range(Var("low", INT32), Var("high", INT32))

    def is_known(condition: Expr) -> bool:
        loads = [load for load in loads_of(condition) if is_ranged(load, kernel, placement)]
        ranges = range_of_elements(placement, {expr_key(load): ends for load in loads})
        return not isinstance(tile_truth(condition, ranges).may_hold, Const)

    parts = [part for mask in masks for part in conjuncts(mask.expr)]
    if not any(is_known(part) and not bounds_range(part, axis) for part in parts):
        return []
    return [mask for mask in masks if is_known(mask.expr)]


def is_ranged(load: Load, kernel: FusedKernel, placement: Placement) -> bool:
    """Whether an element of an array in memory varies along one axis of a tile at most."""
    if not load.dtype.is_int and not load.dtype.is_bool:
        return False
    inside = [each.buffer for each in loads_of(load)]
    return not any(buffer in kernel.by_array for buffer in inside) and len(tile_axes(load, placement)) <= 1


def tile_axes(expr: Expr, placement: Placement) -> tuple[Var, ...]:
    """The axes of a tile along which an expression varies."""
    return TileValues(placement).dims(variables_of(expr))


def range_of_elements(placement: Placement, loads: Mapping[ExprKey, Range]) -> RangeOf:
    """The ranges on a tile of axes, by their places, and of elements of arrays, as given."""

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
    """Choices by a mask that do not compute it for tiles that it leaves whole."""

    def __init__(self, visited: VisitedTiles, masks: Set[ExprKey]) -> None:
        self._visited, self._masks = visited, masks

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Select) and expr_key(node.condition) in self._masks:
            return select(self._visited.unless_whole(node.condition), self.expr(node.a), self.expr(node.b))
        return self.rebuild_expr(node)
