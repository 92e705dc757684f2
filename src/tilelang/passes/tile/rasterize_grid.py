"""Walks the grid in panels where the kernel says `T.use_swizzle`, so that blocks that run together share tiles in L2.

Takes a tile-level function; a launch that asks for panels gets fresh block indices, from which the user's own are
computed at the beginning of the block. Invariant: the map from the fresh indices to the user's is a bijection of the
grid, whatever its extents, and the user's indices are visibly within the grid, so proofs about them still succeed.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Var, binary, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.passes.base import Pass, PassContext

_NAMES = ("block_x", "block_y", "block_z")


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    body = _Rasterize().visit(func.body) or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


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
    panel_size, order = launch.hints.swizzle
    fresh = tuple(Var(name, INT32, index=True) for name, _ in zip(_NAMES, launch.grid, strict=False))
    binds: list[Stmt] = []

    def name(text: str, value: Expr) -> Expr:
        var = Var(text, INT32, index=True)
        binds.append(Bind(var, value, loc=launch.loc))
        return var

    width, height = launch.grid[:2]
    x, y = launch.block_vars[:2]
    along, across = (width, height) if order == "row" else (height, width)  # a panel reaches along one dimension
    linear = name("block", fresh[0] + fresh[1] * width)
    first = linear // (along * panel_size) * panel_size
    # a block of the grid has a panel with at least one row, and lies within the grid: both are said for later proofs
    rows = name("panel", _largest(_smallest(const(panel_size, INT32), across - first), const(1, INT32)))
    inside = linear % (along * panel_size)
    position = _smallest(inside // rows, along - 1)
    row = _smallest(first + inside % rows, across - 1)
    binds.append(Bind(x, position if order == "row" else row, loc=launch.loc))
    binds.append(Bind(y, row if order == "row" else position, loc=launch.loc))
    body = launch.body.body if isinstance(launch.body, Seq) else (launch.body,)
    return dataclasses.replace(
        launch,
        block_vars=(*fresh[:2], *launch.block_vars[2:]),
        body=Seq((*binds, *body), loc=launch.body.loc),
    )


def _smallest(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.MIN, a, b)


def _largest(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.MAX, a, b)


PASS = Pass("rasterize_grid", _run, Level.TILE, Level.TILE)
