"""Implementation of `layout/symbols.py`: operations of layouts on index expressions.

Takes index expressions, gives index variables, bounds as expressions, and proofs. Invariant: a bound holds for all
values of the variables below their extents.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Const, Expr, ExprLike, Var, as_expr, int_const
from tilelang.ir.scalar import BinaryOp


def variables(names: Sequence[str]) -> tuple[Var, ...]:
    """Index variables of these names."""
    return tuple(Var(name, INT32, index=True) for name in names)


def simplified(index: ExprLike, variables: Sequence[Var], extents: Sequence[ExprLike]) -> int | Expr:
    """A simplified index expression of the same value for all values of the variables."""
    return _plain(simplify(as_expr(index), _below(variables, extents)))


def largest(index: ExprLike, variables: Sequence[Var], extents: Sequence[ExprLike]) -> int | Expr:
    """The largest value of an index expression whose variables range from 0 to these extents.

    Raises:
        ProgramError: No bound is found, or the expression may be negative.
    """
    domain = _below(variables, extents)
    simple = simplify(as_expr(index), domain)
    found = _largest(simple, dict(zip(variables, map(as_expr, extents), strict=True)), domain)
    low = bounds(simple, domain).low
    if found is None or low is None or low < 0:
        raise ProgramError(
            "T.Layout: an index function of symbolic extents has no provable bounds",
            hint="build it of sums, multiples, // and % by constants",
        )
    return _plain(found)


def _largest(index: Expr, last: dict[Var, Expr], domain: Domain) -> Expr | None:
    """An upper bound, or None. All parts are at least 0, or literals."""
    high = bounds(index, domain).high
    if high is not None:
        return as_expr(high)
    match index:
        case Var() if index in last:
            return simplify(last[index] - 1)
        case Binary(op=BinaryOp.ADD, a=a, b=b):
            ends = _largest(a, last, domain), _largest(b, last, domain)
            return None if ends[0] is None or ends[1] is None else simplify(ends[0] + ends[1])
        case Binary(op=BinaryOp.MUL, a=a, b=b):
            ends = _largest(a, last, domain), _largest(b, last, domain)
            return None if ends[0] is None or ends[1] is None else simplify(ends[0] * ends[1])
        case Binary(op=BinaryOp.FLOORDIV, a=a, b=Const() as divisor) if (int_const(divisor) or 0) > 0:
            end = _largest(a, last, domain)
            return None if end is None else simplify(end // divisor)
    return None


def are_same(one: ExprLike, other: ExprLike, variables: Sequence[Var], extents: Sequence[ExprLike]) -> bool:
    """Whether two index expressions are proven to have the same value for all values of the variables."""
    return proves(as_expr(one) == as_expr(other), _below(variables, extents))


def key(value: ExprLike) -> ExprKey:
    """A key, equal for structurally equal expressions only."""
    return expr_key(as_expr(value))


def _plain(expr: Expr) -> int | Expr:
    number = int_const(expr)
    return expr if number is None else number


def _below(variables: Sequence[Var], extents: Sequence[ExprLike]) -> Domain:
    domain = Domain()
    for extent in extents:
        if isinstance(extent, Var):
            domain = domain.with_range(extent, 1, None)
    return domain.with_extents(variables, extents)
