"""Values of index expressions for all threads of a block at once, as far as they are known without data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.scalar import Value


class _Unknown(Exception):
    """A value depends on data."""


class Values:
    """The values of variables, numbers or arrays with one element per thread of the block."""

    def __init__(self, known: dict[Var, Value]) -> None:
        self._known = dict(known)
        self._begun: dict[Buffer, Value | None] = {}  # of scalars that are allocated with a value

    def begin(self, scalar: Buffer, value: Expr) -> None:
        """Gives a scalar the value with which it is allocated, as which it counts from then on."""
        self._begun[scalar] = self.of(value)

    def bind(self, var: Var, value: Value | None) -> None:
        """Gives a variable a value; None if it depends on data."""
        if value is None:
            self._known.pop(var, None)
        else:
            self._known[var] = value

    def of(self, expr: Expr) -> Value | None:
        """The value of an expression; None if it depends on data."""
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Var):
            return self._known.get(expr)
        try:
            with np.errstate(all="ignore"):
                return evaluate(expr, self._known, exact=expr.dtype.is_int, load=self._loaded)
        except (_Unknown, CompilerBug, IndexError, ValueError):
            return None

    def number(self, expr: Expr) -> int | None:
        """The value of an integer that is the same in all threads; None if it is not known."""
        value = self.of(expr)
        if value is None or isinstance(value, np.ndarray) and value.size != 1:
            return None
        return int(value)

    def offset(self, buffer: Buffer, indices: Sequence[Expr]) -> Value | None:
        """The place of an element in its buffer, in elements; None if it depends on data."""
        strides = buffer.strides
        if strides is None:
            weight, weights = 1, []
            for extent in reversed(buffer.shape):
                weights.append(weight)
                size = self.number(extent)
                if size is None:
                    return None
                weight *= size
            weights.reverse()
        else:
            found = [self.number(stride) for stride in strides]
            if None in found:
                return None
            weights = [stride for stride in found if stride is not None]
        total: Value = 0
        for index, weight in zip(indices, weights, strict=True):
            place = self.of(index)
            if place is None:
                return None
            total = total + np.asarray(place, np.int64) * weight
        return total

    def _loaded(self, load: Load, indices: tuple[Value, ...]) -> Value:
        """Counters of a pipeline stand at their beginning; other data is unknown."""
        if load.buffer.scope is Scope.VAR and load.dtype.is_int:
            value = self._begun.get(load.buffer, 0)
            if value is not None:
                return value
        raise _Unknown


def first_of(value: Value | None) -> int:
    """An integer of the first thread; -1 if it is not known."""
    return -1 if value is None else int(np.asarray(value).flat[0])
