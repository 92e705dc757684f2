"""Integer types of index arithmetic: the width in which each expression is exact.

Takes the facts at the current point of the printer, gives widths in bits. Invariant: the value of an expression, and of
every subexpression that was queried, fits its width.
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
from tilelang.ir.visit import loads_of

_NARROW = of_dtype(INT32)


class IndexTypes:
    """All index arithmetic in 64 bits, for machines on which that is free.

    Attributes:
        least: The narrowest width in use.
    """

    least = 64

    def bits(self, expr: Expr) -> int:
        """The width of an integer expression."""
        return 64

    def offset_bits(self, buffer: Buffer) -> int | None:
        """The width of all offsets in a buffer; None if it depends on the indices."""
        return 64

    def is_nonnegative(self, expr: Expr) -> bool:
        """Whether a value is proven non-negative."""
        return False

    def declare(self, var: Var) -> int:
        """The width of a variable at its declaration, from the facts about it."""
        return 64

    def declared(self, var: Var) -> int:
        """The width with which a variable was declared."""
        return 64

    def bind(self, var: Var, value: Expr) -> int:
        """The width of a variable bound to a value; adds the binding to the facts of this scope."""
        return 64

    def bind_data(self, var: Var, value: Expr) -> None:
        """Adds the range of a bound data variable to the facts of this scope."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context manager: facts added inside are removed at its end."""
        yield

    @contextmanager
    def given(self, condition: Expr, *, holds: bool = True, momentary: bool = False) -> Iterator[None]:
        """Context manager: adds a condition (or its negation) to the facts; `momentary` as in `Domain.assume`."""
        yield

    def assume(self, condition: Expr) -> None:
        """Adds a condition to the facts of this scope."""

    def loop(self, node: For) -> int:
        """The width of a loop's variable; adds its range to the facts of this scope."""
        return 64


def _is_unmeasured(buffer: Buffer) -> bool:
    """Whether a buffer may be larger than the parameters, whose sizes the host checks."""
    storage = buffer.storage
    return storage.address is not None or buffer.dtype.storage_bytes < storage.dtype.storage_bytes


class ProvenIndexTypes(IndexTypes):
    """32 bits where the facts at hand prove that they suffice, otherwise 64.

    Args:
        domain: Facts that hold in the whole function.
        wide: Whether tensors of symbolic shape may have offsets of 2**31 elements and more.
    """

    least = 32

    def __init__(self, domain: Domain, *, wide: bool = True) -> None:
        self._domain, self._symbolic = domain, None if wide else 32
        self._declared: dict[Var, int] = {}

    def bits(self, expr: Expr) -> int:  # noqa: D102  see `IndexTypes`
        return 32 if any(interval.within(_NARROW) for interval in self._knowledge(expr)) else 64

    def _estimate(self, expr: Expr) -> Interval:
        """Bounds by interval arithmetic on the operands, a fast path that usually suffices."""
        constant = int_const(expr)
        if constant is not None:
            return Interval(constant, constant)
        if not isinstance(expr, Binary) or not expr.is_index:
            return bounds(expr, self._domain)
        memo: Any = self._domain.memo.setdefault(__name__, {})
        found = memo.get(id(expr))
        if found is None:
            value = ranges.apply(expr.op, self._estimate(expr.a), self._estimate(expr.b))
            found = memo[id(expr)] = (expr, value)  # holds the expression, so that its id is not reused
        return found[1]  # type: ignore[no-any-return]

    def offset_bits(self, buffer: Buffer) -> int | None:  # noqa: D102
        # accesses are in bounds, so a known size bounds every term of the sum
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
        return any((low := interval.low) is not None and low >= 0 for interval in self._knowledge(expr))

    def _knowledge(self, expr: Expr) -> Iterator[Interval]:
        """Bounds, the cheapest first."""
        yield self._estimate(expr)
        yield bounds(expr, self._domain)

    def declare(self, var: Var) -> int:  # noqa: D102
        self._declared[var] = bits = self.bits(var)
        return bits

    def declared(self, var: Var) -> int:  # noqa: D102
        return self._declared.get(var, 64)

    def bind(self, var: Var, value: Expr) -> int:  # noqa: D102
        self._domain = self._domain.with_value(var, value)
        if loads_of(value):  # the range stays when what was loaded changes
            interval = bounds(value, self._domain)
            self._domain = self._domain.with_range(var, interval.low, interval.high)
        self._declared[var] = bits = self.bits(value)
        return bits

    def bind_data(self, var: Var, value: Expr) -> None:  # noqa: D102
        interval = computed(value, self._domain) if var.dtype.is_int and var.dtype.lanes == 1 else None
        if interval is not None and not of_dtype(var.dtype).within(interval):
            self._domain = self._domain.with_range(var, interval.low, interval.high)

    def learn(self, domain: Domain) -> None:
        """Replaces the current facts, in this scope."""
        self._domain = domain

    @property
    def domain(self) -> Domain:
        """The current facts."""
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

    def assume(self, condition: Expr) -> None:  # noqa: D102
        self._domain = self._domain.assume(condition)

    def loop(self, node: For) -> int:  # noqa: D102
        before = self._domain
        self._domain = before.with_loop(node.var, node.start, node.stop, node.step)
        # the final value of the variable exceeds the end by less than a step
        last = bounds(node.stop, before)
        high = None if last.high is None else last.high + max(node.step - 1, 0)
        low = None if last.low is None else last.low + min(node.step + 1, 0)
        reach = bounds(node.start, before).hull(Interval(low, high))
        self._declared[node.var] = bits = 32 if reach.within(_NARROW) else 64
        return bits
