"""Pattern matching: patterns are expressions over wildcards, written with the operators of `Expr`.

Takes a pattern and an expression, gives the bindings of the wildcards. Invariant: substituting the bindings into the
pattern gives the matched expression, up to the order of operands of commutative operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.dtypes import BOOL, INT32
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Const, Expr, Select, Unary, Var, binary, select, unary
from tilelang.ir.scalar import BinaryOp

Bindings = Mapping[Var, Expr]


class Anything(Var):
    """Matches any integer (any truth value if its dtype is bool), the same one everywhere in a pattern."""


class Literal(Var):
    """Matches an integer literal."""


def integers(names: str) -> list[Var]:
    """Wildcards for integers, one per name."""
    return [Anything(name, INT32, index=True) for name in names.split()]


def truths(names: str) -> list[Var]:
    """Wildcards for truth values, one per name."""
    return [Anything(name, BOOL) for name in names.split()]


def literals(names: str) -> list[Var]:
    """Wildcards for integer literals, one per name."""
    return [Literal(name, INT32, index=True) for name in names.split()]


COMMUTATIVE = frozenset(
    {
        BinaryOp.ADD,
        BinaryOp.MUL,
        BinaryOp.MIN,
        BinaryOp.MAX,
        BinaryOp.EQ,
        BinaryOp.NE,
        BinaryOp.AND,
        BinaryOp.OR,
        BinaryOp.BITAND,
        BinaryOp.BITOR,
        BinaryOp.BITXOR,
    }
)


def match(pattern: Expr, expr: Expr) -> Iterator[Bindings]:
    """All matches of a pattern."""
    yield from _match(pattern, expr, {})


def _match(pattern: Expr, expr: Expr, bindings: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Var():
            yield from _match_wildcard(pattern, expr, bindings)
        case Const(value=value, dtype=dtype):
            if isinstance(expr, Const) and expr.dtype.is_bool is dtype.is_bool and not expr.dtype.is_float:
                if expr.value == value:
                    yield bindings
        case Binary(op=op, a=a, b=b):
            if isinstance(expr, Binary) and expr.op is op:
                for half in _match(a, expr.a, bindings):
                    yield from _match(b, expr.b, half)
                if op in COMMUTATIVE:
                    for half in _match(a, expr.b, bindings):
                        yield from _match(b, expr.a, half)
        case Unary(op=op, a=a):
            if isinstance(expr, Unary) and expr.op is op:
                yield from _match(a, expr.a, bindings)
        case Select(condition=condition, a=a, b=b):
            if isinstance(expr, Select):
                for first in _match(condition, expr.condition, bindings):
                    for second in _match(a, expr.a, first):
                        yield from _match(b, expr.b, second)


def _match_wildcard(wildcard: Var, expr: Expr, bindings: Bindings) -> Iterator[Bindings]:
    bound = bindings.get(wildcard)
    if bound is None:
        if _admits(wildcard, expr):
            yield {**bindings, wildcard: expr}
    elif same_expr(bound, expr):
        yield bindings


def _admits(wildcard: Var, expr: Expr) -> bool:
    if isinstance(wildcard, Literal):
        return isinstance(expr, Const) and expr.dtype.is_int
    return expr.dtype.is_bool if wildcard.dtype.is_bool else expr.dtype.is_int


def fill(pattern: Expr, bindings: Bindings) -> Expr:
    """The pattern with its wildcards replaced."""
    match pattern:
        case Var():
            return bindings[pattern]
        case Binary(op=op, a=a, b=b):
            return binary(op, fill(a, bindings), fill(b, bindings))
        case Unary(op=op, a=a):
            return unary(op, fill(a, bindings))
        case Select(condition=condition, a=a, b=b):
            return select(fill(condition, bindings), fill(a, bindings), fill(b, bindings))
    return pattern
