"""Alias analysis of subscripts: whether two accesses can have an element in common, across iterations of a loop.

Takes the accesses of a loop body, gives proofs. Invariant: True is a proof, False means unknown. Subscripts are exact
integers, as everywhere in index position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilelang.analysis.accesses import Access, Accesses
from tilelang.arith.affine import Linearizer, Sum, Term
from tilelang.arith.domain import Domain
from tilelang.arith.interval import analysis_of, bounds
from tilelang.arith.ranges import Interval, add, multiply, scale
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.visit import walk_expr
from tilelang.records import record

_ZERO = Sum({}, 0)


class Comparison:
    """Compares the accesses of one loop body across its iterations.

    Attributes:
        found: The accesses.
        domain: Facts that hold in the loop body, with the ranges of the loop's variables.
    """

    def __init__(self, found: Accesses, domain: Domain) -> None:
        self.found = found
        self.domain = domain
        self._written: frozenset[Buffer] = frozenset(a.buffer.storage for a in found.writes)
        self._linear = _InBody(found.values)
        self._changing: dict[Term, tuple[frozenset[Var], bool]] = {}
        self._addresses: dict[int, Sum | None] = {}

    # -- subscripts -----------------------------------------------------------------------------------------
    def sums(self, access: Access) -> tuple[Sum, ...]:
        """The subscripts of an access, one per dimension."""
        return tuple(self._linear.sum(index) for index in access.start)

    def sum(self, expr: Expr) -> Sum:
        """An index expression of the body as a sum, with bindings of index arithmetic inlined."""
        return self._linear.sum(expr)

    def varies(self, term: Term, loop_vars: tuple[Var, ...] = ()) -> bool:
        """Whether a product may differ between two points in time, beyond what invariants of the loop imply.

        Args:
            term: The product.
            loop_vars: Variables of the loop that may differ.
        """
        cached = self._changing.get(term)
        if cached is None:
            nodes = [node for key in term for node in walk_expr(key.expr)]
            mine = frozenset(node for node in nodes if isinstance(node, Var))
            memory = any(
                isinstance(node, Load) and node.buffer.storage in self._written | self.found.local for node in nodes
            )
            cached = self._changing[term] = (mine, memory or not mine.isdisjoint(self.found.defined))
        return cached[1] or any(var in cached[0] for var in loop_vars)

    # -- proofs ---------------------------------------------------------------------------------------------
    def never_alias(self, x: Access, y: Access, loop_vars: tuple[Var, ...]) -> bool:
        """Whether the accesses never have an element in common, for any two values of `loop_vars`.

        Without loop variables: whether they never have one in the same iteration.
        """
        if x.buffer is not y.buffer:
            return False
        return any(
            not _may_vanish(self._distance(f, g, x, y, loop_vars), x, y, d)
            for d, (f, g) in enumerate(zip(self.sums(x), self.sums(y), strict=True))
        ) or self._kept_apart(x, y, loop_vars)

    def disjoint(
        self, x: Access, y: Access, var: Var, trips: int | None, *, step: int = 1, others: tuple[Var, ...] = ()
    ) -> bool:
        """Whether the accesses never have an element in common in two different iterations over `var`.

        Args:
            x: One access.
            y: The other, or the same.
            var: The loop's variable.
            trips: Number of iterations if known.
            step: The step of `var`.
            others: Variables that may differ between the iterations as well.
        """
        loop_vars = (var, *others)
        stride = abs(step)
        if x.buffer is not y.buffer:
            return False
        if _elements(x, y) and any(a is b is var for a, b in zip(x.start, y.start, strict=True)):
            return True
        for d, (f, g) in enumerate(zip(self.sums(x), self.sums(y), strict=True)):
            if self._always_differ(f, g, x, y, d, loop_vars, trips, stride):
                return True
        p, q = self._address(x), self._address(y)
        if p is not None and q is not None and self._always_differ(p, q, x, y, None, loop_vars, trips, stride):
            return True
        return self._kept_apart(x, y, loop_vars)

    def _kept_apart(self, x: Access, y: Access, loop_vars: tuple[Var, ...]) -> bool:
        """Whether what holds at one access keeps it on one side of the other, wherever iterations put that.

        As `i > k` keeps row i apart from row k, and `i < n` element i from any element n + j.
        """
        if not _elements(x, y):
            return False
        for mine, other in ((x, y), (y, x)):
            analysis = analysis_of(mine.context.domain(self.domain))
            for f, g in zip(self.sums(mine), self.sums(other), strict=True):
                still = Sum({t: c for t, c in g.terms.items() if not self.varies(t, loop_vars)}, g.constant)
                moves = self._distance(g.plus(still, -1), _ZERO, other, other, loop_vars).total
                if not still.terms:
                    continue  # intervals say as much
                if moves.low is not None and analysis.is_nonnegative(still.plus(f, -1).plus(Sum({}, moves.low - 1))):
                    return True
                if moves.high is not None and analysis.is_nonnegative(f.plus(still, -1).plus(Sum({}, -moves.high - 1))):
                    return True
        return False

    def _always_differ(
        self,
        f: Sum,
        g: Sum,
        x: Access,
        y: Access,
        d: int | None,
        loop_vars: tuple[Var, ...],
        trips: int | None,
        step: int,
    ) -> bool:
        """Whether `f` and `g` differ for all iterations that differ in the first of the variables."""
        alone = (KeyedExpr(loop_vars[0]),)
        factor = f.terms.get(alone, 0)
        if factor == 0 or factor != g.terms.get(alone, 0):
            return not _may_vanish(self._distance(f, g, x, y, loop_vars), x, y, d)
        # they are equal where factor * (q - p) == rest for iterations p != q
        mine = Sum({alone: factor}, 0)
        rest = self._distance(f.plus(mine, -1), g.plus(mine, -1), x, y, loop_vars)
        stride = abs(factor) * step
        if _elements(x, y) and rest.constant % math.gcd(rest.grain, stride):
            return True
        low, high = _overlap(rest, x, y, d)
        reach = math.inf if trips is None else stride * (trips - 1)
        above = stride if low <= stride else -(-low // stride) * stride
        below = -stride if high >= -stride else high // stride * stride
        return not (above <= min(high, reach) or below >= max(low, -reach))

    def _distance(self, f: Sum, g: Sum, x: Access, y: Access, loop_vars: tuple[Var, ...]) -> _Distance:
        """The possible values of `f - g` when everything that varies is chosen independently for the two."""
        constant, grain = f.constant - g.constant, 0
        total = Interval(constant, constant)
        same = _ZERO
        for side, access, sign in ((f, x, 1), (g, y, -1)):
            domain = access.context.domain(self.domain)
            for term, coefficient in side.terms.items():
                if self.varies(term, loop_vars):
                    total = add(total, scale(_term_bounds(term, domain), sign * coefficient))
                    grain = math.gcd(grain, coefficient)
                else:
                    same = same.plus(Sum({term: coefficient}, 0), sign)
        for term, coefficient in same.terms.items():
            total = add(total, scale(_term_bounds(term, self.domain), coefficient))
            grain = math.gcd(grain, coefficient)
        return _Distance(total, constant, grain)

    def _address(self, access: Access) -> Sum | None:
        """The row-major offset of an element whose subscripts are proven in bounds, else None.

        It separates elements whose subscripts are quotient and remainder of one variable.
        """
        if access.position not in self._addresses:
            self._addresses[access.position] = self._row_major(access)
        return self._addresses[access.position]

    def _row_major(self, access: Access) -> Sum | None:
        shape = access.buffer.static_shape
        if access.extent is not None or shape is None or len(shape) < 2:
            return None
        domain = access.context.domain(self.domain)
        total = access.start[0]
        for size, index in zip(shape[1:], access.start[1:], strict=True):
            if not bounds(index, domain).within(Interval(0, size - 1)):
                return None
            total = total * size + index
        return self._linear.sum(total) if total.is_index else None


class _InBody(Linearizer):
    """Sums of index expressions of one loop body, with bindings inlined."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        super().__init__()
        self._values = values

    def value(self, var: Var) -> Expr | None:
        return self._values.get(var)


@record(slots=True)
class _Distance:
    """The possible values of a difference: within `total`, and `constant` plus a multiple of `grain`."""

    total: Interval
    constant: int
    grain: int


def _term_bounds(term: Term, domain: Domain) -> Interval:
    result = bounds(term[0].expr, domain)
    for key in term[1:]:
        result = multiply(result, bounds(key.expr, domain))
    return result


def _may_vanish(distance: _Distance, x: Access, y: Access, d: int | None) -> bool:
    if _elements(x, y) and (distance.constant % distance.grain if distance.grain else distance.constant):
        return False
    low, high = _overlap(distance, x, y, d)
    return low <= 0 <= high


def _elements(x: Access, y: Access) -> bool:
    return x.extent is None and y.extent is None


def _overlap(distance: _Distance, x: Access, y: Access, d: int | None) -> tuple[float, float]:
    """The range of differences, reduced by the extents of the two regions in dimension `d`."""
    first, second = _extent(x, d), _extent(y, d)
    if first is None or second is None:
        return -math.inf, math.inf
    low = -math.inf if distance.total.low is None else distance.total.low - (second - 1)
    high = math.inf if distance.total.high is None else distance.total.high + (first - 1)
    return low, high


def _extent(access: Access, d: int | None) -> int | None:
    return 1 if access.extent is None or d is None else int_const(access.extent[d])
