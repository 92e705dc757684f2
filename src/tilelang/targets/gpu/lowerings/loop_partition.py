"""Partitions a loop nest over the threads of a block: the iterations of the executing thread, as loops.

Takes a layout of iterations and the thread index, gives coordinates and emits the loops around a body. Invariant: every
iteration is executed, by all threads of exactly one set of copies; none outside the extents is; predicates are hoisted
out of every loop whose variable they do not use.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import Expr, Var, conjunction, const
from tilelang.ir.stmt import For, ForKind, If, Stmt, While
from tilelang.ir.visit import walk
from tilelang.layout.digits import Mode, split
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.gpu.lowerings.unrolling import register_index_variables, unrolled_for

ZERO = const(0, INT32)
_LETTERS = "uvwxyz"
MAX_VECTOR_ELEMENTS = 16  # one-byte elements of one vector access


@record(slots=True)
class ValueDigit:
    """A digit of the value index, which becomes a loop: its variable, and the coordinate strides of its steps."""

    var: Var
    mode: Mode


@record(slots=True)
class ThreadDigit:
    """A digit of the thread index.

    Attributes:
        thread_stride: Threads between two consecutive values of the digit.
        size: Number of values.
        stride: Coordinate offsets per step, one for each dimension.
    """

    thread_stride: int
    size: int
    stride: tuple[int, ...]

    def of(self, thread: Expr, threads: int) -> Expr:
        """Its value in the executing thread."""
        above = thread if self.thread_stride == 1 else thread // self.thread_stride
        return above if self.thread_stride * self.size >= threads else above % self.size


class LoopPartition:
    """A loop nest partitioned over threads.

    Attributes:
        layout: The layout of iterations: which thread executes which.
        extents: Iterations per dimension.
        digits: The loops of the executing thread, least significant first.
        vector: The digit with unit stride along a dimension, a candidate for vector accesses; None if there is none.
    """

    def __init__(self, layout: Fragment, thread: Expr) -> None:
        self.layout, self.extents, self._thread = _split_into_vectors(layout), layout.shape, thread
        self._covering = self.layout  # the layout that coordinates are computed from
        self.digits = tuple(
            ValueDigit(Var(_LETTERS[n % len(_LETTERS)], INT32, index=True), mode)
            for n, mode in enumerate(mode for mode in self.layout.value if not mode.is_broadcast)
        )
        self.vector = self._find_vector()

    def _find_vector(self) -> ValueDigit | None:
        rank = len(self.extents)
        for axis in reversed(range(rank)):
            along = tuple(1 if k == axis else 0 for k in range(rank))
            for digit in self.digits:
                if digit.mode.stride == along:
                    return digit
        return None

    def repeating(self) -> LoopPartition:
        """The same loops, in which threads that would run outside the extents repeat iterations of other threads.

        Predicates remain only where an extent is no multiple of what its digits span. For idempotent bodies.
        """
        other = copy.copy(self)
        thread = [part for mode in self.layout.thread for part in _within(mode, self.extents)]
        other._covering = Fragment(self.layout.shape, tuple(thread), self.layout.value)
        return other

    # -- coordinates ------------------------------------------------------------------------------------------
    def coordinates(self) -> tuple[Expr, ...]:
        """The coordinates of the current iteration, in the thread index and the digits' variables."""
        return tuple(self._coordinate(axis) for axis in range(len(self.extents)))

    def _coordinate(self, axis: int, without: ValueDigit | None = None) -> Expr:
        total: Expr = ZERO
        parts = zip(split(self._thread, self._covering.thread), self._covering.thread, strict=True)
        for part, mode in [*parts, *((d.var, d.mode) for d in reversed(self.digits) if d is not without)]:
            step = mode.stride[axis]
            if step and mode.size > 1:
                term = part if step == 1 else part * step
                total = term if total is ZERO else total + term
        return total

    def thread_digits(self) -> list[ThreadDigit]:
        """The digits of the thread index, split into prime sizes."""
        found, stride = [], 1
        for mode in self.layout.thread:
            inside = 1
            for prime in primes(mode.size):
                found.append(ThreadDigit(stride * inside, prime, tuple(s * inside for s in mode.stride)))
                inside *= prime
            stride *= mode.size
        return found

    def is_first_copy(self) -> Expr | None:
        """Whether the thread is the first of those that execute the same iterations; None if there is only one."""
        return self.are_zero([d for d in self.thread_digits() if not any(d.stride)])

    def are_zero(self, digits: Sequence[ThreadDigit]) -> Expr | None:
        """Whether some digits of the executing thread's index are 0; None if there are none."""
        tests = [d.of(self._thread, self.layout.threads) == 0 for d in merge_digits(digits)]
        return conjunction(tests) if tests else None

    # -- loops ------------------------------------------------------------------------------------------------
    def emit_loops(self, body: Stmt, *, loc: Loc = NOWHERE, only: Sequence[int] | None = None) -> Stmt:
        """The body in the loops of the executing thread, predicated to stay within the extents.

        Args:
            body: The body of one iteration.
            loc: Source location of the loops.
            only: The dimensions to iterate over; digits that only affect others are left out.
        """
        axes = range(len(self.extents)) if only is None else only
        digits = [d for d in self.digits if any(d.mode.stride[axis] for axis in axes)]
        vector = self.vector if only is None else None
        # the most significant digit outermost, the vector innermost
        order = [d for d in reversed(digits) if d is not vector] + ([] if vector is None else [vector])
        tests = self._tests(axes, order, vector)
        chosen = register_index_variables(body)
        in_lanes = any(isinstance(stmt, For | While) for stmt in walk(body))  # then a vector is copies, too
        trips = math.prod(d.mode.size for d in order if (in_lanes if d is vector else d.var in chosen))
        for level in reversed(range(len(order))):
            body = _predicated(tests[level + 1], body, loc)
            var, size = order[level].var, order[level].mode.size
            if order[level] is vector:
                body = For(var, ZERO, const(size, INT32), 1, ForKind.VECTORIZED, body, loc=loc)
            else:
                body = unrolled_for(var, size, body, chosen, others=trips, loc=loc)
                trips *= 1 if var in chosen else size
        return _predicated(tests[0], body, loc)

    def _tests(
        self, axes: Sequence[int], order: Sequence[ValueDigit], vector: ValueDigit | None
    ) -> list[list[Expr]]:
        """Per loop level, the predicates of dimensions that the digits exceed; level n is inside of n loops."""
        tests: list[list[Expr]] = [[] for _ in range(len(order) + 1)]
        for axis in axes:
            extent = self.extents[axis]
            if self._covering.cover[axis] <= extent:
                continue
            whole = vector if vector is not None and self._is_whole(axis, vector) else None
            level = max((n + 1 for n, d in enumerate(order) if d.mode.stride[axis] and d is not whole), default=0)
            tests[level].append(self._coordinate(axis, whole) < extent)
        return tests

    def _is_whole(self, axis: int, vector: ValueDigit) -> bool:
        """Whether each vector lies either entirely inside or entirely outside an extent."""
        size = vector.mode.size
        if not vector.mode.stride[axis] or self.extents[axis] % size:
            return False
        others = [*self._covering.thread, *(d.mode for d in self.digits if d is not vector)]
        return all(mode.size == 1 or mode.stride[axis] % size == 0 for mode in others)


def _split_into_vectors(layout: Fragment) -> Fragment:
    """The layout with unit-stride digits split to the size of a vector access; the value order is unchanged."""
    value: list[Mode] = []
    for mode in layout.value:
        is_long = sum(mode.stride) == 1 and mode.size > MAX_VECTOR_ELEMENTS
        run = math.gcd(mode.size, MAX_VECTOR_ELEMENTS) if is_long else 1
        if run > 1:
            value.append(Mode(run, mode.stride))
            value.append(Mode(mode.size // run, tuple(run * step for step in mode.stride)))
        else:
            value.append(mode)
    return Fragment(layout.shape, layout.thread, tuple(value))


def _within(mode: Mode, extents: Sequence[int]) -> list[Mode]:
    """A digit split so that the part beyond the extents is idle (stride 0)."""
    for inside in range(1, mode.size):
        beyond = any(inside * stride >= extent for stride, extent in zip(mode.stride, extents, strict=True))
        if beyond and mode.size % inside == 0:
            return [Mode(inside, mode.stride), Mode(mode.size // inside, (0,) * len(extents))]
    return [mode]


def _predicated(tests: list[Expr], body: Stmt, loc: Loc) -> Stmt:
    return If(conjunction(tests), body, loc=loc) if tests else body


def merge_digits(digits: Sequence[ThreadDigit]) -> list[ThreadDigit]:
    """Merges adjacent digits of the thread index."""
    merged: list[ThreadDigit] = []
    for digit in digits:
        last = merged[-1] if merged else None
        if last is not None and last.thread_stride * last.size == digit.thread_stride:
            merged[-1] = ThreadDigit(last.thread_stride, last.size * digit.size, last.stride)
        else:
            merged.append(digit)
    return merged


def primes(number: int) -> list[int]:
    """The prime factors of a number, smallest first."""
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
