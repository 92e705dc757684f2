"""A normal form of real-valued expressions, by which algebraic identities are proven.

An expression becomes a sum of products; a product has a coefficient, powers of atoms, and an exponent that is a sum
again. Takes two expressions, tells whether they are equal for all values of what they read. Invariant: True holds in
real arithmetic wherever both sides are defined; False means that no proof was found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from fractions import Fraction

from tilelang.ir.compare import ExprKey, KeyedExpr, expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import walk_expr

EXPONENTIALS = {"exp": "e", "exp2": "2", "exp10": "10", "__exp2": "2"}
"""The bases of exponential functions, by the name of the intrinsic."""

_MAX_CONDITIONS = 5  # whose combinations of truth values are all tried
_MAX_TERMS = 64

# powers of atoms and, by base, exponents; both sorted
_Monomial = tuple[tuple[tuple[Hashable, int], ...], tuple[tuple[str, "_Frozen"], ...]]
_Frozen = frozenset[tuple[Hashable, Fraction]]
_Sum = dict[_Monomial, Fraction]
_ONE: _Monomial = ((), ())


class _TooLarge(Exception):
    """The normal form has too many terms."""


def is_proven_equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions are proven equal."""
    conditions = dict.fromkeys(
        expr_key(node.condition) for root in (a, b) for node in walk_expr(root) if isinstance(node, Select)
    )
    if len(conditions) > _MAX_CONDITIONS:
        return False
    try:
        return all(
            _normal(a, truths) == _normal(b, truths)
            for values in itertools.product((True, False), repeat=len(conditions))
            for truths in (dict(zip(conditions, values, strict=True)),)
        )
    except _TooLarge:
        return False


def _normal(expr: Expr, truths: Mapping[ExprKey, bool]) -> _Sum:
    """The normal form where conditions have given truth values."""
    match expr:
        case Const(value=value) if math.isfinite(value):
            return {_ONE: Fraction(value)} if value else {}
        case Select(condition=condition, a=a, b=b):
            return _normal(a if truths[expr_key(condition)] else b, truths)
        case Binary(op=BinaryOp.ADD, a=a, b=b):
            return _plus(_normal(a, truths), _normal(b, truths), Fraction(1))
        case Binary(op=BinaryOp.SUB, a=a, b=b):
            return _plus(_normal(a, truths), _normal(b, truths), Fraction(-1))
        case Binary(op=BinaryOp.MUL, a=a, b=b):
            return _times(_normal(a, truths), _normal(b, truths))
        case Binary(op=BinaryOp.DIV, a=a, b=b):
            return _times(_normal(a, truths), _inverse(_normal(b, truths)))
        case Unary(op=UnaryOp.NEG, a=a):
            return _plus({}, _normal(a, truths), Fraction(-1))
        case Cast(a=a, dtype=dtype) if a.dtype.is_float and dtype.is_float:
            return _normal(a, truths)
        case Call(callee=callee, args=(a,)) if callee.name in EXPONENTIALS:
            return _exponential(EXPONENTIALS[callee.name], a, truths)
        case Call(callee=callee, args=(a,)) if callee.name == "abs":
            return _absolute(_normal(a, truths))
        case Call(callee=callee, args=args):
            return _atom((callee.name, *(_frozen(_normal(arg, truths)) for arg in args)))
    return _atom(KeyedExpr(expr))


def _exponential(base: str, a: Expr, truths: Mapping[ExprKey, bool]) -> _Sum:
    exponent = _normal(a, truths)
    if any(_is_minus_infinity(monomial, factor) for monomial, factor in exponent.items()):
        return {}
    return {((), ((base, _frozen(exponent)),)) if exponent else _ONE: Fraction(1)}


def _is_minus_infinity(monomial: _Monomial, factor: Fraction) -> bool:
    powers, exponents = monomial
    if exponents or len(powers) != 1 or not isinstance(powers[0][0], KeyedExpr):
        return False
    atom = powers[0][0].expr
    return isinstance(atom, Const) and atom.value * factor == -math.inf


def _absolute(a: _Sum) -> _Sum:
    """Of a single product, the product of absolute values; exponentials are positive."""
    if len(a) != 1:
        return _atom(("abs", _frozen(a)))
    ((powers, exponents), factor), *_ = a.items()
    result: _Sum = {((), exponents): abs(factor)}
    for atom, power in powers:
        result = _times(result, _atom(("abs", atom), power))
    return result


def _atom(key: Hashable, power: int = 1) -> _Sum:
    return {(((key, power),), ()): Fraction(1)}


def _plus(a: _Sum, b: _Sum, factor: Fraction) -> _Sum:
    result = dict(a)
    for monomial, coefficient in b.items():
        total = result.pop(monomial, Fraction(0)) + factor * coefficient
        if total:
            result[monomial] = total
    return result


def _times(a: _Sum, b: _Sum) -> _Sum:
    if len(a) * len(b) > _MAX_TERMS:
        raise _TooLarge
    result: _Sum = {}
    for (one, x), (other, y) in itertools.product(a.items(), b.items()):
        result = _plus(result, {_monomial_product(one, other): x * y}, Fraction(1))
    return result


def _monomial_product(a: _Monomial, b: _Monomial) -> _Monomial:
    powers: dict[Hashable, int] = dict(a[0])
    for atom, power in b[0]:
        powers[atom] = powers.get(atom, 0) + power
    exponents: dict[str, _Frozen] = dict(a[1])
    for base, exponent in b[1]:
        total = _plus(dict(exponents.get(base, frozenset())), dict(exponent), Fraction(1))  # type: ignore[arg-type]
        exponents[base] = _frozen(total)
    return _sorted(powers), tuple(sorted((base, e) for base, e in exponents.items() if e))


def _sorted(powers: Mapping[Hashable, int]) -> tuple[tuple[Hashable, int], ...]:
    return tuple(sorted(((atom, power) for atom, power in powers.items() if power), key=hash))


def _inverse(a: _Sum) -> _Sum:
    """Of a single product, the product of inverses; of a sum, an atom."""
    if len(a) != 1:
        return _atom(_frozen(a), -1)
    ((powers, exponents), factor), *_ = a.items()
    negated = tuple((base, frozenset((m, -c) for m, c in exponent)) for base, exponent in exponents)
    return {(_sorted({atom: -power for atom, power in powers}), negated): 1 / factor}


def _frozen(a: _Sum) -> _Frozen:
    return frozenset(a.items())

