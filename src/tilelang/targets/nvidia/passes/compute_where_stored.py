"""Computes results where they are stored, instead of all of them in place before.

    for i, j in T.Parallel(m, n):                            for i, j in T.Parallel(m, n):
        C[i, j] = gelu(C[i, j] + bias[j])                        C[i, j] = C[i, j] + bias[j]
    wait until the copy engine has read the staging tile  => wait until the copy engine has read the staging tile
    for i, j in T.Parallel(m, n):                            for i, j in T.Parallel(m, n):
        staging[i, j] = float16(C[i, j])                         staging[i, j] = float16(gelu(C[i, j]))

An instruction stores few results, and what they are computed from is dead after it. Of a loop over all of them ptxas
13.0 and 13.5 begin every step before they end the first one, and spill what does not fit: beside 192 of 240 registers
for the accumulators of a gated MLP 6 to 9 registers, and 4 of a GELU beside 128. Loads of memory stay in front, where
all of them are in flight at once.

Takes a tile-level function with flat parallel loops. Invariant: each element is stored with the value that it had.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence

from tilelang.analysis.tile_uses import static_extents
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Alloc, Bind, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, accessed_buffers, loads_of, substitute, walk, walk_expr, written_buffers
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_MOST_NODES = 100  # of an expression with what its names stand for, which may grow exponentially
_REGISTERS = (Scope.FRAGMENT, Scope.LOCAL, Scope.VAR)


class _ComputeWhereStored(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            statements: Sequence[Stmt] = node.body
            for tile in (s.buffer for s in node.body if isinstance(s, Alloc) and s.buffer.scope is Scope.FRAGMENT):
                statements = _computed_where_stored(tile, statements)
            node = with_statements(node, statements)
        return self.rebuild_stmt(node)


def _computed_where_stored(tile: Buffer, statements: Sequence[Stmt]) -> Sequence[Stmt]:
    """The statements of the sequence that allocates a tile, which may end with storing what was computed in it."""
    users = [place for place, stmt in enumerate(statements) if _accesses(stmt, tile)]
    place = next((place for place in reversed(users) if not _stores(statements[place], tile)), 0)
    loop, storing = statements[place], [user for user in users if user > place]
    value = _value_of_each(loop, tile)
    if not storing or value is None or not isinstance(loop, ParallelLoop):
        return statements
    if sum(math.prod(_extents(statements[user])) for user in storing) > math.prod(tile.static_shape or ()):
        return statements  # some results would be computed twice
    split = _split(value, Load(tile, loop.vars, tile.dtype))
    if split is None:
        return statements
    early, late = split
    meanwhile = {b.storage for s in statements[place + 1 : storing[-1]] for t in walk(s) for b in written_buffers(t)}
    if meanwhile & {load.buffer.storage for load in loads_of(late)}:
        return statements
    replaced = list(statements)
    for user in storing:
        replaced[user] = _Compute(tile, loop.vars, late).visit(statements[user]) or statements[user]
    kept = () if early is None else (dataclasses.replace(loop, body=Store(tile, loop.vars, early, loc=loop.body.loc)),)
    return (*replaced[:place], *kept, *replaced[place + 1 :])


# -- what the statements do -----------------------------------------------------------------------------------------
def _accesses(stmt: Stmt, tile: Buffer) -> bool:
    """Whether a statement accesses a tile, or makes a view of it."""
    below = tuple(walk(stmt))
    views = any(isinstance(s, Alloc) and s.buffer.view_of is not None and s.buffer.storage is tile for s in below)
    return views or any(buffer.storage is tile for s in below for buffer in accessed_buffers(s))


def _only_store(stmt: Stmt) -> Store | None:
    """The store of an elementwise loop that does nothing else, but to name parts of what it stores."""
    if not isinstance(stmt, ParallelLoop) or stmt.layout is not None or static_extents(stmt) is None:
        return None
    parts: dict[Var, Expr] = {}
    for step in statements_of(stmt.body):
        if isinstance(step, Store) and step is statements_of(stmt.body)[-1]:
            indices = tuple(substitute(index, parts) for index in step.indices)
            return dataclasses.replace(step, indices=indices, value=substitute(step.value, parts)) if parts else step
        if not isinstance(step, Bind):
            return None
        parts[step.var] = value = substitute(step.value, parts)
        if sum(1 for _ in walk_expr(value)) > _MOST_NODES:
            return None
    return None


def _extents(stmt: Stmt) -> tuple[int, ...]:
    return (static_extents(stmt) if isinstance(stmt, ParallelLoop) else None) or ()


def _stores(stmt: Stmt, tile: Buffer) -> bool:
    """Whether a loop stores something to shared memory that it makes of one element of a tile."""
    store = _only_store(stmt)
    if store is None or store.buffer.scope is not Scope.SHARED:
        return False
    loads = [load for load in loads_of(store.value) if load.buffer.storage is tile]
    elsewhere = any(load.buffer.storage is tile for index in store.indices for load in loads_of(index))
    return not elsewhere and {load.buffer for load in loads} == {tile} and len(set(map(expr_key, loads))) == 1


def _value_of_each(stmt: Stmt, tile: Buffer) -> Expr | None:
    """The value that a loop gives to each element of a tile; None if it does not.

    Of the tile itself an iteration uses its own element, since others may be overwritten before.
    """
    store = _only_store(stmt)
    if store is None or store.buffer is not tile or _extents(stmt) != tile.static_shape:
        return None
    assert isinstance(stmt, ParallelLoop)
    in_order = len(store.indices) == len(stmt.vars) and all(map(operator.is_, store.indices, stmt.vars))
    return store.value if in_order and store.value.dtype == tile.dtype else None


# -- values ---------------------------------------------------------------------------------------------------------
def _split(value: Expr, element: Load) -> tuple[Expr | None, Expr] | None:
    """What is computed in place, if anything, and the value as computed from an element that holds that.

    What is computed in place is the smallest part that has all loads of memory and all uses of the element; None if
    that is the value itself.
    """
    if not _loads_memory(value):
        return None, value
    parts = [part for part in walk_expr(value) if part.dtype == element.dtype and _loads_memory(part)]
    for part in sorted(parts, key=lambda part: sum(1 for _ in walk_expr(part))):
        held = Var("held", element.dtype)
        late = _Replace(expr_key(part), held).expr(value)
        if part is not value and not any(_is_early(load, element.buffer) for load in loads_of(late)):
            return part, substitute(late, {held: element})
    return None


def _loads_memory(value: Expr) -> bool:
    return any(load.buffer.scope not in _REGISTERS for load in loads_of(value))


def _is_early(load: Load, tile: Buffer) -> bool:
    return load.buffer.storage is tile or load.buffer.scope not in _REGISTERS


class _Replace(Rewriter):
    """Puts a variable in the place of all equal parts of an expression."""

    def __init__(self, part: ExprKey, held: Var) -> None:
        self._part, self._held = part, held

    def expr(self, node: Expr) -> Expr:
        return self._held if expr_key(node) == self._part else self.rebuild_expr(node)


class _Compute(Rewriter):
    """Puts values in the place of loads of the elements of a tile."""

    def __init__(self, tile: Buffer, variables: Sequence[Var], value: Expr) -> None:
        self._tile, self._variables, self._value = tile, variables, value

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer is self._tile:
            return substitute(self._value, dict(zip(self._variables, node.indices, strict=True)))
        return self.rebuild_expr(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _ComputeWhereStored().visit(func.body))


PASS = Pass(
    "compute_where_stored", _run, Level.TILE, Level.TILE,
    requires=(Property.OPERATORS_EXPANDED, Property.PARALLEL_LOOPS_FLAT),
)
