"""Proves sums non-negative by combining known facts linearly: the core of every proof.

Takes a sum and facts, which are sums known to be non-negative; gives True or unknown. Invariant: True only for sums
that are non-negative wherever the facts hold. The search has a fixed budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from tilelang.arith.affine import Sum, Term, without
from tilelang.arith.ranges import Interval
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.expr import Binary, Expr, Select
from tilelang.ir.scalar import BinaryOp

STEPS = 24  # budget of sums examined per query
DEPTH = 6  # facts combined on one path of the search


class Knowledge(Protocol):
    """The facts and normal forms that the search uses."""

    facts: list[Sum]  # each is >= 0

    def sum(self, expr: Expr) -> Sum:
        """An expression as a sum."""

    def term_bounds(self, term: Term) -> Interval:
        """Bounds of a product of atoms."""

    def remainder(self, a: Sum, divisor: int) -> Sum:
        """`a % divisor` for a positive divisor."""

    def inside(self, condition: Expr, *, holds: bool) -> Knowledge:
        """The facts where a condition holds, or does not."""


def is_nonnegative(target: Sum, knowledge: Knowledge) -> bool:
    """Whether `target >= 0` is proven."""
    return _Search().holds(target, knowledge, DEPTH)


def tightened(a: Sum) -> Sum:
    """An equivalent sum (non-negative for the same integers), divided by the coefficients' greatest common divisor."""
    common = a.divisor
    if common <= 1:
        return a
    return Sum({t: c // common for t, c in a.terms.items()}, a.constant // common)


def unfolded(fact: Sum, knowledge: Knowledge) -> Iterator[Sum]:
    """The facts implied by replacing a minimum by either operand (or a subtracted maximum)."""
    for term, coefficient in fact.terms.items():
        expr = term[0].expr
        if len(term) == 1 and isinstance(expr, Binary) and expr.is_index:
            if expr.op is (BinaryOp.MIN if coefficient > 0 else BinaryOp.MAX):
                rest = Sum({t: c for t, c in fact.terms.items() if t != term}, fact.constant)
                yield rest.plus(knowledge.sum(expr.a), coefficient)
                yield rest.plus(knowledge.sum(expr.b), coefficient)
                return


Case = tuple[Sum, Knowledge]


class _Search:
    def __init__(self) -> None:
        self._steps = STEPS

    def holds(self, target: Sum, knowledge: Knowledge, depth: int) -> bool:
        target = tightened(target)
        self._steps -= 1
        low, hopeless = _low(target, knowledge)
        if low is not None and low >= 0:
            return True
        if depth == 0 or self._steps <= 0:
            return False
        for term, coefficient in target.terms.items():
            whole = _multiplied_out(target, term, coefficient, knowledge)
            if whole is not None and self.holds(whole, knowledge, depth - 1):
                return True
        facts = [*knowledge.facts, *_facts_of_atoms(target, knowledge)]
        for term in hopeless[:1] if hopeless else target.terms:
            for cases in _without(target, term, facts, knowledge):
                if all(self.holds(part, known, depth - 1) for part, known in cases):
                    return True
                if self._steps <= 0:
                    return False
        return False


def _low(target: Sum, knowledge: Knowledge) -> tuple[int | None, list[Term]]:
    """The lower bound by intervals, and the terms without a lower bound, which a proof must eliminate."""
    low, hopeless = target.constant, []
    for term, coefficient in target.terms.items():
        bounds = knowledge.term_bounds(term)
        end = bounds.low if coefficient > 0 else bounds.high
        if end is None:
            hopeless.append(term)
        else:
            low += coefficient * end
    return (None if hopeless else low), hopeless


def _without(target: Sum, term: Term, facts: list[Sum], knowledge: Knowledge) -> Iterator[tuple[Case, ...]]:
    """Sums without `term`: the target is non-negative if all sums of one tuple are."""
    coefficient = target.terms[term]
    for fact in facts:
        for mine, factor in fact.terms.items():
            if (factor > 0) != (coefficient > 0):
                continue
            rest = without(term, mine)
            if rest is None or (rest and not _is_nonnegative_term(rest, knowledge)):
                continue
            # a*target - b*fact*rest >= 0  and  fact*rest >= 0  give  target >= 0, for a, b > 0
            common = math.gcd(coefficient, factor)
            scaled = fact.multiplied(rest) if rest else fact
            yield ((target.times(abs(factor) // common).plus(scaled, -abs(coefficient) // common), knowledge),)
    yield from _cases(target, term, coefficient, knowledge)


def _multiplied_out(target: Sum, term: Term, coefficient: int, knowledge: Knowledge) -> Sum | None:
    """An equivalent sum without the quotient that a term is; None if it is none.

    For integers r and x, and c > 0: r >= x // c where c * r + c - 1 >= x, and r + x // c >= 0 where c * r + x >= 0.
    """
    expr = term[0].expr
    if len(term) != 1 or abs(coefficient) != 1 or not isinstance(expr, Binary) or not expr.is_index:
        return None
    divisor = knowledge.sum(expr.b)
    if expr.op is not BinaryOp.FLOORDIV or divisor.terms or divisor.constant <= 0:
        return None
    rest = Sum({t: c for t, c in target.terms.items() if t != term}, target.constant).times(divisor.constant)
    return rest.plus(Sum({}, divisor.constant - 1 if coefficient < 0 else 0)).plus(knowledge.sum(expr.a), coefficient)


def _is_nonnegative_term(term: Term, knowledge: Knowledge) -> bool:
    low = knowledge.term_bounds(term).low
    return low is not None and low >= 0


def _cases(target: Sum, term: Term, coefficient: int, knowledge: Knowledge) -> Iterator[tuple[Case, ...]]:
    """Case split: a select is non-negative if both values are, each under its condition."""
    expr = term[0].expr
    if len(term) != 1 or not expr.is_index:
        return
    rest = Sum({t: c for t, c in target.terms.items() if t != term}, target.constant)
    if isinstance(expr, Select):
        sides = ((expr.a, True), (expr.b, False))
        inner = [(side, knowledge.inside(expr.condition, holds=holds)) for side, holds in sides]
        yield tuple((rest.plus(known.sum(side), coefficient), known) for side, known in inner)
    elif isinstance(expr, Binary) and expr.op is (BinaryOp.MIN if coefficient > 0 else BinaryOp.MAX):
        yield tuple((rest.plus(knowledge.sum(side), coefficient), knowledge) for side in (expr.a, expr.b))


def _facts_of_atoms(target: Sum, knowledge: Knowledge) -> Iterator[Sum]:
    for term in target.terms:
        for key in term:
            yield from _facts_of_atom(key, knowledge)


def _facts_of_atom(key: KeyedExpr, knowledge: Knowledge) -> Iterator[Sum]:
    """The facts implied by an atom's definition."""
    expr = key.expr
    if not isinstance(expr, Binary) or not expr.is_index:
        return
    this = Sum({(key,): 1}, 0)
    match expr.op:
        case BinaryOp.FLOORDIV | BinaryOp.FLOORMOD:
            divisor = knowledge.sum(expr.b)
            if divisor.terms or divisor.constant <= 0:
                return
            a = knowledge.sum(expr.a)
            if expr.op is BinaryOp.FLOORDIV:
                rest = a.plus(this, -divisor.constant)  # x - c * (x // c) is x % c, from 0 to c - 1
                remainder = knowledge.remainder(a, divisor.constant)
                low, high = (0, divisor.constant - 1) if remainder.terms else (remainder.constant, remainder.constant)
                yield rest.plus(Sum({}, -low))
                yield Sum({}, high).plus(rest, -1)
        case BinaryOp.MIN:
            yield knowledge.sum(expr.a).plus(this, -1)
            yield knowledge.sum(expr.b).plus(this, -1)
        case BinaryOp.MAX:
            yield this.plus(knowledge.sum(expr.a), -1)
            yield this.plus(knowledge.sum(expr.b), -1)
