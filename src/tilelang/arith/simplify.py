"""Simplification of expressions.

Takes an expression and a domain, gives an expression of the same dtype. Invariant: both have the same value wherever
the facts of the domain hold, in index position and elsewhere; float operations are never reordered, merged or dropped.
"""

from __future__ import annotations

from tilelang.arith.affine import Sum, has_literals, to_expr
from tilelang.arith.domain import Domain, Extension
from tilelang.arith.interval import Analysis, analysis_of
from tilelang.arith.match import Bindings, fill
from tilelang.arith.prove import decide_with, proves_with
from tilelang.arith.ranges import of_dtype
from tilelang.arith.rules import RULES_BY_OPERATOR, Rule, operator_of
from tilelang.dtypes import BOOL, INT64, DType
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, binary
from tilelang.ir.scalar import COMPARISONS, LOGICAL, BinaryOp
from tilelang.ir.visit import Rewriter, children

_NOTHING = Domain()
_ROUNDS = 8  # limit of rules applied to one node in sequence


def simplify(expr: Expr, domain: Domain = _NOTHING) -> Expr:
    """An expression of the same value and dtype, no longer than `expr`."""
    if isinstance(expr, Const):
        return expr
    return _simplifier(domain).expr(expr)


def _simplifier(domain: Domain) -> _Simplifier:
    simplifier = domain.memo.get("simplifier")
    if not isinstance(simplifier, _Simplifier):
        shared = domain.parent is not None and domain.sole_variable is not None
        parent = _simplifier(domain.parent) if domain.parent is not None and shared else None
        simplifier = _Simplifier(analysis_of(domain), analysis_of(domain, expand=False), parent, domain.sole_variable)
        domain.memo["simplifier"] = simplifier
    return simplifier


class _Simplifier(Rewriter, Extension):
    """The simplifier of a domain.

    Args:
        analysis: The facts of the domain.
        keeping: The same, where sums do not replace bindings by their values.
        parent: The simplifier of the domain's parent, if the domain has facts about a single variable.
        sole_variable: That variable.
    """

    def __init__(
        self,
        analysis: Analysis,
        keeping: Analysis,
        parent: _Simplifier | None = None,
        sole_variable: Var | None = None,
    ) -> None:
        self._analysis, self._keeping = analysis, keeping
        self.parent: _Simplifier | None = parent
        self.sole_variable = sole_variable
        self._inside: dict[Analysis, _Simplifier] = {}
        # by identity, and in their relevant domain by structure, since passes write the same index anew for each use
        self._seen: dict[int | ExprKey, tuple[Expr, Expr]] = {}

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Const):
            return node
        cached = self._seen.get(id(node))
        if cached is None:
            relevant, key = self.relevant(node), expr_key(node)
            cached = relevant._seen.get(key)
            if cached is None:
                cached = relevant._seen[key] = (node, relevant._simplified(node))
            self._seen[id(node)] = (node, cached[1])
        return cached[1]

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
        """A literal, if the expression is constant."""
        if not (node.dtype.is_int or node.dtype.is_bool) or node.dtype.lanes > 1:
            return None
        value = self._analysis.bounds(node).value
        return None if value is None else _literal(value, node)

    def _with_operands(self, node: Expr) -> Expr:
        """The node with simplified operands; those evaluated under a condition are simplified with its facts."""
        if isinstance(node, Select):
            test = self.expr(node.condition)
            if isinstance(test, Const):
                return self._chosen_side(self.expr(node.a if test.value else node.b), node)
            a = self._under(test, node.a, holds=True)
            b = self._under(test, node.b, holds=False)
            if test is node.condition and a is node.a and b is node.b:
                return node
            return self._if_same_kind(node, Select(test, a, b, node.dtype))
        if isinstance(node, Binary) and node.op in LOGICAL:
            a = self.expr(node.a)
            if isinstance(a, Const):
                return binary(node.op, a, self.expr(node.b))
            b = self._under(a, node.b, holds=node.op is BinaryOp.AND)
            return node if a is node.a and b is node.b else binary(node.op, a, b)
        return self._if_same_kind(node, self.rebuild_expr(node))

    def _if_same_kind(self, old: Expr, new: Expr) -> Expr:
        """`new`, unless operands that are now index arithmetic would make wrapping arithmetic exact."""
        if new is old:
            return old
        mine = _operands(new)
        if all(a.is_index for a in mine) and not all(a.is_index for a in _operands(old)):
            width = of_dtype(_width(old))
            parts = mine if new.dtype.is_bool else (*mine, new)
            if not all(self._analysis.bounds(part).within(width) for part in parts):
                return old
        return _retyped(new, old)

    def _under(self, condition: Expr, node: Expr, *, holds: bool) -> Expr:
        """A node that is evaluated only if a condition holds (or not), simplified with that fact."""
        if isinstance(node, Const):
            return node
        inner = self._analysis.inside(condition, holds=holds)
        if inner is self._analysis:
            return self.expr(node)
        simplifier = self._inside.get(inner)
        if simplifier is None:
            same = self._keeping is self._analysis
            keeping = inner if same else self._keeping.assuming(condition, holds=holds)
            simplifier = self._inside[inner] = _Simplifier(inner, keeping)
        return simplifier.expr(node)

    def _at_top(self, node: Expr) -> Expr:
        """The node after rewriting, given simplified operands."""
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
        if isinstance(node, Binary) and node.op in _COVERED_BY_SUMS and node.a.is_index and node.b.is_index:
            return node
        for rule in RULES_BY_OPERATOR.get(operator_of(node), ()):
            found = rule.bindings(node)
            if found is not None:
                new = self._filled(rule, found, node)
                if new is not None:
                    return new
        return node

    def _filled(self, rule: Rule, found: Bindings, node: Expr) -> Expr | None:
        """A rule's result for a node; None if index arithmetic in it would not wrap as data does."""
        new = fill(rule.result, found)
        if not all(a.is_index for a in _operands(node)):
            width = of_dtype(_width(node))
            parts = [a for a in found.values() if a.is_index] + ([new] if new.is_index else [])
            if not all(self._analysis.bounds(part).within(width) for part in parts):
                return None
        new = _retyped(new, node)
        return None if new is node else new

    def _as_sum(self, node: Expr) -> Expr | None:
        linear = self._keeping.sum(node)
        if not has_literals(linear) or linear.terms and cost_of_sum(linear) >= cost(node):
            return None
        new = to_expr(linear)
        if isinstance(new, Const):
            return _literal(int(new.value), node)
        return _retyped(new, node) if _convertible(new, node.dtype) else None

    def _chosen(self, node: Binary) -> Expr | None:
        """The operand that a minimum or maximum provably equals."""
        less, more = (node.a, node.b) if node.op is BinaryOp.MIN else (node.b, node.a)
        if proves_with(Binary(BinaryOp.LE, node.a, node.b, BOOL), self._analysis):
            return self._chosen_side(less, node)
        if proves_with(Binary(BinaryOp.LE, node.b, node.a, BOOL), self._analysis):
            return self._chosen_side(more, node)
        return None

    def _chosen_side(self, chosen: Expr, node: Expr) -> Expr:
        """An operand in place of the node; the node itself if it also converts the operand."""
        if chosen.is_index and not node.is_index and not self._analysis.bounds(chosen).within(of_dtype(node.dtype)):
            return node
        return _retyped(chosen, node)

    def _cancelled(self, node: Binary) -> Binary:
        """A comparison of exact sums without their common terms."""
        if not (node.a.is_index and node.b.is_index):
            return node
        gap = self._keeping.sum(node.b).plus(self._keeping.sum(node.a), -1)
        left = Sum({t: -c for t, c in gap.terms.items() if c < 0}, 0)
        right = Sum({t: c for t, c in gap.terms.items() if c > 0}, 0)
        if left.terms:
            right = right.plus(Sum({}, gap.constant))
        else:
            left = left.plus(Sum({}, -gap.constant))
        if not has_literals(gap) or _COSTS.get(node.op, 1) + cost_of_sum(left) + cost_of_sum(right) >= cost(node):
            return node
        return Binary(node.op, to_expr(left), to_expr(right), BOOL)


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """The integer operands of an operation."""
    if isinstance(expr, Binary | Unary | Select | Cast):
        return tuple(child for child in children(expr) if child.dtype.is_int)
    return ()


def _width(expr: Expr) -> DType:
    """The dtype in which an operation on integer data computes."""
    if not isinstance(expr, Binary):
        return expr.dtype
    return expr.b.dtype if expr.a.is_index else expr.a.dtype


def _literal(value: int, old: Expr) -> Const | None:
    """A literal that replaces an expression; None if it cannot be exact as that was."""
    if old.dtype.is_bool:
        return Const(bool(value), old.dtype)
    new = Const(value, old.dtype)
    return new if -(2**63) <= value < 2**63 and new.is_index or not old.is_index else None


def _convertible(new: Expr, dtype: DType) -> bool:
    return new.dtype == dtype or dtype == INT64 and new.is_index


def _retyped(new: Expr, old: Expr) -> Expr:
    """`new` in the dtype of the expression it replaces, exact if that was exact."""
    if new.dtype == old.dtype:
        return new
    if isinstance(new, Const) and (new.dtype.is_int or new.dtype.is_bool):
        literal = _literal(int(new.value), old)
        return old if literal is None else literal
    return Cast(new, old.dtype) if _convertible(new, old.dtype) else old


# operators whose rules are covered by the normal form of sums, if the operands are index arithmetic
_COVERED_BY_SUMS = COMPARISONS | {
    BinaryOp.ADD,
    BinaryOp.SUB,
    BinaryOp.MUL,
    BinaryOp.FLOORDIV,
    BinaryOp.FLOORMOD,
    BinaryOp.SHL,
    BinaryOp.SHR,
}

_COSTS = {
    BinaryOp.FLOORDIV: 8,
    BinaryOp.FLOORMOD: 8,
    BinaryOp.TRUNCDIV: 6,
    BinaryOp.TRUNCMOD: 6,
    BinaryOp.MUL: 2,
}


def cost_of_sum(linear: Sum) -> int:
    """The cost of the expression of a sum, which is not made for it."""
    if not linear.terms:
        return 0
    total = len(linear.terms) + (linear.constant != 0) - 1
    total += linear.constant <= 0 and all(coefficient < 0 for coefficient in linear.terms.values())  # subtracted from 0
    for term, coefficient in linear.terms.items():
        products = len(term) - 1 + (abs(coefficient) != 1)
        total += products * _COSTS[BinaryOp.MUL] + sum([cost(key.expr) for key in term])
    return total


def cost(expr: Expr) -> int:
    """An estimate of the cost of an expression, to compare two of them; cached on the node."""
    if isinstance(expr, Const | Var):
        return 0
    cached: int | None = expr.__dict__.get("_cost")
    if cached is None:
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
        cached = expr.__dict__["_cost"] = own + sum([cost(child) for child in children(expr)])
    return cached
