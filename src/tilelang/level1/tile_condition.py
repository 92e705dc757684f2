"""Evaluates a condition on a whole tile, by interval arithmetic whose bounds are expressions that a kernel computes.

Takes a condition over elements and the ranges of its operands on a tile, gives two conditions on the tile: whether it
may hold for some element, and whether it holds for every one. Invariant: both are conservative; where nothing is known,
the first is true and the second false. Integer data is compared and divided, but not added, since sums wrap.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import BOOL
from tilelang.ir.expr import Binary, Cast, Const, Expr, Load, Unary, binary, cast, int_const, unary
from tilelang.ir.scalar import CONJUNCTIONS, DISJUNCTIONS, BinaryOp, UnaryOp
from tilelang.level1.promotion import holds_all_values
from tilelang.records import record


@record(eq=False)
class Range:
    """A lower and an upper bound of an expression on a tile."""

    low: Expr
    high: Expr


@record(eq=False)
class TileCondition:
    """A condition on a tile.

    Attributes:
        may_hold: False only where it holds for no element.
        must_hold: True only where it holds for all elements.
    """

    may_hold: Expr
    must_hold: Expr


RangeOf = Callable[[Expr], Range | None]
"""The range of an element of an array or of an axis; None if it is not known."""

_UNKNOWN = TileCondition(Const(True, BOOL), Const(False, BOOL))


def tile_condition(condition: Expr, range_of: RangeOf) -> TileCondition:
    """A condition over elements, evaluated on a tile."""
    match condition:
        case Const(value=value):
            truth = Const(bool(value), BOOL)
            return TileCondition(truth, truth)
        case Unary(op=UnaryOp.NOT, a=a):
            return _negated(tile_condition(a, range_of))
        case Binary(op=op, a=a, b=b) if (
            condition.dtype.is_bool and a.dtype.is_bool and op in CONJUNCTIONS + DISJUNCTIONS
        ):
            x, y = tile_condition(a, range_of), tile_condition(b, range_of)
            logical = BinaryOp.AND if op in CONJUNCTIONS else BinaryOp.OR
            return TileCondition(binary(logical, x.may_hold, y.may_hold), binary(logical, x.must_hold, y.must_hold))
        case Binary(op=op, a=a, b=b) if a.dtype.is_int:
            p, q = value_range(a, range_of), value_range(b, range_of)
            return _UNKNOWN if p is None or q is None else _compared(op, p, q)
        case Load() if condition.dtype.is_bool:
            own = range_of(condition)
            return _UNKNOWN if own is None else TileCondition(own.high != 0, own.low != 0)
    return _UNKNOWN


def _negated(truth: TileCondition) -> TileCondition:
    return TileCondition(unary(UnaryOp.NOT, truth.must_hold), unary(UnaryOp.NOT, truth.may_hold))


def _compared(op: BinaryOp, a: Range, b: Range) -> TileCondition:
    match op:
        case BinaryOp.LT:
            return TileCondition(a.low < b.high, a.high < b.low)
        case BinaryOp.LE:
            return TileCondition(a.low <= b.high, a.high <= b.low)
        case BinaryOp.GT:
            return _compared(BinaryOp.LT, b, a)
        case BinaryOp.GE:
            return _compared(BinaryOp.LE, b, a)
        case BinaryOp.EQ:
            overlap = binary(BinaryOp.AND, a.low <= b.high, b.low <= a.high)
            return TileCondition(overlap, binary(BinaryOp.AND, a.high <= b.low, b.high <= a.low))
        case BinaryOp.NE:
            return _negated(_compared(BinaryOp.EQ, a, b))
    return _UNKNOWN


def value_range(expr: Expr, range_of: RangeOf) -> Range | None:
    """The range of an integer on a tile; None if it is not known."""
    match expr:
        case Const():
            return Range(expr, expr)
        case Cast(a=a) if expr.dtype.is_int and a.dtype.is_int and holds_all_values(expr.dtype, a.dtype):
            own = value_range(a, range_of)
            return own and Range(cast(own.low, expr.dtype), cast(own.high, expr.dtype))
        case Binary(op=BinaryOp.FLOORDIV, a=a, b=Const() as divisor) if (int_const(divisor) or 0) > 0:
            own = value_range(a, range_of)
            return own and Range(own.low // divisor, own.high // divisor)
        case Binary(op=BinaryOp.MUL, a=a, b=Const(value=value) as factor) if expr.is_index:
            own = value_range(a, range_of)
            ends = None if own is None else (own.low * factor, own.high * factor)
            return ends and Range(*(ends if value >= 0 else ends[::-1]))
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX as op, a=a, b=b):
            p, q = value_range(a, range_of), value_range(b, range_of)
            return p and q and Range(binary(op, p.low, q.low), binary(op, p.high, q.high))
        case Binary(op=BinaryOp.ADD, a=a, b=b) if expr.is_index:
            p, q = value_range(a, range_of), value_range(b, range_of)
            return p and q and Range(p.low + q.low, p.high + q.high)
        case Binary(op=BinaryOp.SUB, a=a, b=b) if expr.is_index:
            p, q = value_range(a, range_of), value_range(b, range_of)
            return p and q and Range(p.low - q.high, p.high - q.low)
    return range_of(expr)
