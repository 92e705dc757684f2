"""Lets parallel loops over a part of a fragment run over all of it, so that each element is used where it is held.

    for i, j in T.Parallel(4, N):            for i, j in T.Parallel(64, N):
        B[i, j] = acc[i + k, j]         =>       if i >= k and i < k + 4:
                                                     B[i - k, j] = acc[i, j]

Takes a nest and its accesses to a fragment, gives the nest over the whole fragment; the threads that hold other
elements do nothing. Invariant: the iterations that do something, and what they do, are those of the nest before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from tilelang.analysis.accesses import Access, Context
from tilelang.analysis.tile_uses import NestUse
from tilelang.arith.affine import Sum, to_expr
from tilelang.arith.interval import analysis_of
from tilelang.arith.ranges import Interval
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Load, Var, conjunction, const, int_const
from tilelang.ir.stmt import Bind, For, If, ParallelLoop, Stmt, Store, While
from tilelang.ir.visit import Rewriter, jumps, substitute_stmt, variables_of, walk, walk_expr
from tilelang.records import record


@record
class _Place:
    """A subscript: a variable of the nest, or none, and what is added to it."""

    var: Var | None
    rest: Expr


def widened(nest: ParallelLoop, uses: Sequence[NestUse], accessed: Sequence[Access]) -> ParallelLoop | None:
    """The nest over all of a fragment of which it uses a part; None if it does not, or uses it in other ways, too.

    Args:
        nest: The outermost parallel loop, of constant extents.
        uses: The accesses to the fragment in the nest.
        accessed: All accesses in the nest.
    """
    buffer = uses[0].access.buffer
    shape = buffer.static_shape
    extents = [int_const(extent) for extent in nest.extents]
    if shape is None or None in extents or nest.layout is not None:
        return None
    places = [_places(use, nest) for use in uses]
    first = places[0]
    if first is None or any(other is None or _keys(other) != _keys(first) for other in places):
        return None
    named = [place.var for place in first if place.var is not None]
    if len(set(named)) < len(named):
        return None
    extent_of = dict(zip(nest.vars, extents, strict=True))
    changed = {
        axis
        for axis, place in enumerate(first)
        if shape[axis] > 1 and (place.var is None or extent_of[place.var] != shape[axis] or int_const(place.rest) != 0)
    }
    moved = {first[axis].var for axis in changed}
    if not changed or any(_uses_otherwise(access, buffer, moved) for access in accessed):
        return None
    if not _stay_inside(uses, changed, shape):
        return None
    if None in moved and any(access.write and access.buffer is not buffer for access in accessed):
        return None  # iterations that differ in a new dimension alone would write one element
    return _over_all(nest, buffer, shape, first, changed)


def _stay_inside(uses: Sequence[NestUse], axes: Collection[int], shape: Sequence[int]) -> bool:
    """Whether every iteration names an element: those that a test keeps away may do something else."""
    if any(_is_certain(use) for use in uses):
        return True
    access = uses[0].access
    analysis = analysis_of(access.context.named(uses[0].domain))
    return all(analysis.bounds(access.start[axis]).within(Interval(0, shape[axis] - 1)) for axis in axes)


def _is_certain(use: NestUse) -> bool:
    """Whether every iteration makes an access; what is accessed on the chip is there."""
    step: Context | None = use.access.context
    uncertain = use.access.context.uncertain
    while step is not None and step.loop is not use.nest:
        if step.condition is not None or isinstance(step.loop, For | While):
            return False
        step = step.outer
    return step is not None and uncertain == step.uncertain and not jumps(use.nest.body)


def _places(use: NestUse, nest: ParallelLoop) -> list[_Place] | None:
    """The subscripts of an access; None if one is no variable of the nest, plus what stays the same in all of it."""
    access = use.access
    if access.extent is not None:
        return None
    analysis = analysis_of(access.context.named(use.domain))
    inside = {s.var for s in walk(nest.body) if isinstance(s, Bind | For)}
    found = []
    for index in access.start:
        total = analysis.sum(index)
        var, rest = None, Sum({}, total.constant)
        for term, coefficient in total.terms.items():
            variables = {node for key in term for node in walk_expr(key.expr) if isinstance(node, Var)}
            if variables.isdisjoint(nest.vars):
                rest = rest.plus(Sum({term: coefficient}, 0))
            elif var is None and len(term) == 1 and coefficient == 1 and isinstance(term[0].expr, Var):
                var = term[0].expr
            else:
                return None
        expr = to_expr(rest)
        if any(isinstance(node, Load) or node in inside for node in walk_expr(expr)):
            return None
        found.append(_Place(var, expr))
    return found


def _keys(places: Sequence[_Place]) -> list[object]:
    return [(id(place.var), expr_key(place.rest)) for place in places]


def _uses_otherwise(access: Access, buffer: Buffer, moved: set[Var | None]) -> bool:
    """Whether an access is to the same registers by another name, or to others by variables that change."""
    if access.buffer is buffer or access.buffer.scope is not Scope.FRAGMENT:
        return False
    named = {var for index in access.start for var in variables_of(index)}
    return access.buffer.storage is buffer.storage or not named.isdisjoint(moved)


def _over_all(
    nest: ParallelLoop, buffer: Buffer, shape: tuple[int, ...], places: Sequence[_Place], changed: set[int]
) -> ParallelLoop:
    new: list[Expr] = []  # subscripts of the fragment
    before: list[Var] = []  # of dimensions that the nest did not have
    replaced: dict[Var, Var] = {}
    values: dict[Var, Expr] = {}
    tests: list[Expr] = []
    extents = dict(zip(nest.vars, nest.extents, strict=True))
    for axis, place in enumerate(places):
        if axis not in changed:
            new.append(place.rest if place.var is None else place.var)
            continue
        size = const(shape[axis], INT32)
        var = Var("i" if place.var is None else place.var.name, INT32, index=True)
        new.append(var)
        if place.var is None:
            before.append(var)
            tests.append(var == place.rest)
        else:
            start, count = place.rest, extents[place.var]
            end = start + count
            first = int_const(start)
            tests += [] if first == 0 else [var >= start]
            tests += [] if first is not None and first + (int_const(count) or 0) >= shape[axis] else [var < end]
            replaced[place.var] = var
            values[place.var] = var if first == 0 else var - start
        extents[var] = size
    body = _Named(buffer, tuple(new)).visit(nest.body) or nest.body
    inner = If(conjunction(tests), substitute_stmt(body, values), loc=nest.body.loc)
    variables = (*before, *(replaced.get(var, var) for var in nest.vars))
    return dataclasses.replace(nest, vars=variables, extents=tuple(extents[var] for var in variables), body=inner)


class _Named(Rewriter):
    """Gives all accesses to a fragment the same subscripts."""

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self._buffer, self._indices = buffer, indices

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer is self._buffer:
            return Load(node.buffer, self._indices, node.dtype)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        if isinstance(made, Store) and made.buffer is self._buffer:
            return dataclasses.replace(made, indices=self._indices)
        return made

