"""Expressions made shorter without changing their value.

Takes an expression and a domain, gives an expression of the same dtype. Invariant: both have the same value at every
point where the facts of the domain hold, in index position and elsewhere; float operations are never reordered,
merged or dropped.
"""

from __future__ import annotations

from tilelang.arith.affine import Sum, to_expr
from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of
from tilelang.arith.match import fill
from tilelang.arith.prove import decide_with
from tilelang.arith.rules import RULES_BY_OPERATOR, operator_of
from tilelang.dtypes import BOOL, INT64, DType
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, binary, children
from tilelang.ir.scalar import COMPARISONS, LOGICAL, BinaryOp
from tilelang.ir.visit import Rewriter

_NOTHING = Domain()
_ROUNDS = 8  # rules applied to one node, one after the other


def simplify(expr: Expr, domain: Domain = _NOTHING) -> Expr:
    """An expression of the same value and dtype, no longer than `expr`."""
    if isinstance(expr, Const):
        return expr
    return _simplifier(domain).expr(expr)


def _simplifier(domain: Domain) -> _Simplifier:
    made = domain.memo.get("simplifier")
    if not isinstance(made, _Simplifier):
        made = domain.memo["simplifier"] = _Simplifier(domain)
    return made


class _Simplifier(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._analysis = analysis_of(domain)
        self._keeping = analysis_of(domain, expand=False)
        self._seen: dict[int, tuple[Expr, Expr]] = {}

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Const):
            return node
        known = self._seen.get(id(node))
        if known is None:
            known = self._seen[id(node)] = (node, _retyped(self._simplified(node), node))
        return known[1]

    def _simplified(self, node: Expr) -> Expr:
        fixed = self._fixed(node)
        if fixed is not None:
            return fixed
        if isinstance(node, Var):
            return node
        new = self._with_operands(node)
        if isinstance(new, Const):
            return new
        if new is not node:
            fixed = self._fixed(new)
            if fixed is not None:
                return fixed
        return self._at_top(new)

    def _fixed(self, node: Expr) -> Expr | None:
        """A literal, if that is all the expression can be."""
        if not (node.dtype.is_int or node.dtype.is_bool) or node.dtype.lanes > 1:
            return None
        value = self._analysis.bounds(node).value
        return None if value is None else _literal(value, node.dtype)

    def _with_operands(self, node: Expr) -> Expr:
        """The node over simplified operands; those evaluated on a condition are simplified with its knowledge."""
        if isinstance(node, Select):
            test = self.expr(node.condition)
            if isinstance(test, Const):
                return self.expr(node.a if test.value else node.b)
            a = self._inside(test, holds=True).expr(node.a)
            b = self._inside(test, holds=False).expr(node.b)
            unchanged = test is node.condition and a is node.a and b is node.b
            return node if unchanged else Select(test, a, b, node.dtype)
        if isinstance(node, Binary) and node.op in LOGICAL:
            a = self.expr(node.a)
            if isinstance(a, Const):
                return binary(node.op, a, self.expr(node.b))
            b = self._inside(a, holds=node.op is BinaryOp.AND).expr(node.b)
            return node if a is node.a and b is node.b else binary(node.op, a, b)
        return self.rebuild_expr(node)

    def _inside(self, condition: Expr, *, holds: bool) -> _Simplifier:
        inner = self._analysis.inside(condition, holds=holds)
        return self if inner is self._analysis else _simplifier(inner.domain)

    def _at_top(self, node: Expr) -> Expr:
        """The node rewritten as a whole; its operands are simple already."""
        for _ in range(_ROUNDS):
            new = self._step(node)
            if new is node or isinstance(new, Const | Var):
                return new
            node = new
        return node

    def _step(self, node: Expr) -> Expr:
        if node.is_index and isinstance(node, Binary | Unary):
            shorter = self._as_sum(node)
            if shorter is not None:
                return shorter
        if isinstance(node, Binary):
            if node.op in COMPARISONS:
                held = decide_with(node, self._analysis)
                if held is not None:
                    return Const(held, BOOL)
                node = self._cancelled(node)
            elif node.op in (BinaryOp.MIN, BinaryOp.MAX) and node.a.dtype.is_int:
                chosen = self._chosen(node)
                if chosen is not None:
                    return chosen
        for rule in RULES_BY_OPERATOR.get(operator_of(node), ()):
            found = rule.bindings(node)
            if found is not None:
                return _retyped(fill(rule.result, found), node)
        return node

    def _as_sum(self, node: Expr) -> Expr | None:
        new = to_expr(self._keeping.sum(node))
        if isinstance(new, Const):
            return _literal(int(new.value), node.dtype)
        return _retyped(new, node) if _convertible(new, node.dtype) and cost(new) < cost(node) else None

    def _chosen(self, node: Binary) -> Expr | None:
        """The operand that a minimum or maximum always is."""
        first_is_less = decide_with(Binary(BinaryOp.LE, node.a, node.b, BOOL), self._analysis)
        if first_is_less is None:
            first_is_less = decide_with(Binary(BinaryOp.LT, node.a, node.b, BOOL), self._analysis)
        if first_is_less is None:
            return None
        chosen = node.a if first_is_less is (node.op is BinaryOp.MIN) else node.b
        return chosen if _convertible(chosen, node.dtype) else None

    def _cancelled(self, node: Binary) -> Binary:
        """A comparison of exact sums without what both sides have in common."""
        if not (node.a.is_index and node.b.is_index):
            return node
        gap = self._keeping.sum(node.b).plus(self._keeping.sum(node.a), -1)
        left = Sum({t: -c for t, c in gap.terms.items() if c < 0}, 0)
        right = Sum({t: c for t, c in gap.terms.items() if c > 0}, 0)
        if left.terms:
            right = right.plus(Sum({}, gap.constant))
        else:
            left = left.plus(Sum({}, -gap.constant))
        new = Binary(node.op, to_expr(left), to_expr(right), BOOL)
        return new if cost(new) < cost(node) else node


def _literal(value: int, dtype: DType) -> Const:
    return Const(bool(value), dtype) if dtype.is_bool else Const(value, dtype)


def _convertible(new: Expr, dtype: DType) -> bool:
    return new.dtype == dtype or dtype == INT64 and new.is_index


def _retyped(new: Expr, old: Expr) -> Expr:
    """`new` in the dtype of the expression it replaces, exact if that was exact."""
    if new.dtype == old.dtype:
        return new
    if isinstance(new, Const) and (new.dtype.is_int or new.dtype.is_bool):
        return _literal(int(new.value), old.dtype)
    return Cast(new, old.dtype) if _convertible(new, old.dtype) else old


_COSTS = {
    BinaryOp.FLOORDIV: 8,
    BinaryOp.FLOORMOD: 8,
    BinaryOp.TRUNCDIV: 6,
    BinaryOp.TRUNCMOD: 6,
    BinaryOp.MUL: 2,
}


def cost(expr: Expr) -> int:
    """A rough price of evaluating an expression, to tell which of two is the simpler."""
    return _cost(expr, {})


def _cost(expr: Expr, seen: dict[int, int]) -> int:
    if isinstance(expr, Const | Var):
        return 0
    known = seen.get(id(expr))
    if known is None:
        match expr:
            case Binary(op=op):
                own = _COSTS.get(op, 1)
            case Cast():
                own = 0
            case Select():
                own = 2
            case Load() | Call():
                own = 4
            case _:
                own = 1
        known = seen[id(expr)] = own + sum(_cost(child, seen) for child in children(expr))
    return known
