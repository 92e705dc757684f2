"""Index-set splitting of a loop whose parallel loops mask elements: iterations that mask nothing run without masks.

Takes a loop, gives up to three loops over consecutive parts of its range with the same statements. In the middle one,
conditions that hold, or fail, for all elements are constants; the others keep the body as it is. Invariant: the loops
run the same iterations in the same order and compute the same; split points have one value for all threads.

A condition holds where all parts of a conjunction do, or one part of a disjunction, the first that says where. Parts
are comparisons that are linear in the loop's variable and in those of parallel loops. With the latter at their
extremes, each gives an end of the range in which it holds for all elements:

    for k in range(n):                                     # S = 0 if 128 * b + i >= 64 * k + j else -inf
    for k in range(0, e), for k in range(e, n)             # e = (128 * b - 63) // 64 + 1, clamped to the range
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from tilelang.analysis.strides import coefficient
from tilelang.arith.domain import Domain
from tilelang.arith.exact import bind_exact, exact
from tilelang.arith.interval import NEGATED
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var, binary, const, int_const
from tilelang.ir.scalar import CONJUNCTIONS, DISJUNCTIONS, BinaryOp, UnaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Bind, For, ForKind, If, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import (
    Rewriter,
    defined_variables,
    expressions,
    jumps,
    loads_of,
    substitute,
    variables_of,
    walk,
    walk_expr,
)
from tilelang.lowering.regions import whole
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.records import record

_SWAPPED = {BinaryOp.GT: BinaryOp.LT, BinaryOp.GE: BinaryOp.LE}


def split_masks(loop: For, domain: Domain, is_uniform: Callable[[Expr], bool]) -> Seq | None:
    """The loops, and bindings of their split points; None if no iterations are known to mask nothing.

    Args:
        loop: A serial loop.
        domain: What holds where it stands.
        is_uniform: Whether all threads have the same value of an expression.
    """
    if loop.kind is not ForKind.SERIAL or loop.step not in (1, -1) or jumps(loop.body):
        return None
    found = _Search(loop, domain, is_uniform).masks()
    if not found:
        return None
    start, stop = exact(loop.start), exact(loop.stop)
    first, end = (start, stop) if loop.step > 0 else (stop + 1, start + 1)
    binds = [bind for each in found for bind in each.names]

    def named(suffix: str, limits: Sequence[Expr], op: BinaryOp, least: Expr) -> Expr:
        value = simplify(_tightest(limits, op, least, end), domain)
        if isinstance(value, Const | Var):
            return value
        bound = bind_exact(f"{loop.var.name}_{suffix}", value, loop.loc)
        binds.append(bound)
        return bound.var

    lower, upper = [e for each in found for e in each.lower], [e for each in found for e in each.upper]
    begin = named("begin", lower, BinaryOp.MAX, first) if lower else first
    stop = named("end", upper, BinaryOp.MIN, begin) if upper else end
    unmasked = _Unmask({id(each.node): each.holds for each in found}).visit(loop.body) or Seq((), loc=loop.body.loc)
    parts = [(first, begin, loop.body), (begin, stop, unmasked), (stop, end, loop.body)]
    for bind in binds:
        domain = domain.with_value(bind.var, bind.value)
    parts = [(low, high, body) for low, high, body in parts if not proves(low >= high, domain)]
    if not any(body is unmasked for *_, body in parts):
        return None
    loops = [_over(loop, low, high, body) for low, high, body in parts]
    return Seq((*binds, *(loops if loop.step > 0 else reversed(loops))), loc=loop.loc)


def has_masks(loop: For, domain: Domain, is_uniform: Callable[[Expr], bool]) -> bool:
    """Whether a loop, when it is serial, may be split so that some iterations run without masks.

    Args:
        loop: A loop.
        domain: What holds where it stands.
        is_uniform: Whether all threads have the same value of an expression.
    """
    return bool(_Search(loop, domain, is_uniform).masks())


def masked_from(
    stmt: Stmt, rows: tuple[Expr, int], loop: For, domain: Domain, is_uniform: Callable[[Expr], bool]
) -> Expr | None:
    """From which value of a loop's variable on a statement masks some rows of a tile by -inf; None if it may not.

    Args:
        stmt: A statement of the loop.
        rows: The first row, and how many.
        loop: A loop with steps of 1.
        domain: What holds where the loop stands.
        is_uniform: As above.
    """
    return _Search(loop, domain, is_uniform).masked_from(stmt, rows)


def without_masks(loop: For, domain: Domain, is_uniform: Callable[[Expr], bool]) -> Callable[[Stmt], Stmt | None]:
    """Gives a statement of a loop's body as it is in iterations that mask nothing; None if it vanishes.

    Args:
        loop: A loop.
        domain: What holds where it stands.
        is_uniform: Whether all threads have the same value of an expression.
    """
    return _Unmask({id(each.node): each.holds for each in _Search(loop, domain, is_uniform).masks()}).visit


def _over(loop: For, low: Expr, high: Expr, body: Stmt) -> For:
    """The loop over the values from `low` to below `high`."""
    start, stop = (low, high) if loop.step > 0 else (high - 1, low - 1)
    return dataclasses.replace(loop, start=start, stop=stop, body=body)


def _tightest(limits: Sequence[Expr], op: BinaryOp, least: Expr, end: Expr) -> Expr:
    """The tightest of some limits, clamped to a range; `least` where the range is empty."""
    bound = limits[0]
    for limit in limits[1:]:
        bound = binary(op, bound, limit)
    return binary(BinaryOp.MAX, binary(BinaryOp.MIN, bound, end), least)


@record(slots=True, eq=False)
class _Mask:
    """A choice that goes one way in all iterations between limits.

    Attributes:
        node: The select or branch.
        holds: Whether its condition holds there.
        lower: The limits from below: values of the loop's variable that are not less.
        upper: The limits from above: values that are less.
        names: The names in the limits of values that are data.
    """

    node: Select | If
    holds: bool
    lower: list[Expr] = field(default_factory=list)
    upper: list[Expr] = field(default_factory=list)
    names: list[Bind] = field(default_factory=list)


class _Search:
    """The search for masks in the body of a loop."""

    def __init__(self, loop: For, domain: Domain, is_uniform: Callable[[Expr], bool]) -> None:
        self._loop, self._domain, self._is_uniform = loop, domain, is_uniform
        self._values: dict[Var, Expr] = {}  # of bindings in the body
        self._defined: set[Var] = {loop.var}

    def masks(self) -> list[_Mask]:
        """The masks of the body that the loop can be split at."""
        return [mask for mask in self._visit(self._loop.body, {}) if mask.lower or mask.upper]

    def masked_from(self, stmt: Stmt, rows: tuple[Expr, int]) -> Expr | None:
        """From which value of the loop's variable on a statement masks some rows of a tile by -inf."""
        list(self._visit(self._loop.body, {}))  # finds bindings
        branches: list[Expr] = []
        while isinstance(stmt, If) and stmt.else_body is None:
            branches.append(substitute(stmt.condition, self._values))
            (stmt, *others) = statements_of(stmt.then_body)
            if others:
                return None
        if not isinstance(stmt, ParallelLoop) or len(stmt.vars) != len(rows):
            return None
        *binds, store = statements_of(stmt.body)
        if not isinstance(store, Store) or not all(isinstance(each, Bind) for each in binds):
            return None
        chosen, (i, j), (first, count) = store.value, stmt.vars, rows
        if not isinstance(chosen, Select) or store.indices != (i, j) or _is_nothing(chosen.a) == _is_nothing(chosen.b):
            return None
        mask = _Mask(chosen, _is_nothing(chosen.a))
        condition = substitute(substitute(chosen.condition, self._values), {i: first + i})
        known = self._decides(mask, condition, mask.holds, {i: count, j: int_const(stmt.extents[1]) or 0})
        if not known or not all(self._decides(mask, each, True, {}) for each in branches):
            return None
        if not mask.lower or mask.upper or mask.names:
            return None
        return functools.reduce(functools.partial(binary, BinaryOp.MAX), mask.lower)

    def _visit(self, stmt: Stmt, extents: Mapping[Var, int]) -> Iterator[_Mask]:
        """The masks below a statement, given the extents of the parallel loops around it."""
        match stmt:
            case Seq(body=body):
                for child in body:
                    yield from self._visit(child, extents)
            case ParallelLoop(vars=variables, extents=sizes, body=body):
                known = zip(variables, map(int_const, sizes), strict=True)
                self._defined.update(variables)
                yield from self._visit(body, {**extents, **{var: size for var, size in known if size is not None}})
            case If(then_body=then, else_body=other) if _is_elementwise(stmt):
                yield from self._masks((stmt, stmt.condition, other is not None and not _is_literal(then)), extents)
                for body in (then, *(() if other is None else (other,))):
                    yield from self._visit(body, extents)
            case If(then_body=then) if any(isinstance(s, Gemm) for s in walk(then)):
                yield from self._visit(then, extents)
            case Bind(var=var, value=value):
                self._defined.add(var)
                if not loads_of(value):
                    self._values[var] = substitute(value, self._values)
            case Store() if extents:
                for node in (e for root in expressions(stmt) for e in walk_expr(root)):
                    if isinstance(node, Select):
                        yield from self._masks((node, node.condition, _chosen_unmasked(node)), extents)
            case _:
                self._defined.update(var for each in walk(stmt) for var in defined_variables(each))

    def _masks(self, choice: tuple[Select | If, Expr, bool], extents: Mapping[Var, int]) -> Iterator[_Mask]:
        mask = self._mask(*choice, extents)
        if mask is not None:
            yield mask

    def _mask(self, node: Select | If, condition: Expr, holds: bool, extents: Mapping[Var, int]) -> _Mask | None:
        """The mask that goes one way wherever its condition does; None where that is not known."""
        mask = _Mask(node, holds)
        condition = substitute(condition, self._values)
        return mask if self._decides(mask, condition, holds, extents) else None

    def _decides(self, mask: _Mask, condition: Expr, holds: bool, extents: Mapping[Var, int]) -> bool:
        """Adds the limits between which a condition holds, or fails, for all elements; False if they are not known."""
        match condition:
            case Unary(op=UnaryOp.NOT, a=a):
                return self._decides(mask, a, not holds, extents)
            case Binary(op=op, a=a, b=b) if op in (CONJUNCTIONS if holds else DISJUNCTIONS):
                return self._decides(mask, a, holds, extents) and self._decides(mask, b, holds, extents)
            case Binary(op=op, a=a, b=b) if op in (DISJUNCTIONS if holds else CONJUNCTIONS):
                for part in (a, b):
                    alone = _Mask(mask.node, mask.holds)
                    if self._decides(alone, part, holds, extents):
                        mask.lower.extend(alone.lower)
                        mask.upper.extend(alone.upper)
                        mask.names.extend(alone.names)
                        return True
                return False
            case Binary(op=op, a=a, b=b) if op in NEGATED and a.dtype.is_int and not loads_of(condition):
                return self._add(mask, condition if holds else Binary(NEGATED[op], a, b, BOOL), extents)
        return False

    def _as_index(self, mask: _Mask, side: Expr, other: Expr) -> Expr | None:
        """A side of a comparison as an index; of data, a name for it, if the loop's variable is compared with that."""
        if side.is_index:
            return side
        match other:
            case Var() if other is self._loop.var:
                pass
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB, a=a, b=Const()) if a is self._loop.var and other.is_index:
                pass
            case _:
                return None
        if not variables_of(side).isdisjoint(self._defined) or not self._is_uniform(side):
            return None
        name = Var(f"{self._loop.var.name}_limit", side.dtype, index=True)
        mask.names.append(Bind(name, side, loc=self._loop.loc))
        return name

    def _add(self, mask: _Mask, part: Binary, extents: Mapping[Var, int]) -> bool:
        """Adds the limits between which a comparison holds for all elements; False if they are not known."""
        op, left, right = part.op, self._as_index(mask, part.a, part.b), self._as_index(mask, part.b, part.a)
        if op in _SWAPPED:
            op, left, right = _SWAPPED[op], right, left
        if op not in (BinaryOp.LT, BinaryOp.LE) or left is None or right is None:
            return False
        gap = right - left if op is BinaryOp.LE else right - left - 1  # to be nonnegative
        least: dict[Var, Expr] = {}
        for var, extent in extents.items():
            slope = coefficient(gap, var)
            if slope is None or extent < 1:
                return False
            least[var] = const(0 if slope >= 0 else extent - 1, var.dtype)
        slope = coefficient(gap, self._loop.var)
        if slope is None:
            return False
        rest = substitute(gap, {**least, self._loop.var: const(0, self._loop.var.dtype)})
        if not variables_of(rest).isdisjoint(self._defined) or not self._is_uniform(rest):
            return False
        rest = simplify(rest, self._domain)
        if slope == 0:
            return proves(rest >= 0, self._domain)
        if slope > 0:
            mask.lower.append(simplify((slope - 1 - rest) // slope, self._domain))
        else:
            mask.upper.append(simplify(rest // -slope + 1, self._domain))
        return True


def _is_nothing(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == -math.inf


def _chosen_unmasked(node: Select) -> bool:
    """Which outcome of a condition leaves less to do: the value that is computed, not the literal that masks it."""
    if isinstance(node.a, Const) and isinstance(node.b, Const):
        return node.b.value != 0
    return not isinstance(node.a, Const)


def _is_literal(stmt: Stmt) -> bool:
    """Whether all that a statement stores is literals."""
    return all(isinstance(s.value, Const) for s in walk(stmt) if isinstance(s, Store))


def _is_elementwise(stmt: Stmt) -> bool:
    """Whether a statement does nothing but store elements."""
    return all(isinstance(s, Seq | Bind | If | ParallelLoop | Store) for s in walk(stmt))


class _Unmask(Rewriter):
    """The body with choices made."""

    def __init__(self, holds: Mapping[int, bool]) -> None:
        self._holds = holds  # by the identity of selects and branches

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Select) and id(node) in self._holds:
            return self.expr(node.a if self._holds[id(node)] else node.b)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If) and id(node) in self._holds:
            chosen = node.then_body if self._holds[id(node)] else node.else_body
            return None if chosen is None else self.visit(chosen)
        rebuilt = self.rebuild_stmt(node)
        if rebuilt is not node and isinstance(rebuilt, Store) and _is_identity(rebuilt):
            return None
        if rebuilt is not node and isinstance(rebuilt, ParallelLoop):
            return _as_fill(rebuilt)
        return rebuilt


def _is_identity(store: Store) -> bool:
    value = store.value
    same = isinstance(value, Load) and value.buffer is store.buffer and store.buffer.scope is not Scope.GLOBAL
    return same and isinstance(value, Load) and all(map(same_expr, value.indices, store.indices))


def _as_fill(loop: ParallelLoop) -> Stmt | None:
    """A loop that stores one literal to a whole buffer as `T.fill`; None if the loop does nothing."""
    effects = [s for s in walk(loop.body) if not isinstance(s, Seq | Bind)]
    if not effects:
        return None
    stmt = effects[0]
    if len(effects) > 1:
        return loop
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Const) or stmt.buffer.scope is not Scope.FRAGMENT:
        return loop
    is_whole = len(loop.vars) == stmt.buffer.rank and all(
        index is var and same_expr(extent, size)
        for index, var, extent, size in zip(stmt.indices, loop.vars, loop.extents, stmt.buffer.shape, strict=False)
    )
    return Fill(whole(stmt.buffer), stmt.value, loc=loop.loc) if is_whole else loop
