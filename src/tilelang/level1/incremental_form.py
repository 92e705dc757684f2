"""Incremental forms of reductions that read the running result of another reduction over the same axis.

Online softmax has the best known one, of the sum of exp(x - m) with a running maximum m. Given the body f(x, m) of a
reduction and a running value m, finds a form in which one loop computes both: a body for the loop, a factor g(m, m')
with f(x, m') = g(m, m') * f(x, m) by which the accumulator is rescaled when m becomes m', and an epilogue, a function
of the final m by which the accumulator is multiplied, or which is added to it.

The form follows from the structure of the expression: what depends on m alone is separated from what varies along the
axis, through products, quotients, sums and exponentials. A separated factor needs no rescaling at all, so it goes to
the epilogue; inside an exponential it stays, since m keeps the exponent in range. Invariant: a form that is returned
was checked by `level1.normal_form`, independently of its derivation.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Set

from tilelang.ir.buffer import Buffer
from tilelang.ir.callee import Callee
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, cast, const, select
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import loads_of, substitute, variables_of
from tilelang.isa.catalogue import INTRINSICS
from tilelang.level1.graph import Combiner
from tilelang.level1.normal_form import EXPONENTIALS, is_proven_equal
from tilelang.records import record

_KINDS = "parts that either vary along the axis or change in the loop"
# the sign of the slope of exponents with which factors stay at most 1 while a running value changes
_DIRECTIONS = {Combiner.MAX: -1, Combiner.MIN: 1}


@record(eq=False)
class Incremental:
    """A reduction in the loop that also computes the reductions it reads.

    Attributes:
        body: What is combined; it reads the running values of the same iteration.
        exponents: For each exponential function, the part of its exponent that depends on running values alone.
        epilogue: What the result is combined with after the loop, by `epilogue_op`; reads final values; may be None.
        epilogue_op: MUL, or ADD for reductions that sums commute with.
    """

    body: Expr
    exponents: tuple[tuple[Callee, Expr], ...]
    epilogue: Expr | None
    epilogue_op: BinaryOp

    def rescale(self, before: Mapping[Buffer, Buffer]) -> Expr | None:
        """g: the factor of the accumulator, from running values and those before the iteration; None if there is none.

        Args:
            before: For each running array, what holds its value before the iteration.
        """
        product: Expr | None = None
        for callee, exponent in self.exponents:
            difference = _difference(exponent, substitute(exponent, {}, before))
            factor: Expr = Call(callee, (difference,), difference.dtype)
            product = factor if product is None else product * factor
        return product


@record
class NotIncremental:
    """There is no incremental form."""

    reason: str


class _Inseparable(Exception):
    """The expression has no form of the kind that is looked for."""


def incremental_form(
    body: Expr, combiner: Combiner, along: Set[Var], running: Mapping[Buffer, Combiner]
) -> Incremental | NotIncremental:
    """The incremental form of a reduction.

    Args:
        body: What is combined.
        combiner: How.
        along: The axes of the loop that reduces.
        running: The arrays read by `body` that the same loop reduces, and how it combines them.
    """
    separator = _Separator(along, running.keys())
    try:
        if combiner is Combiner.SUM:
            found = separator.factors(body)
        elif combiner in (Combiner.MAX, Combiner.MIN):
            found = separator.terms_as_factors(body)
        else:
            return NotIncremental(f"{combiner.value} commutes with no factor and no term")
    except _Inseparable as refused:
        return NotIncremental(str(refused))
    op = BinaryOp.MUL if combiner is Combiner.SUM else BinaryOp.ADD
    form = Incremental(found.varying, tuple(found.exponents.values()), found.invariant, op)
    for (_, exponent), (array, how) in itertools.product(form.exponents, running.items()):
        if how in _DIRECTIONS and _slope(exponent, array) not in (0, _DIRECTIONS[how]):
            return NotIncremental(f"factors do not shrink as {array.name} changes, so that they may overflow")
    if not _is_valid(form, body, running.keys()):
        return NotIncremental("the form that was derived could not be verified")
    return form


def _is_valid(form: Incremental, body: Expr, running: Set[Buffer]) -> bool:
    """Whether f(x, m') = epilogue(m') * g(m, m') * body(x, m), or with + for *, by the normal form of both sides."""
    epilogue, inner = form.epilogue, form.body
    if form.epilogue_op is BinaryOp.ADD:  # a sum is checked as the product of exponentials
        body, inner = (Call(INTRINSICS["exp"], (part,), part.dtype) for part in (body, inner))
        epilogue = _map_optional(epilogue, lambda part: Call(INTRINSICS["exp"], (part,), part.dtype))
    before = {array: Buffer(f"{array.name}_before", array.shape, array.dtype, array.scope) for array in running}
    right = substitute(inner, {}, before)
    rescale = form.rescale(before)
    for factor in (rescale, epilogue):
        right = right if factor is None else factor * right
    return is_proven_equal(body, right)


@record(eq=False)
class _Factors:
    """`varying * invariant`, where `varying` changes by the exponentials of `exponents` when running values change.

    Attributes:
        varying: Depends on running values in exponents only.
        invariant: Depends on running values, and does not vary along the axes; None for 1.
        exponents: By name, an exponential function and what depends on running values in the exponent of `varying`.
    """

    varying: Expr
    invariant: Expr | None
    exponents: Mapping[str, tuple[Callee, Expr]]

    def changes_like(self, other: _Factors) -> bool:
        """Whether both change by the same factors."""
        return _same(self.invariant, other.invariant) and _same_exponents(self.exponents, other.exponents)


class _Separator:
    def __init__(self, along: Set[Var], running: Set[Buffer]) -> None:
        self._along, self._running = along, running

    def _reads_running(self, expr: Expr) -> bool:
        return any(load.buffer in self._running for load in loads_of(expr))

    def _varies_along(self, expr: Expr) -> bool:
        return not self._along.isdisjoint(variables_of(expr))

    # -- products ---------------------------------------------------------------------------------------------
    def factors(self, expr: Expr) -> _Factors:
        """The parts of an expression as a product."""
        if not self._reads_running(expr):
            return _Factors(expr, None, {})
        if not self._varies_along(expr):
            return _Factors(const(1, expr.dtype), expr, {})
        match expr:
            case Binary(op=BinaryOp.MUL, a=a, b=b):
                return _product(self.factors(a), self.factors(b), expr)
            case Binary(op=BinaryOp.DIV, a=a, b=b):
                return _quotient(self.factors(a), self.factors(b), expr)
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB as op, a=a, b=b):
                x, y = self._with_equal_factors(expr, a, b)
                return _merged(x, y, Binary(op, x.varying, y.varying, expr.dtype))
            case Unary(op=UnaryOp.NEG, a=a):
                x = self.factors(a)
                return _Factors(-x.varying, x.invariant, x.exponents)
            case Select(condition=condition, a=a, b=b) if not self._reads_running(condition):
                x, y = self._with_equal_factors(expr, a, b)
                return _merged(x, y, select(condition, x.varying, y.varying))
            case Cast(a=a, dtype=dtype) if _widens(a, dtype):
                x = self.factors(a)
                invariant = _map_optional(x.invariant, lambda y: cast(y, dtype))
                return _Factors(cast(x.varying, dtype), invariant, x.exponents)
            case Call(callee=callee, args=(a,)) if callee.name in EXPONENTIALS:
                _, term = self.terms(a)
                assert term is not None
                return _Factors(expr, None, {callee.name: (callee, term)})
            case Call(callee=callee, args=(a,)) if callee.name == "abs":
                x = self.factors(a)

                def absolute(part: Expr) -> Expr:
                    return Call(callee, (part,), part.dtype)

                return _Factors(absolute(x.varying), _map_optional(x.invariant, absolute), x.exponents)
        raise _Inseparable(f"`{_short_text(expr)}` is not a product of {_KINDS}")

    def _with_equal_factors(self, expr: Expr, a: Expr, b: Expr) -> tuple[_Factors, _Factors]:
        """The parts of two terms that change by the same factors; a term of 0 changes by any."""
        x, y = self.factors(a), self.factors(b)
        if not (_is_literal(a, 0) or _is_literal(b, 0) or x.changes_like(y)):
            raise _Inseparable(f"the terms of `{_short_text(expr)}` change by different factors")
        return x, y

    # -- sums -------------------------------------------------------------------------------------------------
    def terms_as_factors(self, expr: Expr) -> _Factors:
        """An expression as a sum: what varies along the axis as `varying`, what changes in the loop as `invariant`."""
        varying, invariant = self.terms(expr)
        return _Factors(varying, invariant, {})

    def terms(self, expr: Expr) -> tuple[Expr, Expr | None]:
        """`varying + invariant`: only the second depends on running values, and it does not vary along the axis."""
        if not self._reads_running(expr):
            return expr, None
        if not self._varies_along(expr):
            return const(0, expr.dtype), expr
        match expr:
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB as op, a=a, b=b):
                (v, r), (w, s) = self.terms(a), self.terms(b)
                minus = op is BinaryOp.SUB
                return _sum(v, w, minus), _sum_of_optional(r, s, minus)
            case Unary(op=UnaryOp.NEG, a=a):
                v, r = self.terms(a)
                return -v, _map_optional(r, operator.neg)
            case Binary(op=BinaryOp.MUL, a=a, b=b):
                one, factor = (b, a) if self._reads_running(b) or self._varies_along(b) else (a, b)
                if not self._reads_running(factor) and not self._varies_along(factor):
                    v, r = self.terms(one)
                    return v * factor, _map_optional(r, lambda term: term * factor)
            case Binary(op=BinaryOp.DIV, a=a, b=b) if not self._reads_running(b) and not self._varies_along(b):
                v, r = self.terms(a)
                return v / b, _map_optional(r, lambda term: term / b)
            case Select(condition=condition, a=a, b=b) if not self._reads_running(condition):
                (v, r), (w, s) = self.terms(a), self.terms(b)
                if _is_infinite(b) or _is_infinite(a) or _same(r, s):  # an infinity stays what it is whatever is added
                    return select(condition, v, w), _first_given(r, s)
            case Cast(a=a, dtype=dtype) if _widens(a, dtype):
                v, r = self.terms(a)
                return cast(v, dtype), _map_optional(r, lambda term: cast(term, dtype))
        raise _Inseparable(f"`{_short_text(expr)}` is not a sum of {_KINDS}")


def _merged(x: _Factors, y: _Factors, varying: Expr) -> _Factors:
    """What is made of two parts that change by the same factors."""
    return _Factors(varying, _first_given(x.invariant, y.invariant), {**x.exponents, **y.exponents})


def _product(x: _Factors, y: _Factors, expr: Expr) -> _Factors:
    a, b = x.invariant, y.invariant
    invariant = b if a is None else a if b is None else a * b
    exponents = dict(x.exponents)
    for name, (callee, term) in y.exponents.items():
        exponents[name] = (callee, exponents[name][1] + term if name in exponents else term)
    return _Factors(_times(x.varying, y.varying, expr), invariant, exponents)


def _quotient(x: _Factors, y: _Factors, expr: Expr) -> _Factors:
    one = const(1, expr.dtype)
    invariant = x.invariant if y.invariant is None else (one if x.invariant is None else x.invariant) / y.invariant
    exponents = dict(x.exponents)
    for name, (callee, term) in y.exponents.items():
        exponents[name] = (callee, exponents[name][1] - term if name in exponents else -term)
    return _Factors(x.varying if _is_literal(y.varying, 1) else x.varying / y.varying, invariant, exponents)


def _times(a: Expr, b: Expr, expr: Expr) -> Expr:
    if _is_literal(a, 1):
        return b
    return a if _is_literal(b, 1) else Binary(BinaryOp.MUL, a, b, expr.dtype)


def _sum(a: Expr, b: Expr, minus: bool) -> Expr:
    if _is_literal(b, 0):
        return a
    if _is_literal(a, 0):
        return -b if minus else b
    return a - b if minus else a + b


def _sum_of_optional(a: Expr | None, b: Expr | None, minus: bool) -> Expr | None:
    if b is None:
        return a
    if a is None:
        return -b if minus else b
    return a - b if minus else a + b


def _slope(expr: Expr, array: Buffer) -> int | None:
    """The sign of the change of a monotonic expression with an array's elements; None if it is not known."""
    match expr:
        case Load(buffer=buffer):
            return 1 if buffer is array else 0
        case Unary(op=UnaryOp.NEG, a=a):
            return _negated(_slope(a, array))
        case Cast(a=a):
            return _slope(a, array)
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MAX | BinaryOp.MIN as op, a=a, b=b):
            x, y = _slope(a, array), _slope(b, array)
            y = _negated(y) if op is BinaryOp.SUB else y
            return y if x == 0 else x if y in (0, x) else None
        case Binary(op=BinaryOp.MUL | BinaryOp.DIV, a=a, b=Const(value=value)) if value:
            return _slope(a, array) if value > 0 else _negated(_slope(a, array))
        case Binary(op=BinaryOp.MUL, a=Const(value=value), b=b) if value:
            return _slope(b, array) if value > 0 else _negated(_slope(b, array))
    return None if any(load.buffer is array for load in loads_of(expr)) else 0


def _negated(sign: int | None) -> int | None:
    return None if sign is None else -sign


def _difference(new: Expr, old: Expr) -> Expr:
    """`new - old` of two expressions of one structure, written without double signs."""
    match new, old:
        case Unary(op=UnaryOp.NEG, a=a), Unary(op=UnaryOp.NEG, a=b):
            return b - a
        case Binary(op=BinaryOp.MUL | BinaryOp.DIV as op, a=a, b=b), Binary(a=c, b=d) if _same(b, d):
            return Binary(op, _difference(a, c), b, new.dtype)
        case Binary(op=BinaryOp.MUL, a=a, b=b), Binary(a=c, b=d) if _same(a, c):
            return a * _difference(b, d)
    return new - old


def _map_optional(expr: Expr | None, function: Callable[[Expr], Expr]) -> Expr | None:
    return None if expr is None else function(expr)


def _first_given(a: Expr | None, b: Expr | None) -> Expr | None:
    return b if a is None else a


def _same(a: Expr | None, b: Expr | None) -> bool:
    return a is b or (a is not None and b is not None and expr_key(a) == expr_key(b))


def _same_exponents(a: Mapping[str, tuple[Callee, Expr]], b: Mapping[str, tuple[Callee, Expr]]) -> bool:
    return a.keys() == b.keys() and all(_same(a[name][1], b[name][1]) for name in a)


def _is_literal(expr: Expr, value: float) -> bool:
    return isinstance(expr, Const) and expr.value == value


def _is_infinite(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value in (float("inf"), float("-inf"))


def _widens(expr: Expr, dtype: object) -> bool:
    """Whether a cast of a float is exact."""
    return expr.dtype.is_float and dtype in (expr.dtype, "float32", "float64") and expr.dtype != "float64"


def _short_text(expr: Expr) -> str:
    text = repr(expr)
    return text if len(text) <= 60 else text[:57] + "..."
