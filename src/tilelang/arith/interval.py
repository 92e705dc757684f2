"""Constant bounds of expressions over a domain, and other facts derived from the domain.

Takes expressions and a `Domain`, gives an `Interval`. Invariant: the interval contains every value that the expression
can have where the facts of the domain hold, whether integer data in it wraps (as usual) or not (as in index position).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.arith import combine, ranges
from tilelang.arith.affine import Linearizer, Sum
from tilelang.arith.domain import Domain, Extension, Fact, Range, Stepped
from tilelang.arith.ranges import ANYTHING, TRUTH, Interval, of_dtype
from tilelang.dtypes import INT64
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilelang.ir.scalar import COMPARISONS, BinaryOp, UnaryOp
from tilelang.ir.visit import children

__all__ = ["Analysis", "Interval", "analysis_of", "bounds", "computed"]

_DEEP_CHOICES = 3  # depth of nested selects whose conditions are used
_MANY_CHOICES = 200  # budget of select conditions per domain


def bounds(expr: Expr, domain: Domain) -> Interval:
    """The interval of values that an integer or boolean expression can have; floats may have any."""
    return analysis_of(domain).bounds(expr)


def computed(expr: Expr, domain: Domain) -> Interval:
    """The interval of an integer computed as data: every operation wraps in its dtype."""
    result = bounds(expr, domain)
    if expr.is_index:
        return result
    width = of_dtype(expr.dtype)
    result = result.meet(width)
    if isinstance(expr, Binary) and expr.a.dtype == expr.b.dtype == expr.dtype:
        parts = [computed(part, domain) for part in (expr.a, expr.b)]
        applied = ranges.apply(expr.op, *parts)
        if all(part.within(width) for part in parts) and applied.within(width):
            result = result.meet(applied)
    return result


def analysis_of(domain: Domain, *, expand: bool = True) -> Analysis:
    """The analysis of a domain, computed once per domain.

    Args:
        domain: The facts.
        expand: Whether sums replace bindings by their values, as proofs need; not for expressions that are emitted.
    """
    expand = expand or not domain.values
    name = "expanding" if expand else "keeping"
    analysis = domain.memo.get(name)
    if not isinstance(analysis, Analysis):
        parent = None if domain.parent is None else analysis_of(domain.parent, expand=expand)
        depth = 0 if parent is None else parent.depth
        analysis = Analysis(parent, domain.fact, domain.values, domain.sole_variable, expand=expand, depth=depth)
        domain.memo[name] = analysis
    return analysis


class _Budget:
    """A budget of steps."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self) -> bool:
        """Uses one step; False if none is left."""
        self._left -= 1
        return self._left >= 0


class Analysis(Linearizer, Extension):
    """A domain's facts in the form that bounds and proofs use.

    Attributes:
        facts: Sums known to be non-negative.
        conditions: Boolean expressions that hold (True) or do not (False), other than those in `facts`.
        depth: The number of conditions of selects around it.
    """

    def __init__(
        self,
        parent: Analysis | None,
        fact: Fact | None,
        values: Mapping[Var, Expr],
        sole_variable: Var | None = None,
        *,
        expand: bool,
        depth: int,
    ) -> None:
        super().__init__()
        shared = parent is not None and sole_variable is not None
        # else what is `inside` the parent would refer to it
        self.parent: Analysis | None = parent if shared else None
        self.sole_variable = sole_variable
        self._values, self._expand, self.depth = values, expand, depth
        self.facts: list[Sum] = list(parent.facts) if parent else []
        self.conditions: dict[ExprKey, bool] = dict(parent.conditions) if parent else {}
        self._limits: dict[ExprKey, Interval] = dict(parent._limits) if parent else {}
        self._steppings: dict[ExprKey, tuple[int, int]] = dict(parent._steppings) if parent else {}
        # by identity, and in their relevant domain by structure, since passes write the same index anew for each use
        self._bounds: dict[int | ExprKey, tuple[Expr, Interval]] = {}
        self._atoms: dict[int | ExprKey, tuple[Expr, Interval]] = {}
        self._inside: dict[tuple[int, bool], tuple[Expr, Analysis]] = {}
        self._position_independent: dict[int, tuple[Expr, bool]] = {}
        self._choices: _Budget = parent._choices if parent and depth else _Budget(_MANY_CHOICES)
        self._asking: list[bool] = parent._asking if parent is not None and shared else [False]
        if fact is not None:
            self._learn(fact)

    # -- facts about atoms ----------------------------------------------------------------------------------
    def bounds(self, expr: Expr) -> Interval:
        """Bounds of any expression."""
        if isinstance(expr, Const):
            return self.atom_bounds(expr)
        cached = self._bounds.get(id(expr))
        if cached is None:
            relevant, key = self.relevant(expr), expr_key(expr)
            cached = relevant._bounds.get(key)
            if cached is None:
                result = relevant.atom_bounds(expr)
                if isinstance(expr, Binary) and expr.dtype.is_int and (expr.is_index or relevant.is_exact(expr)):
                    result = result.meet(relevant.sum_bounds(relevant.sum(expr)))
                cached = relevant._bounds[key] = (expr, result)
            self._bounds[id(expr)] = (expr, cached[1])
        return cached[1]

    def sum(self, expr: Expr) -> Sum:
        """The expression as a sum."""
        if isinstance(expr, Const):
            return super().sum(expr)
        cached = self._sums.get(id(expr))
        if cached is None:
            relevant, key = self.relevant(expr), expr_key(expr)
            cached = relevant._sums.get(key)
            if cached is None:
                cached = relevant._sums[key] = (expr, relevant._sum(expr))
            self._sums[id(expr)] = (expr, cached[1])
        return cached[1]

    def atom_bounds(self, expr: Expr) -> Interval:
        """Bounds from the expression's operator, and from facts about it as a whole."""
        if isinstance(expr, Const):
            return ANYTHING if expr.dtype.is_float else Interval(int(expr.value), int(expr.value))
        cached = self._atoms.get(id(expr))
        if cached is None:
            relevant, key = self.relevant(expr), expr_key(expr)
            cached = relevant._atoms.get(key)
            if cached is None:
                result = relevant._compute(expr)
                limit = relevant._limits.get(key)
                cached = relevant._atoms[key] = (expr, result if limit is None else result.meet(limit))
            self._atoms[id(expr)] = (expr, cached[1])
        return cached[1]

    def stepping(self, var: ExprKey) -> tuple[int, int] | None:
        """(modulus, residue) of an atom, if known."""
        return self._steppings.get(var)

    def value(self, var: Var) -> Expr | None:
        """The expression that a variable was bound to."""
        return self._values.get(var) if self._expand else None

    def is_nonnegative(self, linear: Sum) -> bool:
        """Whether a sum is proven non-negative.

        Nested queries use intervals alone, so that the recursion terminates.
        """
        if self._asking[0]:
            return super().is_nonnegative(linear)
        self._asking[0] = True
        try:
            return combine.is_nonnegative(linear, self)
        finally:
            self._asking[0] = False

    def is_exact(self, expr: Expr) -> bool:
        """Whether an integer operation on data cannot wrap and uses its operands unconverted."""
        if expr.is_index or isinstance(expr, Const | Var | Load | Call):
            return True
        if not all(self._converts(child, expr) for child in children(expr) if child.dtype.is_int):
            return False
        match expr:
            case Binary(op=op, a=a, b=b) if a.dtype.is_int:
                return expr.dtype.is_bool or self._exactly(op, a, b).within(of_dtype(expr.dtype))
            case Unary(op=UnaryOp.NEG, a=a):
                return ranges.negate(self.bounds(a)).within(of_dtype(expr.dtype))
            case Unary(op=UnaryOp.INVERT, a=a):
                return expr.dtype.kind.value == "int"
            case Cast(a=a):
                wide = a.is_index and expr.dtype == INT64
                return a.dtype.is_int and (wide or self.bounds(a).within(of_dtype(expr.dtype)))
        return isinstance(expr, Select)

    def _converts(self, operand: Expr, parent: Expr) -> bool:
        """Whether an index operand keeps its value when it is converted to the width of data."""
        if not operand.is_index or isinstance(parent, Cast) or operand.dtype == INT64:
            return True  # index arithmetic fits 64 bits
        return self.bounds(operand).within(of_dtype(operand.dtype))

    def is_position_independent(self, expr: Expr) -> bool:
        """Whether an expression has the same value in index position, where nothing wraps, and elsewhere."""
        if isinstance(expr, Const | Var | Load):
            return True
        cached = self._position_independent.get(id(expr))
        if cached is None:
            mixed = isinstance(expr, Binary) and expr.a.is_index != expr.b.is_index
            wraps = (mixed or (expr.dtype.is_int and not expr.is_index)) and not self.is_exact(expr)
            independent = not wraps and all(self.is_position_independent(child) for child in children(expr))
            cached = self._position_independent[id(expr)] = (expr, independent)
        return cached[1]

    # -- bounds ---------------------------------------------------------------------------------------------
    def _compute(self, expr: Expr) -> Interval:
        if expr.dtype.is_bool:
            return self._truth(expr)
        if not expr.dtype.is_int:
            return ANYTHING
        if isinstance(expr, Var):
            value = self._values.get(expr)
            own = ANYTHING if expr.index else of_dtype(expr.dtype)
            return own if value is None else own.meet(self.bounds(value))
        result = self._by_operator(expr)
        if not expr.is_index and not result.within(of_dtype(expr.dtype)):
            result = result.hull(of_dtype(expr.dtype))
        return result

    def _by_operator(self, expr: Expr) -> Interval:
        match expr:
            case Binary(op=op, a=a, b=b):
                return self._exactly(op, a, b)
            case Unary(op=UnaryOp.NEG, a=a):
                return ranges.negate(self._operand(a, expr))
            case Unary(op=UnaryOp.INVERT, a=a):
                return ranges.subtract(Interval(-1, -1), self._operand(a, expr))
            case Cast(a=a):
                kept = a.dtype.is_bool or expr.is_index or self.is_exact(expr)
                return self.bounds(a) if kept else of_dtype(expr.dtype)
            case Select(condition=condition, a=a, b=b):
                return self._choice(condition, a, b)
        return of_dtype(expr.dtype)

    def _exactly(self, op: BinaryOp, a: Expr, b: Expr) -> Interval:
        if a.is_index == b.is_index:
            return ranges.apply(op, self.bounds(a), self.bounds(b))
        return ranges.apply(op, self._as_data(a), self._as_data(b))

    def _operand(self, a: Expr, parent: Expr) -> Interval:
        return self.bounds(a) if parent.is_index else self._as_data(a)

    def _as_data(self, a: Expr) -> Interval:
        """Bounds of an operand beside data: index arithmetic may wrap there."""
        result, width = self.bounds(a), of_dtype(a.dtype)
        return result if result.within(width) else result.hull(width)

    def _choice(self, condition: Expr, a: Expr, b: Expr) -> Interval:
        chosen = self.bounds(condition).value
        if chosen is not None:
            return self.bounds(a if chosen else b)
        return self.inside(condition, holds=True).bounds(a).hull(self.inside(condition, holds=False).bounds(b))

    def inside(self, condition: Expr, *, holds: bool) -> Analysis:
        """The analysis for a subexpression that is evaluated only if a condition holds (or not)."""
        key = (id(condition), holds)
        entry = self._inside.get(key)
        if entry is None:
            if self.depth >= _DEEP_CHOICES or not self._choices.take() or holds and isinstance(condition, Const):
                return self
            entry = self._inside[key] = (condition, self.assuming(condition, holds=holds))
        return entry[1]

    def assuming(self, condition: Expr, *, holds: bool) -> Analysis:
        """`inside`, made anew."""
        fact = condition if holds else Unary(UnaryOp.NOT, condition, condition.dtype)
        return Analysis(self, fact, self._values, expand=self._expand, depth=self.depth + 1)

    def _truth(self, expr: Expr) -> Interval:
        truth = self.conditions.get(expr_key(expr)) if self.conditions else None
        if truth is not None:
            return Interval(truth, truth)
        if isinstance(expr, Binary) and expr.op in COMPARISONS and expr.a.dtype.is_int:
            a, b = (self.bounds(expr.a), self.bounds(expr.b)) if expr.a.is_index == expr.b.is_index else (
                self._as_data(expr.a),
                self._as_data(expr.b),
            )
            holds = ranges.compare(expr.op, a, b)
            return TRUTH if holds is None else Interval(holds, holds)
        if isinstance(expr, Unary):
            return ranges.subtract(Interval(1, 1), self.bounds(expr.a))
        if isinstance(expr, Binary) and expr.op in (BinaryOp.AND, BinaryOp.OR):
            a, b = self.bounds(expr.a), self.bounds(expr.b)
            return ranges.apply(BinaryOp.MIN if expr.op is BinaryOp.AND else BinaryOp.MAX, a, b).meet(TRUTH)
        if isinstance(expr, Select):
            return self._choice(expr.condition, expr.a, expr.b)
        return TRUTH

    # -- adding facts ---------------------------------------------------------------------------------------
    def _learn(self, fact: Fact) -> None:
        match fact:
            case Range(var=var, low=low, high=high):
                self._learn_range(var, low, high)
            case Stepped(var=var, modulus=modulus, residue=residue):
                self._steppings[expr_key(var)] = (modulus, residue)
            case Expr():
                self._learn_condition(fact, holds=True)
        self._forget()

    def _learn_range(self, var: Var, low: int | Expr | None, high: int | Expr | None) -> None:
        ends = Interval(low if isinstance(low, int) else None, high if isinstance(high, int) else None)
        self._limit(expr_key(var), ends)
        if isinstance(low, Expr) and self.is_position_independent(low) and low.dtype.is_int:
            self._learn_sum(self.sum(var).plus(self.sum(low), -1))
        if isinstance(high, Expr) and self.is_position_independent(high) and high.dtype.is_int:
            self._learn_sum(self.sum(high).plus(self.sum(var), -1))

    def _learn_condition(self, condition: Expr, *, holds: bool) -> None:
        match condition:
            case Const():
                return
            case Unary(op=UnaryOp.NOT, a=a):
                self._learn_condition(a, holds=not holds)
            case Binary(op=BinaryOp.AND | BinaryOp.BITAND, a=a, b=b) if holds and condition.dtype.is_bool:
                self._learn_condition(a, holds=True)
                self._learn_condition(b, holds=True)
            case Binary(op=BinaryOp.OR | BinaryOp.BITOR, a=a, b=b) if not holds and condition.dtype.is_bool:
                self._learn_condition(a, holds=False)
                self._learn_condition(b, holds=False)
            case _ if self.is_position_independent(condition):
                self.conditions[expr_key(condition)] = holds
                if isinstance(condition, Binary) and condition.op in COMPARISONS and condition.a.dtype.is_int:
                    self._learn_comparison(condition.op if holds else NEGATED[condition.op], condition.a, condition.b)

    def _learn_comparison(self, op: BinaryOp, left: Expr, right: Expr) -> None:
        a, b = self.sum(left), self.sum(right)
        if op in (BinaryOp.GT, BinaryOp.GE):
            a, b = b, a
        gap = b.plus(a, -1)
        if op in (BinaryOp.LT, BinaryOp.GT):
            self._learn_sum(gap.plus(Sum({}, -1)))
        elif op in (BinaryOp.LE, BinaryOp.GE):
            self._learn_sum(gap)
        elif op is BinaryOp.EQ:
            self._learn_sum(gap)
            self._learn_sum(gap.times(-1))
            self._learn_stepping(left, right)
        elif op is BinaryOp.NE:
            self._learn_difference(gap)

    def _learn_sum(self, fact: Sum, unfold: int = 2) -> None:
        """Adds `fact >= 0` and the bounds it implies for each atom; nested minima are expanded `unfold` levels deep."""
        fact = combine.tightened(fact)
        if not fact.terms:
            return
        if len(fact.terms) > 1:
            self.facts.append(fact)
        for weaker in combine.unfolded(fact, self) if unfold else ():
            self._learn_sum(weaker, unfold - 1)
        bounded = self.sum_bounds(fact)
        for term, coefficient in fact.terms.items():
            if len(term) != 1:
                continue
            rest = bounded.high
            if rest is None:  # all other terms must be bounded
                rest = self.sum_bounds(Sum({t: c for t, c in fact.terms.items() if t != term}, fact.constant)).high
            else:
                own = ranges.scale(self.bounds(term[0].expr), coefficient).high
                rest = None if own is None else rest - own
            if rest is not None:  # coefficient * atom >= -rest
                low_or_high = -(rest // coefficient) if coefficient > 0 else rest // -coefficient
                self._limit(term[0], Interval(low_or_high, None) if coefficient > 0 else Interval(None, low_or_high))

    def _learn_stepping(self, left: Expr, right: Expr) -> None:
        """`v % c == r` of a variable."""
        if not isinstance(left, Binary):
            left, right = right, left
        residue = self.bounds(right).value
        if isinstance(left, Binary) and left.op is BinaryOp.FLOORMOD and residue is not None:
            modulus = self.bounds(left.b).value
            if isinstance(left.a, Var) and left.a.index and modulus is not None and 0 <= residue < modulus:
                self._steppings[expr_key(left.a)] = (modulus, residue)

    def _learn_difference(self, gap: Sum) -> None:
        """Adds `gap != 0`: tightens the range of an atom where 0 is one of its bounds."""
        if len(gap.terms) == 1:
            (term, coefficient), = gap.terms.items()
            excluded = -gap.constant // coefficient
            if len(term) == 1 and excluded * coefficient == -gap.constant:
                interval = self.bounds(term[0].expr)
                if interval.low == excluded:
                    self._limit(term[0], Interval(excluded + 1, None))
                elif interval.high == excluded:
                    self._limit(term[0], Interval(None, excluded - 1))

    def _limit(self, key: ExprKey, limit: Interval) -> None:
        if limit != ANYTHING:
            self._limits[key] = self._limits.get(key, ANYTHING).meet(limit)
            self._forget()

    def _forget(self) -> None:
        """Invalidates the caches after a fact is added."""
        self._bounds.clear()
        self._atoms.clear()
        self._sums.clear()
        self._divisions.clear()
        self._inside.clear()
        self._position_independent.clear()


NEGATED = {
    BinaryOp.EQ: BinaryOp.NE,
    BinaryOp.NE: BinaryOp.EQ,
    BinaryOp.LT: BinaryOp.GE,
    BinaryOp.GE: BinaryOp.LT,
    BinaryOp.LE: BinaryOp.GT,
    BinaryOp.GT: BinaryOp.LE,
}
