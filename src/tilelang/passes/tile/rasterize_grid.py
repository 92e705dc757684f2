"""Rasterizes the grid in panels for `T.use_swizzle`, so that concurrent blocks share tiles in L2.

Takes a tile-level function; a launch with a `T.use_swizzle` request gets new block indices, from which the user's are
computed at the start of the block. Invariant: the map from the new indices to the user's is a bijection of the grid,
for all extents, and the user's indices are provably within the grid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.expr import Expr, Var, binary, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
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
    """The launch with its blocks rasterized in panels, if it requests them.

    Blocks start in the order of their linear index, x fastest. With order "row", a panel is `panel_size` rows of the
    grid, traversed column by column; with order "column", the reverse. The last panel may be smaller. A third dimension
    is unchanged. One-dimensional grids have no panels, and grids with clusters keep the order of the hardware.
    """
    if launch.hints.swizzle is None or len(launch.grid) < 2 or launch.hints.cluster != (1, 1, 1):
        return launch
    fresh = tuple(Var(name, INT32, index=True) for name, _ in zip(_NAMES, launch.grid, strict=False))
    width, height = launch.grid[:2]
    name = Names(launch.loc)
    size, order = launch.hints.swizzle
    if order == "row":  # a panel is whole rows, so the linear index, which may be large, is not needed
        inside = fresh[0] + fresh[1] % size * width
        x, y = _in_panel(fresh[1] // size * size, inside, (width, height), launch.hints.swizzle, name)
    else:
        linear = name("block", fresh[0] + fresh[1] * width)
        x, y = in_panels(linear, (width, height), launch.hints.swizzle, name)
    binds = [*name.binds, *bound(launch.block_vars[:2], (x, y), launch.loc)]
    body = statements_of(launch.body)
    return dataclasses.replace(
        launch,
        block_vars=(*fresh[:2], *launch.block_vars[2:]),
        hints=dataclasses.replace(launch.hints, swizzle=None),
        body=Seq((*binds, *body), loc=launch.body.loc),
    )


class Names:
    """Binds values to new variables, in the order of `binds`."""

    def __init__(self, loc: Loc) -> None:
        self._loc = loc
        self.binds: list[Stmt] = []

    def __call__(self, text: str, value: Expr) -> Expr:
        """A new variable bound to a value."""
        var = Var(text, INT32, index=True)
        self.binds.append(Bind(var, value, loc=self._loc))
        return var


def bound(variables: Sequence[Var], values: Sequence[Expr], loc: Loc) -> list[Stmt]:
    """Bindings of the variables to the values."""
    return [Bind(var, value, loc=loc) for var, value in zip(variables, values, strict=True)]


def in_panels(linear: Expr, extents: tuple[Expr, Expr], panels: tuple[int, str], name: Names) -> tuple[Expr, Expr]:
    """The coordinates of tile number `linear` in a rasterization by panels.

    Args:
        linear: The linear index, less than width times height.
        extents: Width and height of the grid, at least 1.
        panels: Rows or columns of a panel, and which of the two, as in `T.use_swizzle`.
        name: Binds intermediate values.
    """
    size, order = panels
    area = (extents[0] if order == "row" else extents[1]) * size
    return _in_panel(linear // area * size, linear % area, extents, panels, name)


def _in_panel(
    first: Expr, inside: Expr, extents: tuple[Expr, Expr], panels: tuple[int, str], name: Names
) -> tuple[Expr, Expr]:
    """The coordinates, given the first row (or column) of the panel and the linear index within the panel."""
    size, order = panels
    along, across = extents if order == "row" else extents[::-1]  # a panel extends along one dimension
    # explicit bounds for later proofs: a panel has at least one row, and blocks are within the grid
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
    requires=(Property.PERSISTENT_LOOPS_INSERTED,),
    establishes=(Property.GRID_RASTERIZED,),
    invalidates=(Property.GRID_AS_WRITTEN,),
)
