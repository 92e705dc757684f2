"""Rewrites parallel loops over a part of a fragment as masked loops over the whole fragment.

    for i, j in T.Parallel(4, N):            for i, j in T.Parallel(64, N):
        B[i, j] = acc[i + k, j]         =>       if i >= k and i < k + 4:
                                                     B[i - k, j] = acc[i, j]

Each element is then used by the threads that hold it; threads with other elements are masked off. Invariant: the
iterations that are not masked, and their effects, are those of the original nest.
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
class _Subscript:
    """A subscript: a variable of the nest (or None) plus an invariant term."""

    var: Var | None
    rest: Expr


def masked_over_fragment(
    nest: ParallelLoop, uses: Sequence[NestUse], accessed: Sequence[Access]
) -> ParallelLoop | None:
    """The nest masked over the whole fragment; None if it accesses all of it, or in other ways, too.

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
    subscripts = [_subscripts(use, nest) for use in uses]
    first = subscripts[0]
    if first is None or any(other is None or _keys(other) != _keys(first) for other in subscripts):
        return None
    named = [subscript.var for subscript in first if subscript.var is not None]
    if len(set(named)) < len(named):
        return None
    extent_of = dict(zip(nest.vars, extents, strict=True))
    changed = {
        axis
        for axis, at in enumerate(first)
        if shape[axis] > 1 and (at.var is None or extent_of[at.var] != shape[axis] or int_const(at.rest) != 0)
    }
    moved = {first[axis].var for axis in changed}
    if not changed or any(_uses_otherwise(access, buffer, moved) for access in accessed):
        return None
    if not _are_in_bounds(uses, changed, shape):
        return None
    if None in moved and any(access.write and access.buffer is not buffer for access in accessed):
        return None  # iterations along a new dimension would write the same element
    return _masked(nest, buffer, shape, first, changed)


def _are_in_bounds(uses: Sequence[NestUse], axes: Collection[int], shape: Sequence[int]) -> bool:
    """Whether every iteration's subscripts are in bounds, as masked ones may do something else."""
    if any(_is_certain(use) for use in uses):
        return True
    access = uses[0].access
    analysis = analysis_of(access.context.named(uses[0].domain))
    return all(analysis.bounds(access.start[axis]).within(Interval(0, shape[axis] - 1)) for axis in axes)


def _is_certain(use: NestUse) -> bool:
    """Whether every iteration executes an access."""
    step: Context | None = use.access.context
    uncertain = use.access.context.uncertain
    while step is not None and step.loop is not use.nest:
        if step.condition is not None or isinstance(step.loop, For | While):
            return False
        step = step.outer
    return step is not None and uncertain == step.uncertain and not jumps(use.nest.body)


def _subscripts(use: NestUse, nest: ParallelLoop) -> list[_Subscript] | None:
    """The subscripts of an access; None if one is not a variable of the nest plus an invariant."""
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
        found.append(_Subscript(var, expr))
    return found


def _keys(subscripts: Sequence[_Subscript]) -> list[object]:
    return [(id(subscript.var), expr_key(subscript.rest)) for subscript in subscripts]


def _uses_otherwise(access: Access, buffer: Buffer, moved: set[Var | None]) -> bool:
    """Whether an access is through a view of the fragment, or to other registers by changed variables."""
    if access.buffer is buffer or access.buffer.scope is not Scope.FRAGMENT:
        return False
    named = {var for index in access.start for var in variables_of(index)}
    return access.buffer.storage is buffer.storage or not named.isdisjoint(moved)


def _masked(
    nest: ParallelLoop, buffer: Buffer, shape: tuple[int, ...], subscripts: Sequence[_Subscript], changed: set[int]
) -> ParallelLoop:
    new: list[Expr] = []  # subscripts of the fragment
    before: list[Var] = []  # variables of new dimensions of the nest
    replaced: dict[Var, Var] = {}
    values: dict[Var, Expr] = {}
    tests: list[Expr] = []
    extents = dict(zip(nest.vars, nest.extents, strict=True))
    for axis, subscript in enumerate(subscripts):
        if axis not in changed:
            new.append(subscript.rest if subscript.var is None else subscript.var)
            continue
        size = const(shape[axis], INT32)
        var = Var("i" if subscript.var is None else subscript.var.name, INT32, index=True)
        new.append(var)
        if subscript.var is None:
            before.append(var)
            tests.append(var == subscript.rest)
        else:
            start, count = subscript.rest, extents[subscript.var]
            end = start + count
            first = int_const(start)
            tests += [] if first == 0 else [var >= start]
            tests += [] if first is not None and first + (int_const(count) or 0) >= shape[axis] else [var < end]
            replaced[subscript.var] = var
            values[subscript.var] = var if first == 0 else var - start
        extents[var] = size
    body = _ReplaceSubscripts(buffer, tuple(new)).visit(nest.body) or nest.body
    inner = If(conjunction(tests), substitute_stmt(body, values), loc=nest.body.loc)
    variables = (*before, *(replaced.get(var, var) for var in nest.vars))
    return dataclasses.replace(nest, vars=variables, extents=tuple(extents[var] for var in variables), body=inner)


class _ReplaceSubscripts(Rewriter):
    """Replaces the subscripts of all accesses to a fragment."""

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self._buffer, self._indices = buffer, indices

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer is self._buffer:
            return Load(node.buffer, self._indices, node.dtype)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        rebuilt = self.rebuild_stmt(node)
        if isinstance(rebuilt, Store) and rebuilt.buffer is self._buffer:
            return dataclasses.replace(rebuilt, indices=self._indices)
        return rebuilt

