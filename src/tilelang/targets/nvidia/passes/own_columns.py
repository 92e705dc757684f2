"""Restricts what a block does with a tile to some of its columns, where other blocks do the same with the rest.

Takes statements that use a tile, gives them for a narrower one. What they make of the tile becomes as narrow: tiles
that it is copied to, fragments beside it in elementwise loops. Invariant: blocks that own all columns together do what
the given statements do, effects on global memory once each; what is not visibly so is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.analysis.accesses import accesses
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.stmt import Alloc, Assert, Atomic, For, If, ParallelLoop, Print, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, variables_of, walk, walk_expr
from tilelang.lowering.regions import axes, is_whole, some_of, whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.records import record

_HELD = (Scope.FRAGMENT, Scope.SHARED)


class Undivided(Exception):
    """Why a block cannot do with some columns, in a few words."""


@record(slots=True)
class Columns:
    """Some columns of a tile.

    Attributes:
        tile: The fragment, of which columns are the last dimension.
        own: The narrower one that takes its place.
        first: The first of the columns.
    """

    tile: Buffer
    own: Buffer
    first: Expr

    @property
    def of_tile(self) -> int:
        """How many columns the tile has."""
        return int_const(self.tile.shape[-1]) or 0

    @property
    def count(self) -> int:
        """How many of them are there."""
        return int_const(self.own.shape[-1]) or 0


def own_columns(columns: Columns, before: Sequence[Stmt], after: Sequence[Stmt]) -> tuple[list[Stmt], list[Stmt]]:
    """The statements before the tile is complete, which touch it only to begin with, and those behind that use it.

    Raises:
        Undivided: Something needs all columns, or would be done by several blocks.
    """
    owned = _owned(columns, [s for each in (*before, *after) for s in walk(each)])
    ahead = {old: new for old, new in owned.items() if old is not columns.tile}
    for stmt in (s for each in (*before, *after) for s in walk(each)):
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None and stmt.buffer.storage in owned:
            raise Undivided(f"'{stmt.buffer.storage.name}' has views")
    return _narrowed(columns, ahead, before), _narrowed(columns, owned, after)


def _narrowed(columns: Columns, owned: dict[Buffer, Buffer], stmts: Sequence[Stmt]) -> list[Stmt]:
    made = [_Narrow(columns, owned).visit(stmt) for stmt in stmts]
    return [stmt for stmt in made if stmt is not None]


# -- which tiles become narrow -------------------------------------------------------------------------------------
def _owned(columns: Columns, stmts: Sequence[Stmt]) -> dict[Buffer, Buffer]:
    """What takes the place of the tile, and of all that is made of it or lies beside it."""
    owned = {columns.tile: columns.own}
    while True:
        found = [b for s in stmts for b in _beside(s, owned, columns.of_tile) if b not in owned]
        for buffer in found:
            shape = (*buffer.shape[:-1], const(columns.count, INT32))
            owned.setdefault(buffer, Buffer(f"{buffer.name}_own", shape, buffer.dtype, buffer.scope, loc=buffer.loc))
        if not found:
            return owned


def _beside(stmt: Stmt, owned: dict[Buffer, Buffer], count: int) -> list[Buffer]:
    """Tiles that a statement needs as narrow as those that are."""
    if isinstance(stmt, Copy):
        made = [stmt.dst] if stmt.src.buffer in owned and stmt.dst.buffer.scope in _HELD else []
        needed = [stmt.src] if stmt.dst.buffer in owned and stmt.src.buffer.scope is Scope.FRAGMENT else []
        return [region.buffer for region in (*made, *needed)]
    if isinstance(stmt, ParallelLoop) and (var := _column_var(stmt, owned)) is not None:
        inside = {s.buffer for s in walk(stmt) if isinstance(s, Alloc)}
        stored = [(s.buffer, s.indices) for s in walk(stmt) if isinstance(s, Store) and s.buffer.scope in _HELD]
        loaded = [(e.buffer, e.indices) for e in _loads(stmt) if e.buffer.scope is Scope.FRAGMENT]
        pairs = [(buffer, indices) for buffer, indices in (*stored, *loaded) if buffer not in inside]
        return [b for b, indices in pairs if indices and indices[-1] is var and int_const(b.shape[-1]) == count]
    return []


def _loads(stmt: Stmt) -> list[Load]:
    found = (e for s in walk(stmt) for root in expressions(s) for e in walk_expr(root))
    return [e for e in found if isinstance(e, Load)]


def _column_var(nest: ParallelLoop, owned: dict[Buffer, Buffer]) -> Var | None:
    """The variable that counts the columns in an elementwise loop over a tile; None if it is over none.

    Raises:
        Undivided: There is not one such variable.
    """
    pairs = [(s.buffer, s.indices) for s in walk(nest) if isinstance(s, Store)]
    pairs += [(e.buffer, e.indices) for e in _loads(nest)]
    last = [indices[-1] for buffer, indices in pairs if buffer in owned]
    if not last:
        return None
    var = last[0]
    if not isinstance(var, Var) or var not in set(nest.vars) or any(other is not var for other in last):
        raise Undivided(f"line {nest.loc.line}: a loop does not go over the columns one by one")
    return var


# -- what statements become ----------------------------------------------------------------------------------------
class _Narrow(Rewriter):
    def __init__(self, columns: Columns, owned: dict[Buffer, Buffer]) -> None:
        self._columns, self._owned = columns, owned

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Seq() | For() | If():
                self._check_control(node)
                return self.rebuild_stmt(node)
            case Alloc(buffer=buffer):
                return dataclasses.replace(node, buffer=self._owned.get(buffer, buffer))
            case ParallelLoop() if _column_var(node, self._owned) is not None:
                return self._nest(node)
            case Copy() if node.src.buffer in self._owned or node.dst.buffer in self._owned:
                return self._copy(node)
            case Fill() if node.dst.buffer in self._owned and is_whole(node.dst):
                return dataclasses.replace(node, dst=whole(self._owned[node.dst.buffer]))
        self._check_repeatable(node)
        return node

    def expr(self, node: Expr) -> Expr:
        return node

    def _check_control(self, node: Stmt) -> None:
        if any(isinstance(e, Load) and e.buffer in self._owned for root in expressions(node) for e in walk_expr(root)):
            raise Undivided(f"{_line(node)}one element of a tile decides what is done")

    def _check_repeatable(self, node: Stmt) -> None:
        """Refuses what several blocks would do."""
        for access in accesses(node).all:
            if access.buffer in self._owned:
                raise Undivided(f"{_line(node)}all columns of '{access.buffer.name}' are needed")
            if access.write and access.buffer.scope is Scope.GLOBAL:
                raise Undivided(f"{_line(node)}'{access.buffer.name}' is written otherwise than column by column")
        if any(isinstance(s, Print | Assert | Atomic) for s in walk(node)):
            raise Undivided(f"{_line(node)}something must be done once")

    def _copy(self, node: Copy) -> Copy:
        if node.layout is not None or node.coalesced_width is not None:
            raise Undivided(f"{_line(node)}a copy says which thread moves what")
        return dataclasses.replace(node, src=self._columns_of(node.src, node), dst=self._columns_of(node.dst, node))

    def _columns_of(self, region: Region, near: Stmt) -> Region:
        """The columns of a region."""
        if region.buffer in self._owned:
            if not is_whole(region):
                raise Undivided(f"{_line(near)}a part of '{region.buffer.name}' is copied")
            return whole(self._owned[region.buffer])
        axis = axes(region)[-1] if axes(region) else None
        if axis is None or int_const(region.extent[axis]) != self._columns.of_tile:
            raise Undivided(f"{_line(near)}columns lie along another dimension of '{region.buffer.name}'")
        return some_of(region, axis, self._columns.first, self._columns.count)

    def _nest(self, node: ParallelLoop) -> ParallelLoop:
        var = _column_var(node, self._owned)
        assert var is not None
        place = next(place for place, other in enumerate(node.vars) if other is var)
        if node.layout is not None or int_const(node.extents[place]) != self._columns.of_tile:
            raise Undivided(f"{_line(node)}a loop says which thread does what, or is over some columns")
        body = _Elements(node, var, self._columns, self._owned).visit(node.body) or Seq((), loc=node.loc)
        count = const(self._columns.count, INT32)
        extents = (*node.extents[:place], count, *node.extents[place + 1 :])
        return dataclasses.replace(node, extents=extents, body=body)


class _Elements(Rewriter):
    """The body of an elementwise loop over fewer columns."""

    def __init__(self, nest: ParallelLoop, var: Var, columns: Columns, owned: dict[Buffer, Buffer]) -> None:
        self._nest, self._var, self._owned = nest, var, owned
        self._column = var + columns.first
        self._inside = {s.buffer for s in walk(nest) if isinstance(s, Alloc)}

    def expr(self, node: Expr) -> Expr:
        if node is self._var:
            return self._column
        if isinstance(node, Load) and node.buffer in self._owned:
            return Load(self._owned[node.buffer], self._indices(node.indices), node.dtype)
        if isinstance(node, Load) and node.buffer.scope is Scope.FRAGMENT and node.buffer not in self._inside:
            if any(self._var in variables_of(index) for index in node.indices):
                raise Undivided(f"{_line(self._nest)}'{node.buffer.name}' is not read column by column")
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Store) and node.buffer in self._owned:
            indices = self._indices(node.indices)
            return dataclasses.replace(
                node, buffer=self._owned[node.buffer], indices=indices, value=self.expr(node.value)
            )
        if isinstance(node, Store | Atomic) and node.buffer.scope.on_chip and node.buffer not in self._inside:
            raise Undivided(f"{_line(self._nest)}'{node.buffer.name}' collects something of all columns")
        return self.rebuild_stmt(node)

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if any(self._var in variables_of(index) for index in indices[:-1]):
            raise Undivided(f"{_line(self._nest)}a loop does not go over the columns one by one")
        return (*(self.expr(index) for index in indices[:-1]), self._var)


def _line(stmt: Stmt) -> str:
    return f"line {stmt.loc.line}: " if stmt.loc.line else ""
