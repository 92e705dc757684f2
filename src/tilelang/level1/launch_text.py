"""The first lines of a kernel: `with T.Kernel(...)` and the variables of its grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.visit import variables_of
from tilelang.level1.tile_values import TileValues

INDENT = "    "


def launch_lines(
    grid: Sequence[tuple[Var, Expr]], count: Callable[[Var, Expr], str], threads: int, names: ExprPrinter
) -> list[str]:
    """The header of a kernel, and the bindings of variables beyond the third.

    Args:
        grid: The variables of the grid and the extents of their axes, the fastest first.
        count: The text of how many blocks there are along one.
        threads: Of a block.
        names: How expressions are printed.
    """
    grid, decoded = list(grid), list[str]()
    counts = [count(var, extent) for var, extent in grid]
    for n, (_, extent) in enumerate(grid):
        if int_const(extent) is None:  # a grid has at least one block; without elements it does nothing
            counts[n] = f"T.max({counts[n]}, 1)"
    if len(grid) > 3:
        merged, grid, sizes = grid[2:], grid[:2], counts[2:]
        block = Var("rest", grid[0][0].dtype, index=True)
        rest = names.name(block)
        for (var, _), size in zip(merged[:-1], sizes, strict=False):
            decoded.append(f"{names.name(var)} = {rest} % {_parenthesized(size)}")
            rest = f"{rest} // {_parenthesized(size)}"
        decoded.append(f"{names.name(merged[-1][0])} = {rest}")
        counts[2:] = [" * ".join(sizes)]
        grid.append((block, merged[0][1]))
    variables = [names.name(var) for var, _ in grid]
    shown = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
    launch = f"with T.Kernel({', '.join([*counts, f'threads={threads}'])})"
    if not grid:
        launch, shown = f"with T.Kernel(1, threads={threads})", "_"
    return [f"{launch} as {shown}:", *(INDENT + line for line in decoded)]


def count_text(var: Var, extent: Expr, values: TileValues, names: ExprPrinter) -> str:
    """How many blocks, or steps of a loop, there are along an axis.

    Args:
        var: The variable that counts them.
        extent: The extent of the axis.
        values: What the block holds.
        names: How expressions are printed.
    """
    for axis, place in values.placement.places.items():
        if place.local is not None and place.ragged and var in variables_of(place.origin):
            size = names.expr(values.placement.block_names[axis])
            return f"T.ceildiv({names.expr(values.localized(extent))}, {size})"
    return names.expr(values.localized(extent))


def _parenthesized(text: str) -> str:
    return f"({text})" if " " in text and not text.endswith(")") else text
