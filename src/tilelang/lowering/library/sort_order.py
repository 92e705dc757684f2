"""Comparisons of `T.sort` and related operators, as expressions.

Invariant: NaN is greater than all numbers and equal to NaN, so the order is total. All parts of a comparison are
evaluated, since a branch for each element costs more than a comparison.
"""

from __future__ import annotations

from tilelang.ir.expr import Expr, binary, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp


def follows(a: Expr, b: Expr) -> Expr:
    """Whether a is greater than b."""
    if not a.dtype.is_float:
        return binary(BinaryOp.GT, a, b)
    only_a_is_nan = _and(binary(BinaryOp.NE, a, a), binary(BinaryOp.EQ, b, b))
    return _or(binary(BinaryOp.GT, a, b), only_a_is_nan)


def same(a: Expr, b: Expr) -> Expr:
    """Whether two elements are equal."""
    equal = binary(BinaryOp.EQ, a, b)
    if not a.dtype.is_float:
        return equal
    return _or(equal, _and(binary(BinaryOp.NE, a, a), binary(BinaryOp.NE, b, b)))


def comes_after(a: Expr, b: Expr, positions: tuple[Expr, Expr] | None, *, descending: bool) -> Expr:
    """Whether a comes after b: by key, and by index for equal keys."""
    first, then = (b, a) if descending else (a, b)
    after = follows(first, then)
    if positions is None:
        return after
    return _or(after, _and(unary(UnaryOp.NOT, follows(then, first)), binary(BinaryOp.GT, *positions)))


def both(a: Expr, b: Expr) -> Expr:
    """Whether two conditions hold, of which the second is evaluated only if the first holds."""
    return binary(BinaryOp.AND, a, b)


def _and(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.BITAND, a, b)


def _or(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.BITOR, a, b)
