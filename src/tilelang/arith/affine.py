"""Integer expressions as sums of products, the normal form of `arith`: cancellation, divisibility, linearity.

Takes expressions, gives `Sum`s (for the rest of `arith`) and `Affine` forms (for other modules). Invariant: a sum
equals its expression, evaluated exactly, wherever the facts hold that were used to build it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from tilelang.arith.ranges import ANYTHING, Interval, multiply, of_dtype
from tilelang.dtypes import INT32, INT64
from tilelang.ir.compare import ExprKey, KeyedExpr
from tilelang.ir.expr import Binary, Cast, Const, Expr, Load, Unary, Var, binary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.records import record

Term = tuple[KeyedExpr, ...]  # a product of atoms; () never occurs in `Sum.terms`
MAX_TERMS = 24  # products whose expansion would have more terms are not expanded


class Sum:
    """`constant + coefficient * term + ...`; treated as immutable. No coefficient is 0."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[Term, int], constant: int) -> None:
        self.terms = terms
        self.constant = constant

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """`self + factor * other`."""
        if not other.terms:
            return Sum(self.terms, self.constant + factor * other.constant)
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            total = terms.get(term, 0) + factor * coefficient
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return Sum(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Sum:
        """`factor * self`."""
        if factor == 1:
            return self
        return Sum({t: c * factor for t, c in self.terms.items()} if factor else {}, self.constant * factor)

    def multiplied(self, term: Term) -> Sum:
        """`term * self`."""
        terms = {_joined(t, term): c for t, c in self.terms.items()}
        if self.constant:
            terms[term] = terms.get(term, 0) + self.constant
        return Sum({t: c for t, c in terms.items() if c}, 0)

    @property
    def divisor(self) -> int:
        """The greatest common divisor of the coefficients, without the constant; 0 without terms."""
        return math.gcd(*self.terms.values()) if self.terms else 0


def _joined(a: Term, b: Term) -> Term:
    return tuple(sorted(a + b, key=_order)) if a and b else a or b


def _order(key: KeyedExpr) -> tuple[bool, str, int]:
    """Sort key of the factors of a term: variables by name, then others, so that printed code is stable."""
    expr = key.expr
    return (False, expr.name, id(expr)) if isinstance(expr, Var) else (True, "", hash(key))


def product(a: Sum, b: Sum) -> Sum | None:
    """`a * b` expanded, or None if that has more than `MAX_TERMS` terms."""
    if not a.terms:
        return b.times(a.constant)
    if not b.terms:
        return a.times(b.constant)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > MAX_TERMS:
        return None
    result = a.times(b.constant)
    for term, coefficient in b.terms.items():
        result = result.plus(a.multiplied(term), coefficient)
    return result if all(_is_plain(term) for term in result.terms) else None


def _is_plain(term: Term) -> bool:
    """Whether a term is short and its factors have an order that does not change from run to run."""
    return len(term) <= 4 and sum(not isinstance(key.expr, Var) for key in term) <= 1


@record
class Affine:
    """`constant + sum(terms[v] * v)` over variables.

    Attributes:
        terms: The coefficients of variables; none is 0.
        constant: The constant term.
    """

    terms: Mapping[Var, int]
    constant: int

    def coefficient(self, var: Var) -> int:
        """The coefficient of a variable; 0 if it is absent."""
        return self.terms.get(var, 0)


def linear_form(expr: Expr) -> Affine | None:
    """The expression as an affine function of its variables, or None.

    Integer data is exact, as in index position.
    """
    linear = Linearizer().sum(expr) if expr.dtype.is_int else None
    if linear is None:
        return None
    terms: dict[Var, int] = {}
    for term, coefficient in linear.terms.items():
        if len(term) != 1 or not isinstance(term[0].expr, Var):
            return None
        terms[term[0].expr] = coefficient
    return Affine(terms, linear.constant)


class Linearizer:
    """Converts integer expressions to sums. This class has no facts about variables; subclasses have.

    What is not a sum, a product, or a division by a constant becomes an atom.
    """

    def __init__(self) -> None:
        self._sums: dict[int | ExprKey, tuple[Expr, Sum]] = {}
        self._divisions: dict[tuple[object, ...], Sum] = {}  # quotients and remainders, by operands

    # -- facts, from subclasses -----------------------------------------------------------------------------
    def atom_bounds(self, expr: Expr) -> Interval:
        """Bounds of an atom."""
        return of_dtype(expr.dtype) if not expr.is_index else ANYTHING

    def is_exact(self, expr: Expr) -> bool:
        """Whether an integer operation on data does not wrap."""
        return not isinstance(expr, Cast) or _widens(expr)

    def stepping(self, var: KeyedExpr) -> tuple[int, int] | None:
        """(modulus, residue) of an atom, if known."""
        return None

    def value(self, var: Var) -> Expr | None:
        """The value of a bound variable that may replace it, or None."""
        return None

    def is_nonnegative(self, linear: Sum) -> bool:
        """Whether a sum is proven non-negative."""
        low = self.sum_bounds(linear).low
        return low is not None and low >= 0

    # -- sums -----------------------------------------------------------------------------------------------
    def sum_bounds(self, linear: Sum) -> Interval:
        """Bounds of a sum from the bounds of its atoms, by interval arithmetic."""
        low: int | None = linear.constant
        high = low
        for term, coefficient in linear.terms.items():
            least, most = self.term_bounds(term)
            if coefficient < 0:
                least, most = most, least
            low = None if low is None or least is None else low + coefficient * least
            high = None if high is None or most is None else high + coefficient * most
        return Interval(low, high)

    def term_bounds(self, term: Term) -> Interval:
        """Bounds of a product of atoms."""
        result = self.atom_bounds(term[0].expr)
        if len(term) == 1:
            return result
        for i, key in enumerate(term[1:], 1):
            result = multiply(result, self.atom_bounds(key.expr))
            if i == 1 and len(term) == 2 and key == term[0]:
                result = result.meet(Interval(0, None))  # a square
        return result

    def sum(self, expr: Expr) -> Sum:
        """The expression as a sum."""
        if isinstance(expr, Const):
            return Sum({}, int(expr.value))
        cached = self._sums.get(id(expr))
        if cached is None:
            cached = self._sums[id(expr)] = (expr, self._sum(expr))
        return cached[1]

    def _sum(self, expr: Expr) -> Sum:
        if isinstance(expr, Var):
            value = self.value(expr)
            return self._atom(expr) if value is None else self.sum(value)
        if not expr.dtype.is_int or not (expr.is_index or self.is_exact(expr)):
            return self._atom(expr)
        if isinstance(expr, Binary):
            return self._binary(expr)
        if isinstance(expr, Unary) and expr.op is UnaryOp.NEG:
            return self.sum(expr.a).times(-1)
        if isinstance(expr, Unary) and expr.op is UnaryOp.INVERT:
            return Sum({}, -1).plus(self.sum(expr.a), -1)
        if isinstance(expr, Cast) and expr.a.dtype.is_int:
            return self.sum(expr.a)
        return self._atom(expr)

    def _atom(self, expr: Expr) -> Sum:
        fixed = self.atom_bounds(expr).value
        return Sum({(KeyedExpr(expr),): 1}, 0) if fixed is None else Sum({}, fixed)

    def _binary(self, expr: Binary) -> Sum:
        op = expr.op
        if op not in _LINEAR:
            return self._atom(expr)
        a, b = self.sum(expr.a), self.sum(expr.b)
        if op is BinaryOp.ADD or op is BinaryOp.SUB:
            return self._recombined(a.plus(b, 1 if op is BinaryOp.ADD else -1))
        if op is BinaryOp.MUL:
            multiplied = product(a, b)
            return self._atom(expr) if multiplied is None else multiplied
        count = None if b.terms else b.constant
        if not expr.is_index and op is not BinaryOp.SHL:
            return self._atom(expr)  # dividing rebuilds the operand, which as data might wrap
        if op is BinaryOp.SHL:
            return a.times(1 << count) if count is not None and 0 <= count < 64 else self._atom(expr)
        if op is BinaryOp.SHR:
            return self._floordiv(a, 1 << count) if count is not None and 0 <= count < 64 else self._atom(expr)
        if op is BinaryOp.BITAND:  # x & (2**k - 1) == x % 2**k, for negative x too
            mask = count is not None and count > 0 and count & (count + 1) == 0
            return self.remainder(a, count + 1) if count is not None and mask else self._atom(expr)
        if op in _TRUNCATING and not (self.is_nonnegative(a) and self.is_nonnegative(b)):
            return self._atom(expr)
        if count == 0:
            return Sum({}, 0)
        floor = op is BinaryOp.FLOORDIV or op is BinaryOp.TRUNCDIV
        if count is not None and count > 0:
            return self._floordiv(a, count) if floor else self.remainder(a, count)
        split = self._split_symbolic(a, b) if count is None else None
        return self._atom(expr) if split is None else split[0] if floor else split[1]

    # -- division -------------------------------------------------------------------------------------------
    def _split(self, a: Sum, divisor: int) -> tuple[Sum, Sum]:
        """(q, r) with `a == divisor * q + r`, with `r` as small as follows directly."""
        quotient, rest = Sum({}, a.constant // divisor), Sum({}, a.constant % divisor)
        for term, coefficient in a.terms.items():
            step = self.stepping(term[0]) if len(term) == 1 and coefficient % divisor else None
            if step is not None and coefficient * step[0] % divisor == 0:  # v == m * (v // m) + residue
                whole = self._divided(BinaryOp.FLOORDIV, Sum({term: 1}, -step[1]), step[0])
                quotient = quotient.plus(whole, coefficient * step[0] // divisor)
                rest = rest.plus(Sum({}, coefficient * step[1]))
                continue
            times = abs(coefficient) // divisor * (1 if coefficient > 0 else -1)
            if times:
                quotient = quotient.plus(Sum({term: times}, 0))
            if coefficient - times * divisor:
                rest.terms[term] = coefficient - times * divisor
        carry = rest.constant // divisor
        return quotient.plus(Sum({}, carry)), rest.plus(Sum({}, -carry * divisor))

    def _floordiv(self, a: Sum, divisor: int) -> Sum:
        return self._division(BinaryOp.FLOORDIV, a, divisor, self._quotient)

    def remainder(self, a: Sum, divisor: int) -> Sum:
        """`a % divisor` for a positive divisor."""
        return self._division(BinaryOp.FLOORMOD, a, divisor, self._remainder)

    def _division(self, op: BinaryOp, a: Sum, divisor: int, compute: Callable[[Sum, int], Sum]) -> Sum:
        """The result of `compute`, once for all sums of the same terms in the same order."""
        key = (op, divisor, a.constant, *a.terms.items())
        result = self._divisions.get(key)
        if result is None:
            result = self._divisions[key] = compute(a, divisor)
        return result

    def _quotient(self, a: Sum, divisor: int) -> Sum:
        quotient, rest = self._split(a, divisor)
        fixed = _same_quotient(self.sum_bounds(rest), divisor)
        if fixed is not None:
            return quotient.plus(Sum({}, fixed))
        common = math.gcd(rest.divisor, divisor)  # (g*A + r) // (g*c) == (A + r//g) // c
        rest = Sum({t: c // common for t, c in rest.terms.items()}, rest.constant // common)
        divisor //= common
        if divisor == 1:
            return quotient.plus(rest)
        if len(rest.terms) == 1:
            (term, coefficient), = rest.terms.items()
            inner = term[0].expr
            if len(term) == 1 and coefficient == 1 and isinstance(inner, Binary) and inner.op is BinaryOp.FLOORDIV:
                first = self.sum(inner.b)
                joined = divisor * first.constant  # (x//d + k) // c == (x + k*d) // (c*d)
                if not first.terms and 0 < joined < 2**63 and inner.is_index:
                    outer = self.sum(inner.a).plus(Sum({}, rest.constant * first.constant))
                    return quotient.plus(self._floordiv(outer, joined))
        return quotient.plus(self._divided(BinaryOp.FLOORDIV, rest, divisor))

    def _remainder(self, a: Sum, divisor: int) -> Sum:
        _, rest = self._split(a, divisor)
        fixed = _same_quotient(self.sum_bounds(rest), divisor)
        if fixed is not None:
            return rest.plus(Sum({}, -fixed * divisor))
        common = math.gcd(rest.divisor, divisor)  # (g*A + r) % (g*c) == g * (A % c) + r  for 0 <= r < g
        inner = Sum({t: c // common for t, c in rest.terms.items()}, rest.constant // common)
        left = Sum({}, rest.constant % common)
        if divisor == common:
            return left
        return left.plus(self._divided(BinaryOp.FLOORMOD, inner, divisor // common), common)

    def _divided(self, op: BinaryOp, a: Sum, divisor: int) -> Sum:
        node = binary(op, to_expr(a), divisor)
        cached = self._sums.get(id(node))
        atom = self._atom(node)
        if cached is None:
            self._sums[id(node)] = (node, atom)
        return atom

    def _split_symbolic(self, a: Sum, b: Sum) -> tuple[Sum, Sum] | None:
        """(a // b, a % b) for a divisor `b` that is a term, if the remainder follows directly."""
        if b.constant or len(b.terms) != 1:
            return None
        (divisor, factor), = b.terms.items()
        if factor != 1:
            return None
        quotient, rest = Sum({}, 0), Sum({}, a.constant)
        for term, coefficient in a.terms.items():
            left = without(term, divisor)
            if left is None:
                rest.terms[term] = coefficient
            elif left:
                quotient.terms[left] = coefficient
            else:
                quotient = Sum(quotient.terms, quotient.constant + coefficient)
        if not self.is_nonnegative(rest) or not self.is_nonnegative(b.plus(rest, -1).plus(Sum({}, -1))):
            return None  # 0 <= rest < b implies b != 0
        return quotient, rest

    def _recombined(self, a: Sum) -> Sum:
        """The sum with `c * (x // c) + x % c` written as `x`."""
        for term, coefficient in a.terms.items():
            expr = term[0].expr
            if len(term) != 1 or not isinstance(expr, Binary) or expr.op is not BinaryOp.FLOORMOD:
                continue
            divisor = self.sum(expr.b)
            if divisor.terms or divisor.constant <= 0 or not expr.is_index:
                continue
            inner = self.sum(expr.a)
            quotient = self._floordiv(inner, divisor.constant)
            (other, times), = quotient.terms.items() if len(quotient.terms) == 1 else (((), 0),)
            if times and a.terms.get(other) == coefficient * divisor.constant * times:
                shorter = a.plus(Sum({term: 1}, 0), -coefficient).plus(quotient, -coefficient * divisor.constant)
                return self._recombined(shorter.plus(inner, coefficient))
        return a


_TRUNCATING = frozenset({BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD})
_LINEAR = _TRUNCATING | {
    BinaryOp.ADD,
    BinaryOp.SUB,
    BinaryOp.MUL,
    BinaryOp.FLOORDIV,
    BinaryOp.FLOORMOD,
    BinaryOp.SHL,
    BinaryOp.SHR,
    BinaryOp.BITAND,
}


def without(term: Term, factors: Term) -> Term | None:
    """The term divided by the product of `factors`, or None if it is not divisible."""
    left = list(term)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _same_quotient(a: Interval, divisor: int) -> int | None:
    """The common quotient of all values of the interval, or None."""
    if a.low is None or a.high is None or a.low // divisor != a.high // divisor:
        return None
    return a.low // divisor


def _widens(expr: Cast) -> bool:
    """Whether a cast between integers preserves all values."""
    leaf = isinstance(expr.a, Var | Load) and expr.a.dtype.is_int
    return leaf and of_dtype(expr.a.dtype).within(of_dtype(expr.dtype)) or expr.dtype == INT64 and expr.a.is_index


def has_literals(linear: Sum) -> bool:
    """Whether literals of 64 bits hold the constant and the coefficients of a sum, so that it has an expression."""
    return all(-(2**63) < number < 2**63 for number in (linear.constant, *linear.terms.values()))


def to_expr(linear: Sum) -> Expr:
    """A sum as an expression: positive terms, then negative ones, each as `atom * coefficient`."""
    parts = list(_signed(linear))
    result: Expr | None = None
    for negative, part in sorted(parts, key=lambda p: p[0]):
        if result is None:
            result = binary(BinaryOp.SUB, 0, part) if negative else part
        else:
            result = binary(BinaryOp.SUB if negative else BinaryOp.ADD, result, part)
    return _literal(linear.constant) if result is None else result


def _signed(linear: Sum) -> Iterator[tuple[bool, Expr]]:
    for term, coefficient in linear.terms.items():
        part = term[0].expr
        for key in term[1:]:
            part = binary(BinaryOp.MUL, part, key.expr)
        size = abs(coefficient)
        yield coefficient < 0, part if size == 1 else binary(BinaryOp.MUL, part, _literal(size))
    if linear.constant and linear.terms:
        yield linear.constant < 0, _literal(abs(linear.constant))


def _literal(value: int) -> Const:
    return Const(value, INT32 if -(2**31) <= value < 2**31 else INT64)
