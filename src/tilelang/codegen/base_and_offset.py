"""Splits an address into a base that unrolled loops share and an offset that depends on them.

    &A[base + i * 1024 + 4096]  =>  &A[base] + (i * 1024 + 4096)

Takes the indices of an access and the variables of the unrolled loops around it, gives the base and the offset that
depends on these variables. Invariant: their sum is the address. Compilers cannot do this, since they cannot prove that
the `int` sum does not overflow before it is widened to an address: each iteration would compute its own address instead
of one address and an immediate offset.
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

_INT_LIMIT = 2**31  # exclusive bound of offsets in `int`


@record
class Offset:
    """An offset that depends on unrolled loops: `constant + sum(factors[v] * v)`."""

    factors: Mapping[Var, int]
    constant: int = 0


def split_address(
    buffer: Buffer, start: tuple[Expr, ...], unrolled: Mapping[Var, int]
) -> tuple[tuple[Expr, ...], Offset]:
    """The indices of the first iteration of unrolled loops, and the offset of the others, in elements.

    Args:
        buffer: The accessed buffer; in flat shared memory, literals are moved to the offset too.
        start: The indices.
        unrolled: The variables of enclosing unrolled loops, each with its largest value.
    """
    factors: dict[Var, int] = {}
    for var, last in unrolled.items():
        step = stride_along(buffer, start, var)
        if step and abs(step) * last < _INT_LIMIT:
            start = tuple(_with_zero(index, var) for index in start)
            factors[var] = step
    constant = 0
    if buffer.scope is Scope.SHARED and len(start) == 1:
        rest, constant = _without_literals(start[0])
        start = (rest,)
    return start, Offset(factors, constant)


def _with_zero(index: Expr, var: Var) -> Expr:
    return simplify(substitute(index, {var: const(0, var.dtype)}), Domain())


def _without_literals(expr: Expr) -> tuple[Expr, int]:
    """A sum without its literals, and their sum."""
    constant = int_const(expr)
    if constant is not None:
        return const(0, expr.dtype), constant
    if isinstance(expr, Binary) and expr.op is BinaryOp.ADD and expr.is_index:
        (a, x), (b, y) = _without_literals(expr.a), _without_literals(expr.b)
        if x + y:
            return (b if int_const(a) == 0 else a if int_const(b) == 0 else a + b), x + y
    return expr, 0
