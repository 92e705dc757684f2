"""The range of a loop over tiles: iterations that a mask excludes are skipped, as with a causal mask."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tilelang.arith.affine import Affine, linear_form
from tilelang.dtypes import INT32, INT64
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import ExprKey, KeyedExpr, expr_key
from tilelang.ir.expr import Binary, Expr, Select, Var, as_expr, binary, cast, conjuncts, int_const
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter, loads_of, variables_of, walk_expr
from tilelang.level1.contraction import without_widening
from tilelang.level1.data_passes import Accumulation
from tilelang.level1.placement import next_origin
from tilelang.level1.tile_values import TileValues
from tilelang.records import record

_MIRRORED = {BinaryOp.LT: BinaryOp.GT, BinaryOp.LE: BinaryOp.GE, BinaryOp.GT: BinaryOp.LT, BinaryOp.GE: BinaryOp.LE}


@record(eq=False)
class ReducedBody:
    """A body that a loop reduces, and the neutral value of the reduction."""

    body: Expr
    neutral: float


def reduced_body(accumulation: Accumulation) -> ReducedBody:
    """The body that a reduction combines in its pass."""
    reduction = accumulation.reduction
    return ReducedBody(accumulation.body, float(reduction.combiner.neutral(reduction.body.dtype)))


def loop_range(
    axis: Var,
    combined: Sequence[ReducedBody],
    values: TileValues,
    whole: str,
    names: ExprPrinter,
    computed: Container[Buffer] = (),
) -> tuple[str, str]:
    """The first iteration, or "" if it is 0, and the end of the range.

    Args:
        axis: The axis whose tiles the loop visits.
        combined: All that the loop combines.
        values: What the block holds.
        whole: The number of iterations without masks.
        names: How expressions are printed.
        computed: The arrays that the kernel itself reduces, which bound no range.
    """
    place = values.placement.places[axis]
    size, extent = names.expr(place.size), names.expr(values.localized(place.extent))
    starts: list[str] = []
    stops: list[str] = []
    for condition in masks_of(axis, combined, values):
        for bound in _nonnegative_forms(condition.expr):
            factor = bound.coefficient(axis)
            rest = Affine({v: c * -factor for v, c in bound.terms.items() if v is not axis}, bound.constant * -factor)
            if factor == -1:  # axis <= rest
                highest = _extreme(Affine(rest.terms, rest.constant + 1), values, largest=True)
                if highest is not None:
                    stops.append(names.expr(highest))
            elif factor == 1:  # axis >= rest
                lowest = _extreme(rest, values, largest=False)
                if lowest is not None:
                    starts.append(names.expr(lowest))
        for part in conjuncts(condition.expr):
            end = _end_by_data(part, axis, values, computed)
            if end is not None:
                stops.append(names.expr(end))
    first = f"T.max({', '.join(['0', *starts])}) // {size}" if starts else ""
    return first, f"T.ceildiv(T.min({', '.join([extent, *stops])}), {size})" if stops else whole


def masks_of(axis: Var, combined: Sequence[ReducedBody], values: TileValues) -> list[KeyedExpr]:
    """The conditions on an axis where all bodies have their neutral value if the condition is false."""
    found = {
        KeyedExpr(node.condition): None
        for each in combined
        for node in walk_expr(each.body)
        if isinstance(node, Select) and axis in variables_of(node.condition)
    }
    return [
        key for key in found
        if all(values.padding(_Without(key).expr(each.body), frozenset()) == each.neutral for each in combined)
    ]  # fmt: skip


def bounds_range(condition: Expr, axis: Var) -> bool:
    """Whether a condition bounds the range of a loop over an axis."""
    return any(abs(bound.coefficient(axis)) == 1 for bound in _nonnegative_forms(condition))


def _nonnegative_forms(condition: Expr) -> Iterator[Affine]:
    """Affine forms that are not negative where a condition holds."""
    if not isinstance(condition, Binary):
        return
    op, a, b = condition.op, condition.a, condition.b
    if op is BinaryOp.AND:
        yield from _nonnegative_forms(a)
        yield from _nonnegative_forms(b)
        return
    forms = {
        BinaryOp.LE: [b - a],
        BinaryOp.LT: [b - a - 1],
        BinaryOp.GE: [a - b],
        BinaryOp.GT: [a - b - 1],
        BinaryOp.EQ: [a - b, b - a],
    }.get(op, [])
    for form in forms:
        affine = linear_form(form) if form.is_index else None
        if affine is not None:
            yield affine


def _end_by_data(condition: Expr, axis: Var, values: TileValues, computed: Container[Buffer]) -> Expr | None:
    """The end of the range where an axis is below a bound in memory, of which a block has one; None for other masks.

    The bound may be any integer, so it is clamped before anything is added to it.
    """
    if not isinstance(condition, Binary) or condition.op not in _MIRRORED:
        return None
    op, index, bound = condition.op, condition.a, condition.b
    if op in (BinaryOp.GT, BinaryOp.GE):
        op, index, bound = _MIRRORED[op], bound, index
    loads = list(loads_of(bound))
    if bound.dtype not in (INT32, INT64) or not loads or any(load.buffer in computed for load in loads):
        return None
    if values.dims_of(bound) or not variables_of(bound).isdisjoint(values.placement.steps):
        return None
    inner = without_widening(index)
    form = linear_form(inner) if inner.is_index else None
    if form is None or form.coefficient(axis) != 1:
        return None
    rest = Affine({var: factor for var, factor in form.terms.items() if var is not axis}, form.constant)
    first = _extreme(rest, values, largest=False) if rest.terms else as_expr(rest.constant)
    if first is None or min((*rest.terms.values(), rest.constant)) < 0:
        return None
    included = int(op is BinaryOp.LE)
    extent = values.localized(values.placement.places[axis].extent)
    below = binary(BinaryOp.MIN, values.localized(bound), first + _plus(extent, -included))
    end = cast(binary(BinaryOp.MAX, below, _plus(first, -included)), INT32)
    return _plus(end if int_const(first) == 0 else end - first, included)


def _extreme(form: Affine, values: TileValues, *, largest: bool) -> Expr | None:
    """The largest or smallest value of a form in the current tile."""
    result: Expr | None = None
    constant = form.constant
    for var, factor in form.terms.items():
        place = values.placement.places.get(var)
        if place is None:
            value: Expr = var
        elif var in values.placement.steps:
            return None
        elif place.local is None or (factor > 0) is not largest:
            value = place.origin
        else:
            value, constant = next_origin(place), constant - factor
        term = value if factor == 1 else value * factor
        result = term if result is None else result + term
    return None if result is None else _plus(result, constant)


def _plus(expr: Expr, constant: int) -> Expr:
    if constant < 0:
        return expr - -constant
    return expr + constant if constant else expr


class _Without(Rewriter):
    """Replaces each select by a condition with the operand for false."""

    def __init__(self, condition: ExprKey) -> None:
        self._condition = condition

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Select) and expr_key(node.condition) == self._condition:
            return self.expr(node.b)
        return self.rebuild_expr(node)
