"""In which integer type index arithmetic is exact, expression by expression.

Takes the facts that hold where the printer stands, gives widths in bits. Invariant: the value of an expression, and
of every part of it that was asked about, fits in the width that was given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.arith import ranges
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds, computed
from tilelang.arith.ranges import Interval, of_dtype
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Expr, Var, int_const
from tilelang.ir.stmt import For

_NARROW = of_dtype(INT32)


class IndexTypes:
    """All index arithmetic in the widest type; for machines on which that costs nothing.

    Attributes:
        least: The width of the narrowest type in use.
    """

    least = 64

    def bits(self, expr: Expr) -> int:
        """The width that holds the value of an integer expression."""
        return 64

    def offset_bits(self, buffer: Buffer) -> int | None:
        """The width that holds every offset into a buffer; None if it takes a look at the indices."""
        return 64

    def is_nonnegative(self, expr: Expr) -> bool:
        """Whether a value is known never to be negative."""
        return False

    def declare(self, var: Var) -> int:
        """The width of a variable that the source declares now, from what is known of it."""
        return 64

    def declared(self, var: Var) -> int:
        """The width that a variable was declared with."""
        return 64

    def bind(self, var: Var, value: Expr) -> int:
        """The width of a variable that is bound to a value, which is known from now on in this scope."""
        return 64

    def bind_data(self, var: Var, value: Expr) -> None:
        """Learns, in this scope, what the value tells of a variable that is no index."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is learned inside is forgotten afterwards."""
        yield

    @contextmanager
    def given(self, condition: Expr, *, holds: bool = True, momentary: bool = False) -> Iterator[None]:
        """Inside, a condition holds (or does not); `momentary` as in `Domain.assume`."""
        yield

    def loop(self, node: For) -> int:
        """The width of a loop's variable, whose range is known from now on in this scope."""
        return 64


def _is_unmeasured(buffer: Buffer) -> bool:
    """Whether a buffer may have more elements than the parameters, which the host measures."""
    storage = buffer.storage
    return storage.address is not None or buffer.dtype.storage_bytes < storage.dtype.storage_bytes


class ProvenIndexTypes(IndexTypes):
    """32 bits where the facts at hand prove that they suffice, otherwise 64.

    Args:
        domain: What holds in all of the function.
        wide: Whether elements of a tensor of symbolic shape may lie 2**31 elements apart, or further.
    """

    least = 32

    def __init__(self, domain: Domain, *, wide: bool = True) -> None:
        self._domain, self._symbolic = domain, None if wide else 32
        self._declared: dict[Var, int] = {}

    def bits(self, expr: Expr) -> int:  # noqa: D102  see `IndexTypes`
        return 32 if any(known.within(_NARROW) for known in self._knowledge(expr)) else 64

    def _estimate(self, expr: Expr) -> Interval:
        """Bounds from those of the operands alone, which mostly suffice and are found at once."""
        known = int_const(expr)
        if known is not None:
            return Interval(known, known)
        if not isinstance(expr, Binary) or not expr.is_index:
            return bounds(expr, self._domain)
        memo: Any = self._domain.memo.setdefault(__name__, {})
        found = memo.get(id(expr))
        if found is None:
            value = ranges.apply(expr.op, self._estimate(expr.a), self._estimate(expr.b))
            found = memo[id(expr)] = (expr, value)  # which keeps the expression, and so its identity, alive
        return found[1]  # type: ignore[no-any-return]

    def offset_bits(self, buffer: Buffer) -> int | None:  # noqa: D102
        # an access is made only where its indices are in range, so a known size bounds every part of the sum
        if buffer.scope.on_chip:
            return 32
        shape = buffer.static_shape
        steps = [int_const(stride) for stride in buffer.strides or ()]
        if shape is None or None in steps:
            return None if _is_unmeasured(buffer) else self._symbolic
        if buffer.strides is None:
            return 32 if math.prod(shape) <= 2**31 else 64
        reach = sum(abs(step or 0) * max(extent - 1, 0) for step, extent in zip(steps, shape, strict=True))
        return 32 if reach < 2**31 else 64

    def is_nonnegative(self, expr: Expr) -> bool:  # noqa: D102
        return any((low := known.low) is not None and low >= 0 for known in self._knowledge(expr))

    def _knowledge(self, expr: Expr) -> Iterator[Interval]:
        """Bounds, the cheaper ones first."""
        yield self._estimate(expr)
        yield bounds(expr, self._domain)

    def declare(self, var: Var) -> int:  # noqa: D102
        self._declared[var] = bits = self.bits(var)
        return bits

    def declared(self, var: Var) -> int:  # noqa: D102
        return self._declared.get(var, 64)

    def bind(self, var: Var, value: Expr) -> int:  # noqa: D102
        self._domain = self._domain.with_value(var, value)
        self._declared[var] = bits = self.bits(value)
        return bits

    def bind_data(self, var: Var, value: Expr) -> None:  # noqa: D102
        known = computed(value, self._domain) if var.dtype.is_int and var.dtype.lanes == 1 else None
        if known is not None and not of_dtype(var.dtype).within(known):
            self._domain = self._domain.with_range(var, known.low, known.high)

    def learn(self, domain: Domain) -> None:
        """Replaces the facts at hand, in this scope."""
        self._domain = domain

    @property
    def domain(self) -> Domain:
        """The facts at hand."""
        return self._domain

    @contextmanager
    def scope(self) -> Iterator[None]:  # noqa: D102
        before = self._domain
        try:
            yield
        finally:
            self._domain = before

    @contextmanager
    def given(self, condition: Expr, *, holds: bool = True, momentary: bool = False) -> Iterator[None]:  # noqa: D102
        before = self._domain
        self._domain = before.assume(condition if holds else ~condition, momentary=momentary)
        try:
            yield
        finally:
            self._domain = before

    def loop(self, node: For) -> int:  # noqa: D102
        before = self._domain
        self._domain = before.with_loop(node.var, node.start, node.stop, node.step)
        # the variable reaches the end or passes it by less than a step
        last = bounds(node.stop, before)
        high = None if last.high is None else last.high + max(node.step - 1, 0)
        low = None if last.low is None else last.low + min(node.step + 1, 0)
        reach = bounds(node.start, before).hull(Interval(low, high))
        self._declared[node.var] = bits = 32 if reach.within(_NARROW) else 64
        return bits
