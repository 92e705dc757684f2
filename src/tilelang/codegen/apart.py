"""Takes what unrolled loops add to an address out of its index arithmetic, which is then the same in every iteration.

    &A[base + i * 1024 + 4096]  =>  &A[base] + (i * 1024 + 4096)

Takes the place of an access and the variables of the unrolled loops around it, gives the part that stays and what the
variables add to it. Invariant: the sum of both is the place. Compilers cannot do this: a sum in `int` that is widened
to an address would have to be known not to overflow when it is taken apart; so each iteration would widen its own,
where one address and a literal in the instruction would do.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.analysis.strides import stride_along
from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Expr, Var, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import substitute
from tilelang.records import record

_REACH = 2**31  # what moves further is no `int`


@record
class Moves:
    """What is added to a part that stays: `constant + sum(factors[v] * v)`."""

    factors: Mapping[Var, int]
    constant: int = 0


def take_address_apart(
    buffer: Buffer, start: tuple[Expr, ...], unrolled: Mapping[Var, int]
) -> tuple[tuple[Expr, ...], Moves]:
    """A place in the first iteration of unrolled loops, and what these add to it, in elements.

    Args:
        buffer: What the place is in; literals are taken out of places in flat shared memory too.
        start: The indices.
        unrolled: The variables of the unrolled loops around, each with its largest value.
    """
    factors: dict[Var, int] = {}
    for var, last in unrolled.items():
        step = stride_along(buffer, start, var)
        if step and abs(step) * last < _REACH:
            start = tuple(_at_zero(index, var) for index in start)
            factors[var] = step
    constant = 0
    if buffer.scope is Scope.SHARED and len(start) == 1:
        rest, constant = _without_literals(start[0])
        start = (rest,)
    return start, Moves(factors, constant)


def _at_zero(index: Expr, var: Var) -> Expr:
    return simplify(substitute(index, {var: const(0, var.dtype)}), Domain())


def _without_literals(expr: Expr) -> tuple[Expr, int]:
    """A sum without its literals, and their sum."""
    known = int_const(expr)
    if known is not None:
        return const(0, expr.dtype), known
    if isinstance(expr, Binary) and expr.op is BinaryOp.ADD and expr.is_index:
        (a, x), (b, y) = _without_literals(expr.a), _without_literals(expr.b)
        if x + y:
            return (b if int_const(a) == 0 else a if int_const(b) == 0 else a + b), x + y
    return expr, 0
