"""Strength reduction of addresses: pointers that a loop increments instead of index arithmetic.

    for k:  copy(&A[row * K + k * 32])  =>  p = &A[row * K];  for k, p += 32:  copy(p)

Takes a loop, gives the global addresses that its instructions take, each as the indices of the first iteration and an
increment. Invariant: the incremented pointer equals the address in every iteration that uses it; the first address has
the smallest offset, so that the width of the others suffices for it. Compilers do this for most loops, but not if
strides are only known at run time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import Atomic, Bind, CallStmt, For, ForKind, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, sub_statements, substitute, variables_of, walk
from tilelang.records import record

AddressKey = tuple[Buffer, tuple[ExprKey, ...]]
Steps = tuple[int, ...]  # per index

_MANY = 32  # so many copies of an address that one in common saves more time than its line takes


@record
class PointerIncrement:
    """An address with a constant increment per iteration.

    Attributes:
        start: The indices in the first iteration of the loop, and of unrolled loops inside.
        steps: The increment of each index per iteration.
        unrolled_steps: The increments for the variables of unrolled loops inside.
    """

    start: tuple[Expr, ...]
    steps: Steps
    unrolled_steps: Mapping[Var, Steps]


def address_key(region: Region) -> AddressKey:
    """A key, equal for equal addresses."""
    return region.buffer, tuple(expr_key(index) for index in region.start)


def pointer_increments(loop: For) -> dict[AddressKey, PointerIncrement]:
    """The addresses that a loop can compute by increments, in program order."""
    found: dict[AddressKey, PointerIncrement] = {}
    if loop.step > 0:
        changing = changed_in(loop)
        for region, unrolled in _regions(loop.body, ()):
            place = address_key(region)
            increment = None if place in found else address_increment(region, loop, unrolled, changing)
            if increment is not None:
                found[place] = increment
    return found


def common_addresses(nest: For) -> dict[AddressKey, PointerIncrement]:
    """The elements of global memory that the iterations of unrolled loops access at constants from one address.

    Without that address, a compiler computes one in each iteration, and finds out afterwards what they have in common.

    Args:
        nest: The outermost of the loops.
    """
    found: dict[AddressKey, PointerIncrement] = {}
    for buffer, indices, loops in _elements(nest, ()):
        place = address_key(Region(buffer, indices, ()))
        moves = {loop: _steps(indices, loop.var, 1) for loop in loops}
        moving = {loop.var: steps for loop, steps in moves.items() if steps is not None and any(steps)}
        copies = math.prod(_trips(loop) for loop in loops if loop.var in moving)
        if place in found or None in moves.values() or copies < _MANY:
            continue
        first = {loop.var: loop.start for loop in loops}
        start = tuple(simplify(substitute(index, first), Domain()) for index in indices)
        inside = {nest.var, *changed_in(nest)}
        if not any(variables_of(index) & inside or _loads(index) for index in start):
            found[place] = PointerIncrement(start, (), moving)
    return found


def _trips(loop: For) -> int:
    return len(range(int_const(loop.start) or 0, int_const(loop.stop) or 0, loop.step))


def _elements(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Buffer, tuple[Expr, ...], tuple[For, ...]]]:
    """The accesses to elements in global memory, with the unrolled loops around them, all of which start at 0."""
    if isinstance(stmt, For):
        if stmt.kind is not ForKind.UNROLLED or int_const(stmt.start) != 0 or int_const(stmt.stop) is None:
            return
        loops = (*loops, stmt)
    if isinstance(stmt, Store) and stmt.buffer.scope is Scope.GLOBAL:
        yield stmt.buffer, stmt.indices, loops
    for root in expressions(stmt):
        yield from ((load.buffer, load.indices, loops) for load in loads_of(root) if load.buffer.scope is Scope.GLOBAL)
    for child in sub_statements(stmt):
        yield from _elements(child, loops)


def _regions(stmt: Stmt, unrolled: tuple[Var, ...]) -> Iterator[tuple[Region, tuple[Var, ...]]]:
    """The global addresses that instructions take, with the variables of enclosing unrolled loops."""
    if isinstance(stmt, CallStmt):
        for arg in stmt.args:
            if isinstance(arg, Region) and arg.buffer.scope is Scope.GLOBAL:
                yield arg, unrolled
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED:
        unrolled = (*unrolled, stmt.var)
    for child in sub_statements(stmt):
        yield from _regions(child, unrolled)


def _defined_by(stmt: Stmt) -> Var | None:
    if isinstance(stmt, Bind | For):
        return stmt.var
    return stmt.result if isinstance(stmt, CallStmt | Atomic) else None


def changed_in(loop: For) -> set[Var]:
    """The variables that iterations of a loop define."""
    return {var for stmt in walk(loop.body) if (var := _defined_by(stmt)) is not None}


def address_increment(
    region: Region, loop: For, unrolled: tuple[Var, ...], changing: set[Var]
) -> PointerIncrement | None:
    """The start of a region as a pointer that a loop increments; None if its increment is not constant.

    Args:
        region: It is in the body of the loop.
        loop: The loop.
        unrolled: The variables of unrolled loops inside, around the region.
        changing: What the loop defines; see `changed_in`.
    """
    buffer, start = region.buffer, region.start
    steps = _steps(start, loop.var, loop.step)
    if steps is None or not any(steps) or not _only_increases(buffer, steps):
        return None
    moves = {var: _steps(start, var, 1) for var in unrolled if any(var in variables_of(index) for index in start)}
    first = {loop.var: loop.start, **{var: const(0, var.dtype) for var in moves}}
    start = tuple(simplify(substitute(index, first), Domain()) for index in start)
    if any(variables_of(index) & changing or _loads(index) for index in start):
        return None
    constant_factors = {var: factors for var, factors in moves.items() if factors is not None}
    return PointerIncrement(start, steps, constant_factors) if len(constant_factors) == len(moves) else None


def _steps(start: tuple[Expr, ...], var: Var, count: int) -> Steps | None:
    factors = [coefficient(index, var) for index in start]
    return None if None in factors else tuple((factor or 0) * count for factor in factors)


def _only_increases(buffer: Buffer, steps: Steps) -> bool:
    """Whether all steps are non-negative in memory."""
    strides = buffer.strides or (None,) * len(steps)
    return all(
        step == 0 or step > 0 and (stride is None or (int_const(stride) or -1) > 0)
        for step, stride in zip(steps, strides, strict=True)
    )


def _loads(index: Expr) -> bool:
    return bool(loads_of(index))
