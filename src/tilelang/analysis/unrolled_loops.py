"""Loops whose variable selects a register: which have constant values, and which are short enough to be unrolled.

Registers are not addressable, so a subscript of a fragment must be constant once all loops around it are unrolled.
Takes loops, gives the values of their variables and the loops to unroll. Invariant: a loop in the result runs all its
iterations, without an early exit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.stmt import Bind, For, ForKind, Launch, ParallelLoop, Stmt, Store, TileOp
from tilelang.ir.visit import expressions, jumps, loads_of, sub_statements, walk, walk_expr

MAX_STATEMENTS = 1024
"""Limit of the statements per thread after unrolling a loop for a subscript."""

_OF_OPERATOR = 16  # statements of an operator that do not depend on its elements: addresses, waits


def values(loop: For) -> range | None:
    """The values of a loop's variable, at least one; None if they are not constant."""
    start, stop = int_const(loop.start), int_const(loop.stop)
    if start is None or stop is None or not loop.step:
        return None
    found = range(start, stop, loop.step)
    return found if len(found) else None


def is_unrolled(loop: For) -> bool:
    """Whether the variable of a loop is a constant in every iteration."""
    return loop.kind is ForKind.UNROLLED and loop.unroll_factor is None and values(loop) is not None


def unrolled_variables(launch: Launch) -> dict[Var, range]:
    """The values of the variables of the loops of a launch that are unrolled."""
    loops = [stmt for stmt in walk(launch.body) if isinstance(stmt, For) and is_unrolled(stmt)]
    return {loop.var: found for loop in loops if (found := values(loop)) is not None}


def subscripting(launch: Launch) -> dict[For, frozenset[Buffer]]:
    """The serial loops whose variable subscripts tiles of registers in parallel loops, with these tiles.

    Loops that would become longer than `MAX_STATEMENTS`, or with an early exit, are left out.
    """
    found: dict[For, frozenset[Buffer]] = {}
    for loop in walk(launch.body):
        if not isinstance(loop, For) or loop.kind is not ForKind.SERIAL or values(loop) is None:
            continue
        tiles = frozenset(
            buffer.storage
            for nest in walk(loop.body)
            if isinstance(nest, ParallelLoop)
            for buffer, indices in _elements(nest.body)
            if buffer.scope in (Scope.FRAGMENT, Scope.LOCAL) and _name(indices, loop.var)
        )
        if tiles and not jumps(loop.body) and _length(loop, launch.num_threads) <= MAX_STATEMENTS:
            found[loop] = tiles
    return found


def _elements(body: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """The elements of buffers that a body accesses, as (buffer, subscripts)."""
    for stmt in walk(body):
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.indices
        for root in expressions(stmt):
            yield from ((e.buffer, e.indices) for e in loads_of(root))


def _name(indices: tuple[Expr, ...], var: Var) -> bool:
    return any(node is var for index in indices for node in walk_expr(index))


def _length(stmt: Stmt, threads: int) -> int:
    """The approximate number of statements per thread if all constant loops in a statement are unrolled."""
    match stmt:
        case For(body=body):
            iterations = values(stmt)
            return (1 if iterations is None else len(iterations)) * _length(body, threads)
        case ParallelLoop(extents=extents, body=body):
            total = math.prod(int_const(extent) or 1 for extent in extents)
            return -(-total // threads) * _length(body, threads)
        case TileOp():
            moved = max((math.prod(r.static_extent or (1,)) for r in (*stmt.reads(), *stmt.writes())), default=1)
            return _OF_OPERATOR + -(-moved // threads)
        case Bind():
            return 0
    return max(1, sum(_length(inner, threads) for inner in sub_statements(stmt)))
