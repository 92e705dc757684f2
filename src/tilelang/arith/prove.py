"""Proofs of conditions.

Takes a condition and a domain, gives True or unknown. Invariant: True only for conditions that hold wherever the facts
of the domain hold.
"""

from __future__ import annotations

from tilelang.arith.affine import Sum
from tilelang.arith.domain import Domain
from tilelang.arith.interval import NEGATED, Analysis, analysis_of
from tilelang.ir.expr import Binary, Const, Expr, Select, Unary
from tilelang.ir.scalar import COMPARISONS, BinaryOp, UnaryOp


def proves(condition: Expr, domain: Domain) -> bool:
    """True only if `condition` is true wherever the facts of `domain` hold."""
    return decide(condition, domain) is True


def proves_with(condition: Expr, analysis: Analysis) -> bool:
    """`proves`, given the analysis of the domain."""
    return _shows(condition, analysis, holds=True)


def decide(condition: Expr, domain: Domain) -> bool | None:
    """True if the condition always holds, False if it never does, None if unknown."""
    return decide_with(condition, analysis_of(domain))


def decide_with(condition: Expr, analysis: Analysis) -> bool | None:
    """`decide`, given the analysis of the domain."""
    if _shows(condition, analysis, holds=True):
        return True
    return False if _shows(condition, analysis, holds=False) else None


def _shows(condition: Expr, analysis: Analysis, *, holds: bool) -> bool:
    """Whether the condition is proven to hold, or not to hold."""
    if not condition.dtype.is_bool:
        interval = analysis.bounds(condition)
        return not interval.contains(0) if holds else interval == (0, 0)
    interval = analysis.bounds(condition)
    if interval.low is not None and interval.low == interval.high:
        return bool(interval.low) is holds
    match condition:
        case Const(value=value):
            return bool(value) is holds
        case Unary(op=UnaryOp.NOT, a=a):
            return _shows(a, analysis, holds=not holds)
        case Binary(op=BinaryOp.AND | BinaryOp.OR, a=a, b=b):
            if (condition.op is BinaryOp.AND) is holds:  # both are needed
                return _shows(a, analysis, holds=holds) and _shows(b, analysis, holds=holds)
            if _shows(a, analysis, holds=holds):  # one is enough; the second may rely on the first not deciding
                return True
            return _shows(b, analysis.inside(a, holds=not holds), holds=holds)
        case Binary(op=op, a=a, b=b) if op in COMPARISONS:
            return _shows_comparison(condition, analysis, op if holds else NEGATED[op])
        case Select(condition=test, a=a, b=b):
            yes, no = analysis.inside(test, holds=True), analysis.inside(test, holds=False)
            return _shows(a, yes, holds=holds) and _shows(b, no, holds=holds)
    return False


def _shows_comparison(condition: Binary, analysis: Analysis, op: BinaryOp) -> bool:
    a, b = condition.a, condition.b
    if not a.dtype.is_int or not (a.is_index and b.is_index or analysis.is_exact(condition)):
        return False
    gap = analysis.sum(b).plus(analysis.sum(a), -1)
    match op:
        case BinaryOp.LT:
            return analysis.is_nonnegative(gap.plus(Sum({}, -1)))
        case BinaryOp.LE:
            return analysis.is_nonnegative(gap)
        case BinaryOp.GT:
            return analysis.is_nonnegative(gap.times(-1).plus(Sum({}, -1)))
        case BinaryOp.GE:
            return analysis.is_nonnegative(gap.times(-1))
        case BinaryOp.EQ:
            return analysis.is_nonnegative(gap) and analysis.is_nonnegative(gap.times(-1))
    common = gap.divisor
    if common > 1 and gap.constant % common:  # no multiple of `common` is -constant
        return True
    below = gap.times(-1).plus(Sum({}, -1))
    return analysis.is_nonnegative(gap.plus(Sum({}, -1))) or analysis.is_nonnegative(below)
