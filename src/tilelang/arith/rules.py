"""Rewrite rules that the normal form of sums does not cover: pattern, result and condition.

Invariant: every rule holds for integers that wrap at any width as well as for exact ones (rules marked `exact` for the
latter only), so it may be applied wherever its pattern matches. Floats never match, except in rules over booleans that
compare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilelang.arith.match import Bindings, integers, literals, match, truths
from tilelang.ir.expr import Binary, Const, Expr, Select, Unary, binary, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp, exact_binary
from tilelang.records import record

Condition = Callable[[Bindings], bool]


@record(eq=False)
class Rule:
    """Rewrites `pattern` to `result`.

    Attributes:
        pattern: The expression to replace.
        result: The replacement, over the pattern's wildcards.
        when: A condition on the bindings of the wildcards.
        exact: Whether the rule holds for exact integers only: index arithmetic.
    """

    pattern: Expr
    result: Expr
    when: Condition | None = None
    exact: bool = False

    def bindings(self, expr: Expr) -> Bindings | None:
        """The bindings of the wildcards if the rule applies to an expression, else None."""
        for found in match(self.pattern, expr):
            if self.exact and not all(value.is_index for value in found.values() if value.dtype.is_int):
                continue
            if self.when is None or self.when(found):
                return found
        return None


def _min(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.MIN, a, b)


def _max(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.MAX, a, b)


def _and(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.AND, a, b)


def _or(a: Expr, b: Expr) -> Expr:
    return binary(BinaryOp.OR, a, b)


def _not(a: Expr) -> Expr:
    return unary(UnaryOp.NOT, a)


def _truncdiv(a: Expr, b: int) -> Expr:
    return binary(BinaryOp.TRUNCDIV, a, b)


def _truncmod(a: Expr, b: int) -> Expr:
    return binary(BinaryOp.TRUNCMOD, a, b)


def _fits(op: BinaryOp) -> Condition:
    """The combined literal fits the dtype, so that the rule holds in index position too."""

    def holds(found: Bindings) -> bool:
        first, second = found[c], found[d]
        assert isinstance(first, Const)
        assert isinstance(second, Const)
        low, high = found[x].dtype.limits
        return low <= exact_binary(op, int(first.value), int(second.value)) <= high

    return holds


x, y, z = integers("x y z")
c, d = literals("c d")
p, q = truths("p q")
ZERO = Const(0, x.dtype, weak=True)
TRUE = Const(True, p.dtype)
FALSE = Const(False, p.dtype)

RULES: tuple[Rule, ...] = (
    # identity and absorbing literals
    Rule(x + 0, x),
    Rule(x - 0, x),
    Rule(0 - x, -x),
    Rule(x * 1, x),
    Rule(x * 0, ZERO),
    Rule(x // 1, x),
    Rule(x % 1, ZERO),
    Rule(_truncdiv(x, 1), x),
    Rule(_truncmod(x, 1), ZERO),
    Rule(x // 0, ZERO),  # division by zero gives 0 in this language
    Rule(x % 0, ZERO),
    Rule(x << 0, x),
    Rule(x >> 0, x),
    Rule(x & 0, ZERO),
    Rule(x | 0, x),
    Rule(x ^ 0, x),
    # sums that cancel; exact sums do more, these also serve data, which wraps
    Rule(x - x, ZERO),
    Rule((x + y) - y, x),
    Rule((x - y) + y, x),
    Rule(x - (x + y), -y),
    Rule(x - (x - y), y),
    Rule((x - y) - x, -y),
    Rule(x + (-y), x - y),
    Rule(x - (-y), x + y),
    Rule(unary(UnaryOp.NEG, -x), x),
    Rule(-(x - y), y - x),
    Rule((x + c) + d, x + (c + d), _fits(BinaryOp.ADD)),
    Rule((x - c) - d, x - (c + d), _fits(BinaryOp.ADD)),
    Rule((x * c) * d, x * (c * d), _fits(BinaryOp.MUL)),
    # bits
    Rule(x & x, x),
    Rule(x | x, x),
    Rule(x ^ x, ZERO),
    Rule((x ^ y) ^ y, x),
    Rule(unary(UnaryOp.INVERT, ~x), x),
    # minimum and maximum
    Rule(_min(x, x), x),
    Rule(_max(x, x), x),
    Rule(_min(_min(x, y), y), _min(x, y)),
    Rule(_max(_max(x, y), y), _max(x, y)),
    Rule(_min(_max(x, y), y), y),
    Rule(_max(_min(x, y), y), y),
    Rule(_min(x + z, y + z), _min(x, y) + z, exact=True),
    Rule(_max(x + z, y + z), _max(x, y) + z, exact=True),
    # comparisons
    Rule(x == x, TRUE),
    Rule(x <= x, TRUE),
    Rule(x >= x, TRUE),
    Rule(x != x, FALSE),
    Rule(x < x, FALSE),
    Rule(x > x, FALSE),
    Rule(x + z == y + z, x == y),
    Rule(x + z != y + z, x != y),
    Rule(x - y == 0, x == y),
    Rule(x - y != 0, x != y),
    Rule(_not(x == y), x != y),
    Rule(_not(x != y), x == y),
    Rule(_not(x < y), x >= y),
    Rule(_not(x <= y), x > y),
    Rule(_not(x > y), x <= y),
    Rule(_not(x >= y), x < y),
    # booleans
    Rule(_not(_not(p)), p),
    Rule(_and(p, p), p),
    Rule(_or(p, p), p),
    Rule(_and(p, _not(p)), FALSE),
    Rule(_or(p, _not(p)), TRUE),
    Rule(_and(p, _or(p, q)), p),
    Rule(_or(p, _and(p, q)), p),
    Rule(Binary(BinaryOp.AND, p, FALSE, p.dtype), FALSE),
    Rule(Binary(BinaryOp.OR, p, TRUE, p.dtype), TRUE),
    Rule(Binary(BinaryOp.BITAND, p, TRUE, p.dtype), p),
    Rule(Binary(BinaryOp.BITAND, p, FALSE, p.dtype), FALSE),
    Rule(Binary(BinaryOp.BITOR, p, FALSE, p.dtype), p),
    Rule(Binary(BinaryOp.BITOR, p, TRUE, p.dtype), TRUE),
    Rule(Binary(BinaryOp.BITXOR, p, FALSE, p.dtype), p),
    Rule(Binary(BinaryOp.BITXOR, p, TRUE, p.dtype), _not(p)),
    Rule(Binary(BinaryOp.EQ, p, TRUE, p.dtype), p),
    Rule(Binary(BinaryOp.EQ, p, FALSE, p.dtype), _not(p)),
    Rule(Binary(BinaryOp.NE, p, FALSE, p.dtype), p),
    Rule(Binary(BinaryOp.NE, p, TRUE, p.dtype), _not(p)),
    # selects
    Rule(select(p, x, x), x),
    Rule(select(_not(p), x, y), select(p, y, x)),
    Rule(select(p, q, q), q),
    Rule(Select(p, TRUE, FALSE, p.dtype), p),
    Rule(Select(p, FALSE, TRUE, p.dtype), _not(p)),
)


def _by_operator() -> Mapping[object, tuple[Rule, ...]]:
    table: dict[object, tuple[Rule, ...]] = {}
    for rule in RULES:
        head = operator_of(rule.pattern)
        table[head] = (*table.get(head, ()), rule)
    return table


def operator_of(expr: Expr) -> object:
    """The operator of a node: the key of `RULES_BY_OPERATOR`."""
    return expr.op if isinstance(expr, Binary | Unary) else type(expr)


RULES_BY_OPERATOR = _by_operator()
