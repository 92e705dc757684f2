"""A loop nest spread over the threads of a block: which iterations the executing thread runs, as loops of its own.

Takes a layout of iterations and the thread's index, gives coordinates and emits the loops around a body. Invariant:
over all threads every iteration is run by exactly one set of copies, none beyond the extents is run, and a test stands
outside of every loop whose variable it does not name.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.expr import Expr, Var, conjunction, const
from tilelang.ir.stmt import For, ForKind, If, Stmt
from tilelang.layout.digits import Mode, split
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.gpu.lowerings.unrolling import choosing, counted

ZERO = const(0, INT32)
_LETTERS = "uvwxyz"
MOST_NEIGHBORS = 16  # of one byte that a vector access can take


@record(slots=True)
class ValueDigit:
    """A digit of the value index, which becomes a loop: its variable and how its steps move the coordinates."""

    var: Var
    mode: Mode


@record(slots=True)
class ThreadDigit:
    """A digit of the thread index.

    Attributes:
        place: How many threads lie between two of its steps.
        size: How many values it has.
        stride: How its steps move the coordinates.
    """

    place: int
    size: int
    stride: tuple[int, ...]

    def of(self, thread: Expr, threads: int) -> Expr:
        """Its value in the executing thread."""
        above = thread if self.place == 1 else thread // self.place
        return above if self.place * self.size >= threads else above % self.size


class Spread:
    """One nest, spread.

    Attributes:
        layout: Which thread runs which iterations.
        extents: How many iterations each dimension has.
        digits: The loops of the executing thread, least significant first.
        vector: The digit whose steps are neighbors along a dimension, to be tried as vector accesses; None if there is
            none.
    """

    def __init__(self, layout: Fragment, thread: Expr) -> None:
        self.layout, self.extents, self._thread = _with_short_runs(layout), layout.shape, thread
        self._moving = self.layout  # where the digits lead
        self.digits = tuple(
            ValueDigit(Var(_LETTERS[n % len(_LETTERS)], INT32, index=True), mode)
            for n, mode in enumerate(mode for mode in self.layout.value if not mode.is_idle)
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

    def repeating(self) -> Spread:
        """The same loops, in which threads whose digits lead beyond the extents repeat what others do.

        So there is nothing to test but where an extent is no multiple of what its digits reach. For bodies that may
        run more often than their iterations.
        """
        other = copy.copy(self)
        thread = [part for mode in self.layout.thread for part in _within(mode, self.extents)]
        other._moving = Fragment(self.layout.shape, tuple(thread), self.layout.value)
        return other

    # -- coordinates ------------------------------------------------------------------------------------------
    def coordinates(self) -> tuple[Expr, ...]:
        """The coordinate of the iteration at hand, in the thread's index and the digits' variables."""
        return tuple(self._coordinate(axis) for axis in range(len(self.extents)))

    def _coordinate(self, axis: int, without: ValueDigit | None = None) -> Expr:
        total: Expr = ZERO
        parts = zip(split(self._thread, self._moving.thread), self._moving.thread, strict=True)
        for part, mode in [*parts, *((d.var, d.mode) for d in reversed(self.digits) if d is not without)]:
            step = mode.stride[axis]
            if step and mode.size > 1:
                moved = part if step == 1 else part * step
                total = moved if total is ZERO else total + moved
        return total

    def thread_digits(self) -> list[ThreadDigit]:
        """The digits of the thread index in steps of primes, so that each either moves a coordinate or does not."""
        found, place = [], 1
        for mode in self.layout.thread:
            inside = 1
            for prime in primes(mode.size):
                found.append(ThreadDigit(place * inside, prime, tuple(s * inside for s in mode.stride)))
                inside *= prime
            place *= mode.size
        return found

    def is_first_copy(self) -> Expr | None:
        """Whether the thread is the first of those that run the same iterations; None if it is the only one."""
        return self.are_zero([d for d in self.thread_digits() if not any(d.stride)])

    def are_zero(self, digits: Sequence[ThreadDigit]) -> Expr | None:
        """Whether some digits of the executing thread's index are 0; None if there are none."""
        tests = [d.of(self._thread, self.layout.threads) == 0 for d in joined(digits)]
        return conjunction(tests) if tests else None

    # -- loops ------------------------------------------------------------------------------------------------
    def around(self, body: Stmt, *, loc: Loc = NOWHERE, only: Sequence[int] | None = None) -> Stmt:
        """The body in the loops of the executing thread, under the tests that keep it within the extents.

        Args:
            body: What one iteration does.
            loc: The place of the loops.
            only: The dimensions to run through; digits that move others are left out.
        """
        axes = range(len(self.extents)) if only is None else only
        digits = [d for d in self.digits if any(d.mode.stride[axis] for axis in axes)]
        vector = self.vector if only is None else None
        # the most significant digit outermost, the vector innermost
        order = [d for d in reversed(digits) if d is not vector] + ([] if vector is None else [vector])
        tests = self._tests(axes, order, vector)
        chosen = choosing(body)
        trips = math.prod(d.mode.size for d in order if d is not vector and d.var in chosen)
        for level in reversed(range(len(order))):
            body = _under(tests[level + 1], body, loc)
            var, size = order[level].var, order[level].mode.size
            if order[level] is vector:
                body = For(var, ZERO, const(size, INT32), 1, ForKind.VECTORIZED, body, loc=loc)
            else:
                body = counted(var, size, body, chosen, others=trips, loc=loc)
                trips *= 1 if var in chosen else size
        return _under(tests[0], body, loc)

    def _tests(
        self, axes: Sequence[int], order: Sequence[ValueDigit], vector: ValueDigit | None
    ) -> list[list[Expr]]:
        """Per loop level, the tests of dimensions that the digits run beyond; level n is inside of n loops."""
        tests: list[list[Expr]] = [[] for _ in range(len(order) + 1)]
        for axis in axes:
            extent = self.extents[axis]
            if self._moving.cover[axis] <= extent:
                continue
            whole = vector if vector is not None and self._is_whole(axis, vector) else None
            level = max((n + 1 for n, d in enumerate(order) if d.mode.stride[axis] and d is not whole), default=0)
            tests[level].append(self._coordinate(axis, whole) < extent)
        return tests

    def _is_whole(self, axis: int, vector: ValueDigit) -> bool:
        """Whether a vector lies within an extent as a whole or not at all."""
        size = vector.mode.size
        if not vector.mode.stride[axis] or self.extents[axis] % size:
            return False
        others = [*self._moving.thread, *(d.mode for d in self.digits if d is not vector)]
        return all(mode.size == 1 or mode.stride[axis] % size == 0 for mode in others)


def _with_short_runs(layout: Fragment) -> Fragment:
    """The layout with runs of neighbors cut into what one vector access can take; values keep their numbers."""
    value: list[Mode] = []
    for mode in layout.value:
        run = math.gcd(mode.size, MOST_NEIGHBORS) if sum(mode.stride) == 1 and mode.size > MOST_NEIGHBORS else 1
        if run > 1:
            value.append(Mode(run, mode.stride))
            value.append(Mode(mode.size // run, tuple(run * step for step in mode.stride)))
        else:
            value.append(mode)
    return Fragment(layout.shape, layout.thread, tuple(value))


def _within(mode: Mode, extents: Sequence[int]) -> list[Mode]:
    """A digit, the part of it idle that only leads beyond the extents."""
    for inside in range(1, mode.size):
        beyond = any(inside * stride >= extent for stride, extent in zip(mode.stride, extents, strict=True))
        if beyond and mode.size % inside == 0:
            return [Mode(inside, mode.stride), Mode(mode.size // inside, (0,) * len(extents))]
    return [mode]


def _under(tests: list[Expr], body: Stmt, loc: Loc) -> Stmt:
    return If(conjunction(tests), body, loc=loc) if tests else body


def joined(digits: Sequence[ThreadDigit]) -> list[ThreadDigit]:
    """Neighboring digits of the thread index as one."""
    joined: list[ThreadDigit] = []
    for digit in digits:
        last = joined[-1] if joined else None
        if last is not None and last.place * last.size == digit.place:
            joined[-1] = ThreadDigit(last.place, last.size * digit.size, last.stride)
        else:
            joined.append(digit)
    return joined


def primes(number: int) -> list[int]:
    """The prime factors of a number, smallest first."""
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
