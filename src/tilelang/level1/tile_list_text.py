"""The kernel that lists the tiles of which a mask keeps something, and the statements by which a loop visits them.

A block of the listing kernel serves all blocks of the loop's kernel that have the same mask. It reduces the elements
that the mask reads to their ranges: once for those in the rows of the block, and chunk by chunk for those in tiles
along the listed axis, of those that vary along rows as well row by row. Positions past the end read the last element,
which changes no range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Const, Expr, Load, Var, binary, cast, conjunction
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of, substitute
from tilelang.level1.fused import ZERO, FusedKernel
from tilelang.level1.launch_text import INDENT, count_text, launch_lines
from tilelang.level1.placement import ONE, Place, Placement, next_origin
from tilelang.level1.tile_condition import Range, tile_condition
from tilelang.level1.tile_values import TileValues
from tilelang.level1.visited_tiles import VisitedTiles, is_ranged, range_of_elements, tile_axes

_CHUNK = 32  # tiles that a block classifies in one step
_THREADS = 128


def list_workspaces(visited: VisitedTiles, placement: Placement, names: ExprPrinter) -> list[str]:
    """The allocations of the lists."""
    values = TileValues(placement)
    rows = [count_text(var, extent, values, names) for var, extent in visited.grid]
    tiles = _tile_count(visited, placement, names)
    shapes = [(visited.partial, [*rows, tiles]), (visited.whole, [*rows, tiles])]
    shapes += [(visited.partial_count, rows or ["1"]), (visited.whole_count, rows or ["1"])]
    return [
        f'{names.name(buffer)} = T.alloc_global(({", ".join(shape)}{"," * (len(shape) == 1)}), "int32")'
        for buffer, shape in shapes
    ]


def visiting_lines(visited: VisitedTiles, placement: Placement, stages: int, names: ExprPrinter) -> list[str]:
    """A line before the loop over the listed tiles, its header, and the first lines of its body."""
    here = ", ".join(names.name(var) for var, _ in visited.grid)
    count = names.name(visited.partial_of_block)
    partial, whole = (f"{names.name(buffer)}[{here or 0}]" for buffer in (visited.partial_count, visited.whole_count))
    number, step = names.name(visited.number), names.name(placement.steps[visited.axis])
    row = f"{here}, " if here else ""
    first = f"{names.name(visited.partial)}[{row}{number}]"
    later = f"{names.name(visited.whole)}[{row}{number} - {count}]"
    return [
        f"{count} = {partial}",
        f"for {number} in T.Pipelined({count} + {whole}, num_stages={stages}):",
        f"{step} = T.if_then_else({number} < {count}, {first}, {later})",
        f"T.assume({step} >= 0 and {step} < {_tile_count(visited, placement, names)})",
    ]


def listing_lines(
    visited: VisitedTiles, kernel: FusedKernel, placement: Placement, names: ExprPrinter
) -> list[str]:
    """The kernel that lists the tiles.

    Args:
        visited: The tiles.
        kernel: The kernel whose loop visits them.
        placement: The places of its axes.
        names: How expressions are printed.
    """
    with names.scope():
        return _ListingText(visited, kernel, placement, names).lines()


def _tile_count(visited: VisitedTiles, placement: Placement, names: ExprPrinter) -> str:
    place = placement.places[visited.axis]
    return count_text(placement.steps[visited.axis], place.extent, TileValues(placement), names)


class _ListingText:
    """Writes the kernel that lists tiles."""

    def __init__(
        self, visited: VisitedTiles, kernel: FusedKernel, placement: Placement, names: ExprPrinter
    ) -> None:
        self._visited, self._names = visited, names
        self._tiles = _tile_count(visited, placement, names)
        self._chunk, self._tile = (Var(name, INT32, index=True) for name in ("chunk", "tile"))
        self._number = self._chunk * _CHUNK + self._tile
        place = placement.places[visited.axis]
        own = dataclasses.replace(place, origin=self._number * place.size)
        self._placement = dataclasses.replace(placement, places={**placement.places, visited.axis: own})
        self._values = TileValues(self._placement)
        loads = {expr_key(load): load for load in loads_of(visited.condition)}
        self._loads = [load for load in loads.values() if is_ranged(load, kernel, placement)]
        self._allocations: list[str] = []

    def lines(self) -> list[str]:
        """The text."""
        visited, names = self._visited, self._names
        header = launch_lines(visited.grid, self._count, _THREADS, names)
        ranges: dict[ExprKey, Range] = {}
        before: list[str] = []
        inside: list[str] = []
        for load in self._loads:
            axes = tile_axes(load, self._placement)
            lines, ranges[expr_key(load)] = self._range(load, axes)
            (inside if visited.axis in set(axes) else before).extend(lines)
        truth = tile_condition(visited.condition, range_of_elements(self._placement, ranges))
        place = self._placement.places[visited.axis]
        whole, whole_place = (self._fragment(name, (_CHUNK,)) for name in ("whole", "whole_place"))
        partial, partial_place = (self._fragment(name, (_CHUNK,)) for name in ("partial", "partial_place"))
        whole_seen, partial_seen = (self._fragment(name, (1,)) for name in ("whole_seen", "partial_seen"))
        within = next_origin(place) <= place.extent
        exists = place.origin < place.extent
        rest = Load(whole, (self._tile,), INT32) == 0
        inside += self._for_tiles(whole, conjunction([within, truth.must_hold]))
        inside += self._for_tiles(partial, conjunction([rest, exists, truth.may_hold]))
        inside += [
            f"T.cumsum({names.name(source)}, {names.name(target)}, dim=0)"
            for source, target in ((partial, partial_place), (whole, whole_place))
        ]
        for kind, at_end, seen, tiles in (
            (partial, partial_place, partial_seen, visited.partial),
            (whole, whole_place, whole_seen, visited.whole),
        ):
            inside += self._append(kind, at_end, seen, tiles)
        chunks = f"T.ceildiv({self._tiles}, {_CHUNK})"
        body = [
            *before,
            *(f"T.clear({names.name(seen)})" for seen in (partial_seen, whole_seen)),
            f"for {names.name(self._chunk)} in T.serial({chunks}):",
            *(INDENT + line for line in inside),
            *(
                f"{names.name(count)}[{self._here or 0}] = {names.name(seen)}[0]"
                for count, seen in ((visited.partial_count, partial_seen), (visited.whole_count, whole_seen))
            ),
        ]
        return [*header, *(INDENT + line for line in (*self._allocations, *body))]

    def _count(self, var: Var, extent: Expr) -> str:
        return count_text(var, extent, self._values, self._names)

    @property
    def _here(self) -> str:
        """The row of a list that belongs to the block."""
        return ", ".join(self._names.name(var) for var, _ in self._visited.grid)

    def _range(self, load: Load, axes: Sequence[Var]) -> tuple[list[str], Range]:
        """The statements that reduce a load to its range on each tile, and the range."""
        if not axes:
            value = _as_int(self._values.localized(load))
            return [], Range(value, value)
        names, dtype, places = self._names, _as_int(load).dtype, self._placement.places
        listed = self._visited.axis in set(axes)
        axis = self._visited.axis if listed else axes[0]
        last: dict[Var, Expr] = {each: binary(BinaryOp.MIN, each, places[each].extent - 1) for each in axes}
        value_text = names.expr(_as_int(self._values.localized(substitute(load, last))))
        over: list[tuple[Var, Expr]] = [(self._tile, Const(_CHUNK, INT32))] if listed else []
        over.append((_local_of(places[axis]), places[axis].size))
        variables = [var for var, _ in over]

        def fragment(name: str, shape: Sequence[Expr | int]) -> Buffer:
            return self._fragment(f"{load.buffer.name}_{name}", shape, dtype)

        header = f"for {_list_of(variables, names)} in T.Parallel({_list_of([size for _, size in over], names)}):"
        rows = [places[each] for each in axes if each is not axis]
        if rows:
            tiles = [fragment(name, [size for _, size in over]) for name in ("lowest", "highest")]
            lines = _combined_rows(rows[0], header, tiles, variables, value_text, names)
        else:
            tiles = [fragment("tile", [size for _, size in over])] * 2
            lines = [header, f"{INDENT}{names.element(tiles[0], variables)} = {value_text}"]
        ends = [fragment(name, (_CHUNK,) if listed else (1,)) for name in ("low", "high")]
        lines += [
            f"T.reduce_{function}({names.name(tile)}, {names.name(end)}, dim={len(over) - 1})"
            for function, tile, end in zip(("min", "max"), tiles, ends, strict=True)
        ]
        low, high = (Load(end, (self._tile if listed else ZERO,), dtype) for end in ends)
        return lines, Range(low, high)

    def _for_tiles(self, target: Buffer, condition: Expr) -> list[str]:
        """Stores a condition for each tile of the chunk."""
        names = self._names
        value = cast(self._values.localized(condition), INT32)
        return [
            f"for {names.name(self._tile)} in T.Parallel({_CHUNK}):",
            f"{INDENT}{names.element(target, [self._tile])} = {names.expr(value)}",
        ]

    def _append(self, kind: Buffer, place: Buffer, seen: Buffer, tiles: Buffer) -> list[str]:
        """Appends the tiles of a kind to their list."""
        names, row = self._names, f"{self._here}, " if self._here else ""
        tile = names.name(self._tile)
        at = f"{names.name(seen)}[0] + {names.name(place)}[{tile}] - 1"
        return [
            f"for {tile} in T.Parallel({_CHUNK}):",
            f"{INDENT}if {names.name(kind)}[{tile}] != 0:",
            f"{INDENT * 2}{names.name(tiles)}[{row}{at}] = {names.expr(self._number)}",
            f"T.reduce_sum({names.name(kind)}, {names.name(seen)}, dim=0, clear=False)",
        ]

    def _fragment(self, name: str, shape: Sequence[Expr | int], dtype: DType = INT32) -> Buffer:
        sizes = tuple(Const(size, INT32) if isinstance(size, int) else size for size in shape) or (ONE,)
        buffer = Buffer(name, sizes, dtype, Scope.FRAGMENT)
        made = f'T.alloc_fragment({self._names.items(sizes)}, "{dtype!s}")'
        self._allocations.append(f"{self._names.name(buffer)} = {made}")
        return buffer


def _combined_rows(
    row: Place, header: str, tiles: Sequence[Buffer], variables: Sequence[Var], value: str, names: ExprPrinter
) -> list[str]:
    """The statements that combine the rows of a value, element by element, into the least and the greatest ones."""
    dtype = tiles[0].dtype
    starts = zip(tiles, ("max", "min"), strict=True)
    updates = zip(tiles, ("min", "max"), strict=True)
    return [
        *(f'T.fill({names.name(tile)}, T.{end}_value("{dtype!s}"))' for tile, end in starts),
        f"for {names.name(_local_of(row))} in T.serial({names.expr(row.size)}):",
        f"{INDENT}{header}",
        *(
            f"{INDENT * 2}{(element := names.element(tile, variables))} = T.{function}({element}, {value})"
            for tile, function in updates
        ),
    ]


def _local_of(place: Place) -> Var:
    assert place.local is not None, "an axis of a tile"
    return place.local


def _list_of(values: Sequence[Expr], names: ExprPrinter) -> str:
    return ", ".join(map(names.expr, values))


def _as_int(value: Expr) -> Expr:
    """A value that can be reduced: a bool as 0 or 1."""
    return cast(value, INT32) if value.dtype.is_bool else value
