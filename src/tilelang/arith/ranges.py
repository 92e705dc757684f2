"""Interval arithmetic on integers.

Takes and gives `Interval`s. Invariant: the result contains every value of the operator, evaluated exactly, on values of
the operands' intervals; it may be too wide, never too narrow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from tilelang.dtypes import DType
from tilelang.ir.scalar import BinaryOp, exact_binary


class Interval(NamedTuple):
    """The integers from `low` to `high`, both inclusive; None stands for no bound on that side."""

    low: int | None = None
    high: int | None = None

    @property
    def value(self) -> int | None:
        """The value if the interval has exactly one, else None."""
        return self.low if self.low == self.high else None

    def contains(self, value: int) -> bool:
        """Whether `value` is in the interval."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def within(self, other: Interval) -> bool:
        """Whether this interval is a subset of the other."""
        return (other.low is None or (self.low is not None and self.low >= other.low)) and (
            other.high is None or (self.high is not None and self.high <= other.high)
        )

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that contains both."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Interval(low, high)

    def meet(self, other: Interval) -> Interval:
        """The intersection."""
        low = self.low if other.low is None else other.low if self.low is None else max(self.low, other.low)
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        return Interval(low, high)


ANYTHING = Interval()
TRUTH = Interval(0, 1)


@functools.cache
def of_dtype(dtype: DType) -> Interval:
    """All values of an integer dtype or bool; anything for floats."""
    if dtype.is_float or dtype.lanes > 1:
        return ANYTHING
    low, high = dtype.limits
    return Interval(int(low), int(high))


def add(a: Interval, b: Interval) -> Interval:
    """Bounds of x + y."""
    return Interval(
        None if a.low is None or b.low is None else a.low + b.low,
        None if a.high is None or b.high is None else a.high + b.high,
    )


def negate(a: Interval) -> Interval:
    """Bounds of -x."""
    return Interval(None if a.high is None else -a.high, None if a.low is None else -a.low)


def subtract(a: Interval, b: Interval) -> Interval:
    """Bounds of x - y."""
    return add(a, negate(b))


def scale(a: Interval, factor: int) -> Interval:
    """Bounds of factor * x."""
    if factor == 0:
        return Interval(0, 0)
    low = None if a.low is None else a.low * factor
    high = None if a.high is None else a.high * factor
    return Interval(low, high) if factor > 0 else Interval(high, low)


def multiply(a: Interval, b: Interval) -> Interval:
    """Bounds of x * y."""
    if a.low is not None and a.low == a.high:
        return scale(b, a.low)
    if b.low is not None and b.low == b.high:
        return scale(a, b.low)
    ends = [_product(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(ends), max(ends)
    return Interval(None if low == -_INF else int(low), None if high == _INF else int(high))


_INF = float("inf")


def _ends(a: Interval) -> tuple[float, float]:
    return (-_INF if a.low is None else a.low, _INF if a.high is None else a.high)


def _product(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y if isinstance(x, int) and isinstance(y, int) else _signed_inf(x, y)


def _signed_inf(x: float, y: float) -> float:
    return _INF if (x > 0) == (y > 0) else -_INF


def _quotient(op: BinaryOp, a: Interval, b: Interval) -> Interval:
    """Bounds of x // y or truncdiv(x, y): monotone in x, and in y on either side of 0; division by 0 gives 0."""
    result: Interval | None = Interval(0, 0) if b.contains(0) else None
    for side in (b.meet(Interval(1, None)), b.meet(Interval(None, -1))):
        if side.low is not None and side.high is not None and side.low > side.high:
            continue
        part = _one_sided_quotient(op, a, side)
        result = part if result is None else result.hull(part)
    return result if result is not None else ANYTHING


def _one_sided_quotient(op: BinaryOp, a: Interval, b: Interval) -> Interval:
    # towards an infinite divisor the quotient of x tends to 0, or to -1 from below
    divisors = [end for end in b if end is not None]
    if len(divisors) == 1:
        divisors.append(divisors[0] * (1 + max(abs(a.low or 0), abs(a.high or 0))))
    if a.low is not None and a.high is not None:
        values = [exact_binary(op, x, y) for x in a for y in divisors if x is not None]
        return Interval(min(values), max(values))
    positive = divisors[0] > 0
    known = a.low if a.low is not None else a.high
    if known is None:
        return ANYTHING
    values = [exact_binary(op, known, y) for y in divisors]
    grows = (a.high is None) == positive  # the open end of x leads to +infinity
    return Interval(min(values), None) if grows else Interval(None, max(values))


def _floormod(a: Interval, b: Interval) -> Interval:
    """Bounds of x % y: between 0 and the divisor, of the divisor's sign; 0 when the divisor is 0."""
    if b.low is not None and b.low > 0:
        if a.low is not None and a.high is not None:
            if 0 <= a.low and a.high < b.low:
                return a
            if b.low == b.high and a.low // b.low == a.high // b.low:
                return Interval(a.low % b.low, a.high % b.low)
        largest = None if b.high is None else b.high - 1
        if a.low is not None and a.low >= 0 and a.high is not None:
            largest = a.high if largest is None else min(a.high, largest)
        return Interval(0, largest)
    low = None if b.low is None else min(0, b.low + 1)
    high = None if b.high is None else max(0, b.high - 1)
    return Interval(low, high)


def _truncmod(a: Interval, b: Interval) -> Interval:
    """Bounds of truncmod(x, y): smaller than the divisor in magnitude, of the dividend's sign."""
    sizes = [abs(end) for end in b if end is not None]
    most = None if len(sizes) < 2 else max(*sizes, 1) - 1
    low: int | None = 0 if a.low is not None and a.low >= 0 else None if most is None else -most
    high: int | None = 0 if a.high is not None and a.high <= 0 else most
    if a.low is not None and a.low < 0:
        low = a.low if low is None else max(low, a.low)
    if a.high is not None and a.high > 0:
        high = a.high if high is None else min(high, a.high)
    return Interval(low, high)


def _minimum(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = a.high if b.high is None else b.high if a.high is None else min(a.high, b.high)
    return Interval(low, high)


def _maximum(a: Interval, b: Interval) -> Interval:
    return negate(_minimum(negate(a), negate(b)))


def _bitand(a: Interval, b: Interval) -> Interval:
    tops = [x.high for x in (a, b) if x.low is not None and x.low >= 0]
    if not tops:
        return ANYTHING
    known = [top for top in tops if top is not None]
    return Interval(0, min(known) if known else None)


def _bitor(a: Interval, b: Interval) -> Interval:
    """Bounds of x | y and of x ^ y (but for the lower one, which x | y may raise)."""
    if a.low is None or b.low is None or a.low < 0 or b.low < 0:
        return ANYTHING
    if a.high is None or b.high is None:
        return Interval(0, None)
    return Interval(0, (1 << max(a.high, b.high).bit_length()) - 1)


def _shift_left(a: Interval, b: Interval) -> Interval:
    if b.low is None or b.high is None or b.low < 0 or b.high > 63:
        return ANYTHING
    return multiply(a, Interval(1 << b.low, 1 << b.high))


def _shift_right(a: Interval, b: Interval) -> Interval:
    if b.low is None or b.high is None or b.low < 0 or b.high > 63:
        low = 0 if a.low is not None and a.low >= 0 else None if a.low is None else a.low
        return Interval(low, None if a.high is None else max(a.high, 0))
    return _quotient(BinaryOp.FLOORDIV, a, Interval(1 << b.low, 1 << b.high))


_OPERATORS: dict[BinaryOp, Callable[[Interval, Interval], Interval]] = {
    BinaryOp.ADD: add,
    BinaryOp.SUB: subtract,
    BinaryOp.MUL: multiply,
    BinaryOp.FLOORDIV: lambda a, b: _quotient(BinaryOp.FLOORDIV, a, b),
    BinaryOp.FLOORMOD: _floormod,
    BinaryOp.TRUNCDIV: lambda a, b: _quotient(BinaryOp.TRUNCDIV, a, b),
    BinaryOp.TRUNCMOD: _truncmod,
    BinaryOp.MIN: _minimum,
    BinaryOp.MAX: _maximum,
    BinaryOp.BITAND: _bitand,
    BinaryOp.BITOR: _bitor,
    BinaryOp.BITXOR: _bitor,
    BinaryOp.SHL: _shift_left,
    BinaryOp.SHR: _shift_right,
}


def apply(op: BinaryOp, a: Interval, b: Interval) -> Interval:
    """Bounds of `x op y` evaluated exactly, for the operators that give integers; anything for others."""
    operator = _OPERATORS.get(op)
    return ANYTHING if operator is None else operator(a, b)



def compare(op: BinaryOp, a: Interval, b: Interval) -> bool | None:
    """Whether `x op y` holds for all values of the intervals (True), for none (False), or neither is known (None)."""
    match op:
        case BinaryOp.GT | BinaryOp.GE:
            flipped = BinaryOp.LT if op is BinaryOp.GT else BinaryOp.LE
            return compare(flipped, b, a)
        case BinaryOp.LT:
            if a.high is not None and b.low is not None and a.high < b.low:
                return True
            return False if a.low is not None and b.high is not None and a.low >= b.high else None
        case BinaryOp.LE:
            opposite = compare(BinaryOp.LT, b, a)
            return None if opposite is None else not opposite
        case BinaryOp.EQ:
            if a.value is not None and a.value == b.value:
                return True
            apart = compare(BinaryOp.LT, a, b) or compare(BinaryOp.LT, b, a)
            return False if apart else None
        case BinaryOp.NE:
            opposite = compare(BinaryOp.EQ, a, b)
            return None if opposite is None else not opposite
    return None
