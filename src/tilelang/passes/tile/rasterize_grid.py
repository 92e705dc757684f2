"""Rasterizes the grid in panels for `T.use_swizzle`, so that concurrent blocks share tiles in L2.

Takes a tile-level function; a launch that asks for panels gets fresh block indices, from which the user's own are
computed at the beginning of the block. Invariant: the map from the fresh indices to the user's is a bijection of the
grid, whatever its extents, and the user's indices are visibly within the grid, so proofs about them still succeed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.expr import Expr, Var, binary, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_NAMES = ("block_x", "block_y", "block_z")


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _Rasterize().visit(func.body))


class _Rasterize(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Launch):
            return rasterized(node)
        return self.rebuild_stmt(node)


def rasterized(launch: Launch) -> Launch:
    """The launch with its blocks in panels, if it asks for them.

    Blocks start in the order of their linear index, x fastest. With order "row", `panel_size` rows of the grid make a
    panel, which is walked column by column; with order "column" it is the other way round. The last panel has what is
    left. A third dimension stays as it is. Grids of one dimension have no panels, and those of clusters keep the
    neighborhoods that the hardware gives them.
    """
    if launch.hints.swizzle is None or len(launch.grid) < 2 or launch.hints.cluster != (1, 1, 1):
        return launch
    fresh = tuple(Var(name, INT32, index=True) for name, _ in zip(_NAMES, launch.grid, strict=False))
    width, height = launch.grid[:2]
    name = Names(launch.loc)
    size, order = launch.hints.swizzle
    if order == "row":  # a panel is some whole rows, so the number of a block, which may be large, is not needed
        inside = fresh[0] + fresh[1] % size * width
        x, y = _in_panel(fresh[1] // size * size, inside, (width, height), launch.hints.swizzle, name)
    else:
        linear = name("block", fresh[0] + fresh[1] * width)
        x, y = in_panels(linear, (width, height), launch.hints.swizzle, name)
    binds = [*name.binds, *bound(launch.block_vars[:2], (x, y), launch.loc)]
    body = launch.body.body if isinstance(launch.body, Seq) else (launch.body,)
    return dataclasses.replace(
        launch,
        block_vars=(*fresh[:2], *launch.block_vars[2:]),
        hints=dataclasses.replace(launch.hints, swizzle=None),
        body=Seq((*binds, *body), loc=launch.body.loc),
    )


class Names:
    """Gives values names, in the order of `binds`."""

    def __init__(self, loc: Loc) -> None:
        self._loc = loc
        self.binds: list[Stmt] = []

    def __call__(self, text: str, value: Expr) -> Expr:
        """A new variable bound to a value."""
        var = Var(text, INT32, index=True)
        self.binds.append(Bind(var, value, loc=self._loc))
        return var


def bound(variables: Sequence[Var], values: Sequence[Expr], loc: Loc) -> list[Stmt]:
    """Statements that give the variables these values."""
    return [Bind(var, value, loc=loc) for var, value in zip(variables, values, strict=True)]


def in_panels(linear: Expr, extents: tuple[Expr, Expr], panels: tuple[int, str], name: Names) -> tuple[Expr, Expr]:
    """Where the walk in panels is at its step `linear`: along the width and along the height.

    Args:
        linear: The number of steps before, smaller than the area.
        extents: Width and height of what is walked over, without being empty.
        panels: How many rows or columns make a panel, and which of the two, as `T.use_swizzle` is told.
        name: Takes what is computed on the way.
    """
    size, order = panels
    area = (extents[0] if order == "row" else extents[1]) * size
    return _in_panel(linear // area * size, linear % area, extents, panels, name)


def _in_panel(
    first: Expr, inside: Expr, extents: tuple[Expr, Expr], panels: tuple[int, str], name: Names
) -> tuple[Expr, Expr]:
    """The same from the first row (or column) of the panel, and the number of steps before in the panel."""
    size, order = panels
    along, across = extents if order == "row" else extents[::-1]  # a panel reaches along one dimension
    # a block of the grid has a panel with at least one row, and lies within the grid: both are said for later proofs
    rows = name("panel", _largest(smallest(const(size, INT32), across - first), const(1, INT32)))
    position = smallest(inside // rows, along - 1)
    row = smallest(first + inside % rows, across - 1)
    return (position, row) if order == "row" else (row, position)


def smallest(a: Expr, b: Expr) -> Expr:
    """The smaller one of two values."""
    return binary(BinaryOp.MIN, a, b)


def _largest(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.MAX, a, b)


PASS = Pass(
    "rasterize_grid", _run, Level.TILE, Level.TILE,
    requires=(Property.PERSISTENT_LOOPS,),
    establishes=(Property.GRID_RASTERIZED,),
    invalidates=(Property.GRID_AS_WRITTEN,),
)
