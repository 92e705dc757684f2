"""Partitions an epilogue along N: a block runs it for some columns of accumulators, other blocks for the rest.

Takes statements that use tiles, gives them for narrower ones. Tiles that these are copied to, and fragments beside them
in elementwise loops, are narrowed alike. Invariant: the blocks of all columns together do what the given statements do,
each effect on global memory once; where that is not provable, the partition is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.stmt import Alloc, Assert, Atomic, For, If, ParallelLoop, Print, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, loads_of, variables_of, walk, walk_expr
from tilelang.lowering.regions import axes, is_whole, slice_along, whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.records import record

_ON_CHIP = (Scope.FRAGMENT, Scope.SHARED)


class NotPartitioned(Exception):
    """Why an epilogue cannot be partitioned, in a few words."""


@record(slots=True)
class ColumnPartition:
    """The columns that one block has of tiles with equally many.

    Attributes:
        own: For each accumulator the narrower fragment that replaces it; columns are the last dimension.
        tile_columns: Columns of a whole tile.
        count: Columns of the block.
        first: The first of them.
    """

    own: Mapping[Buffer, Buffer]
    tile_columns: int
    count: int
    first: Expr


def columns_of(tiles: Sequence[Buffer], pieces: int, piece: Expr) -> ColumnPartition:
    """The columns of one of some equal pieces of tiles.

    Args:
        tiles: Tiles with equally many columns, of which `pieces` is a divisor.
        pieces: How many pieces there are.
        piece: The number of the piece.
    """
    columns = int_const(tiles[0].shape[-1]) or 0
    count = columns // pieces

    def narrow(tile: Buffer) -> Buffer:
        shape = (*tile.shape[:-1], const(count, INT32))
        return Buffer(f"{tile.name}_own", shape, tile.dtype, tile.scope, loc=tile.loc)

    return ColumnPartition({tile: narrow(tile) for tile in tiles}, columns, count, piece * count)


def partition_epilogue_n(
    columns: ColumnPartition, before: Sequence[Stmt], after: Sequence[Stmt]
) -> tuple[list[Stmt], list[Stmt]]:
    """The narrowed statements of the prologue, in which the tiles themselves stay whole, and of the epilogue.

    Raises:
        NotPartitioned: Something needs all columns, or must not be run by several blocks.
    """
    narrow = _narrow_tiles(columns, [s for each in (*before, *after) for s in walk(each)])
    in_prologue = {old: new for old, new in narrow.items() if old not in columns.own}
    for stmt in (s for each in (*before, *after) for s in walk(each)):
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None and stmt.buffer.storage in narrow:
            raise NotPartitioned(f"'{stmt.buffer.storage.name}' has views")
    return _narrowed(columns, in_prologue, before), _narrowed(columns, narrow, after)


def _narrowed(columns: ColumnPartition, narrow: dict[Buffer, Buffer], stmts: Sequence[Stmt]) -> list[Stmt]:
    narrowed = [_NarrowTiles(columns, narrow).visit(stmt) for stmt in stmts]
    return [stmt for stmt in narrowed if stmt is not None]


# -- which tiles are narrowed ---------------------------------------------------------------------------------------
def _narrow_tiles(columns: ColumnPartition, stmts: Sequence[Stmt]) -> dict[Buffer, Buffer]:
    """The narrow replacement of the tiles, and of all that are narrowed with them."""
    narrow = dict(columns.own)
    while True:
        found = [b for s in stmts for b in _elementwise_partners(s, narrow, columns.tile_columns) if b not in narrow]
        for buffer in found:
            shape = (*buffer.shape[:-1], const(columns.count, INT32))
            narrow.setdefault(buffer, Buffer(f"{buffer.name}_own", shape, buffer.dtype, buffer.scope, loc=buffer.loc))
        if not found:
            return narrow


def _elementwise_partners(stmt: Stmt, narrow: dict[Buffer, Buffer], count: int) -> list[Buffer]:
    """Tiles that have to be narrowed, since a statement uses them together with narrowed ones."""
    if isinstance(stmt, Copy):
        written = [stmt.dst] if stmt.src.buffer in narrow and stmt.dst.buffer.scope in _ON_CHIP else []
        needed = [stmt.src] if stmt.dst.buffer in narrow and stmt.src.buffer.scope is Scope.FRAGMENT else []
        return [region.buffer for region in (*written, *needed)]
    if isinstance(stmt, ParallelLoop) and (var := _column_var(stmt, narrow)) is not None:
        inside = {s.buffer for s in walk(stmt) if isinstance(s, Alloc)}
        stored = [(s.buffer, s.indices) for s in walk(stmt) if isinstance(s, Store) and s.buffer.scope in _ON_CHIP]
        loaded = [(e.buffer, e.indices) for e in _loads(stmt) if e.buffer.scope is Scope.FRAGMENT]
        pairs = [(buffer, indices) for buffer, indices in (*stored, *loaded) if buffer not in inside]
        return [b for b, indices in pairs if indices and indices[-1] is var and int_const(b.shape[-1]) == count]
    return []


def _loads(stmt: Stmt) -> list[Load]:
    found = (e for s in walk(stmt) for root in expressions(s) for e in walk_expr(root))
    return [e for e in found if isinstance(e, Load)]


def _column_var(nest: ParallelLoop, narrow: dict[Buffer, Buffer]) -> Var | None:
    """The variable of the columns in an elementwise loop over narrowed tiles; None if it uses none.

    Raises:
        NotPartitioned: There is no single such variable.
    """
    pairs = [(s.buffer, s.indices) for s in walk(nest) if isinstance(s, Store)]
    pairs += [(e.buffer, e.indices) for e in _loads(nest)]
    last = [indices[-1] for buffer, indices in pairs if buffer in narrow]
    if not last:
        return None
    var = last[0]
    if not isinstance(var, Var) or var not in set(nest.vars) or any(other is not var for other in last):
        raise NotPartitioned(f"line {nest.loc.line}: a loop does not go over the columns one by one")
    return var


# -- rewriting ----------------------------------------------------------------------------------------------------
class _NarrowTiles(Rewriter):
    def __init__(self, columns: ColumnPartition, narrow: dict[Buffer, Buffer]) -> None:
        self._columns, self._narrow = columns, narrow

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Seq() | For() | If():
                self._check_control(node)
                return self.rebuild_stmt(node)
            case Alloc(buffer=buffer):
                return dataclasses.replace(node, buffer=self._narrow.get(buffer, buffer))
            case ParallelLoop() if _column_var(node, self._narrow) is not None:
                return self._nest(node)
            case Copy() if node.src.buffer in self._narrow or node.dst.buffer in self._narrow:
                return self._copy(node)
            case Fill() if node.dst.buffer in self._narrow and is_whole(node.dst):
                return dataclasses.replace(node, dst=whole(self._narrow[node.dst.buffer]))
        self._check_repeatable(node)
        return node

    def expr(self, node: Expr) -> Expr:
        return node

    def _check_control(self, node: Stmt) -> None:
        if any(e.buffer in self._narrow for root in expressions(node) for e in loads_of(root)):
            raise NotPartitioned(f"{_line(node)}one element of a tile decides what is done")

    def _check_repeatable(self, node: Stmt) -> None:
        """Refuses statements that several blocks must not run."""
        for access in accesses(node).all:
            if access.buffer in self._narrow:
                raise NotPartitioned(f"{_line(node)}all columns of '{access.buffer.name}' are needed")
            if access.write and access.buffer.scope is Scope.GLOBAL:
                raise NotPartitioned(f"{_line(node)}'{access.buffer.name}' is written otherwise than column by column")
        if any(isinstance(s, Print | Assert | Atomic) for s in walk(node)):
            raise NotPartitioned(f"{_line(node)}something must be done once")

    def _copy(self, node: Copy) -> Copy:
        if node.layout is not None or node.coalesced_width is not None:
            raise NotPartitioned(f"{_line(node)}a copy has a layout of its threads")
        return dataclasses.replace(node, src=self._columns_of(node.src, node), dst=self._columns_of(node.dst, node))

    def _columns_of(self, region: Region, near: Stmt) -> Region:
        """The columns of a region."""
        if region.buffer in self._narrow:
            if not is_whole(region):
                raise NotPartitioned(f"{_line(near)}a part of '{region.buffer.name}' is copied")
            return whole(self._narrow[region.buffer])
        axis = axes(region)[-1] if axes(region) else None
        if axis is None or int_const(region.extent[axis]) != self._columns.tile_columns:
            raise NotPartitioned(f"{_line(near)}columns lie along another dimension of '{region.buffer.name}'")
        return slice_along(region, axis, self._columns.first, self._columns.count)

    def _nest(self, node: ParallelLoop) -> ParallelLoop:
        var = _column_var(node, self._narrow)
        assert var is not None
        axis = next(axis for axis, other in enumerate(node.vars) if other is var)
        if node.layout is not None or int_const(node.extents[axis]) != self._columns.tile_columns:
            raise NotPartitioned(f"{_line(node)}a loop has a layout of its threads, or is over some columns")
        body = _Elements(node, var, self._columns, self._narrow).visit(node.body) or Seq((), loc=node.loc)
        count = const(self._columns.count, INT32)
        extents = (*node.extents[:axis], count, *node.extents[axis + 1 :])
        return dataclasses.replace(node, extents=extents, body=body)


class _Elements(Rewriter):
    """Rewrites the body of an elementwise loop for fewer columns."""

    def __init__(self, nest: ParallelLoop, var: Var, columns: ColumnPartition, narrow: dict[Buffer, Buffer]) -> None:
        self._nest, self._var, self._narrow = nest, var, narrow
        self._column = var + columns.first
        self._inside = {s.buffer for s in walk(nest) if isinstance(s, Alloc)}

    def expr(self, node: Expr) -> Expr:
        if node is self._var:
            return self._column
        if isinstance(node, Load) and node.buffer in self._narrow:
            return Load(self._narrow[node.buffer], self._indices(node.indices), node.dtype)
        if isinstance(node, Load) and node.buffer.scope is Scope.FRAGMENT and node.buffer not in self._inside:
            if any(self._var in variables_of(index) for index in node.indices):
                raise NotPartitioned(f"{_line(self._nest)}'{node.buffer.name}' is not read column by column")
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Store) and node.buffer in self._narrow:
            indices = self._indices(node.indices)
            return dataclasses.replace(
                node, buffer=self._narrow[node.buffer], indices=indices, value=self.expr(node.value)
            )
        if isinstance(node, Store | Atomic) and node.buffer.scope.on_chip and node.buffer not in self._inside:
            raise NotPartitioned(f"{_line(self._nest)}'{node.buffer.name}' collects something of all columns")
        return self.rebuild_stmt(node)

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if any(self._var in variables_of(index) for index in indices[:-1]):
            raise NotPartitioned(f"{_line(self._nest)}a loop does not go over the columns one by one")
        return (*(self.expr(index) for index in indices[:-1]), self._var)


def _line(stmt: Stmt) -> str:
    return f"line {stmt.loc.line}: " if stmt.loc.line else ""
