"""Which register holds an element of a fragment: the index of the element in the executing thread's register array.

Takes subscripts of a fragment, gives an index into the register array. Invariant: the executing thread holds the
element, which is checked for all threads and iterations at once; inside a distributed loop the index does not depend
on the thread, so it becomes a constant once the loops are unrolled.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.visit import substitute, variables_of
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition, primes

Ranges = Mapping[Var, range]


def is_replicated(layout: Fragment) -> bool:
    """Whether every thread holds all elements, so that any thread may access any of them."""
    return all(mode.is_broadcast for mode in layout.thread)


def replicated_register_index(layout: Fragment, indices: Sequence[Expr]) -> Expr:
    """The register index of an element of a replicated fragment."""
    register = layout.owner(*indices)[1]
    return register if isinstance(register, Expr) else const(int(register), INT32)


class RegisterIndices:
    """Register indices of the fragment elements that the iterations of one distributed loop access.

    Args:
        partition: The loop nest of the executing thread.
        variables: The loop's variables.

    Attributes:
        coordinates: The values of these variables, in terms of the executing thread and its loops.
    """

    def __init__(self, partition: LoopPartition, variables: Sequence[Var]) -> None:
        self._partition = partition
        self._vars = tuple(variables)
        self.coordinates = dict(zip(self._vars, partition.coordinates(), strict=True))

    def of(self, buffer: Buffer, layout: Fragment, indices: Sequence[Expr], inner: Ranges, *, writes: bool) -> Expr:
        """The register index of an element.

        Args:
            buffer: The fragment, for messages.
            layout: The layout of the fragment.
            indices: Subscripts, in the loop's variables and those of unrolled loops inside or around it.
            inner: The values of the variables of those loops.
            writes: Whether the element is written, which every thread that holds a copy of it must do.
        """
        used = frozenset().union(*map(variables_of, indices))
        if is_replicated(layout) and (not writes or used.isdisjoint(self._vars)):
            return self._in_thread(replicated_register_index(layout, indices))
        if not all(var in self.coordinates or var in inner for var in used):
            raise CompilerBug(f"'{buffer.name}': an element of a distributed tile is named by more than loop variables")
        ranges = {var: taken for var, taken in inner.items() if var in used}
        names = {var: _coordinate(n) for n, var in enumerate((*self._vars, *ranges))}
        keys = tuple(KeyedExpr(substitute(index, names)) for index in indices)
        found = _registers(self._partition.layout, layout, keys, tuple(ranges.values()), writes)
        if found.mistake:
            raise CompilerBug(f"'{buffer.name}': {found.mistake}")
        linear = None if found.steps is None else self._linear(found.base, found.steps, ranges)
        # an index that depends on the thread is correct, but forces the array into local memory
        return self._in_thread(replicated_register_index(layout, indices)) if linear is None else linear

    def _in_thread(self, expr: Expr) -> Expr:
        return substitute(expr, self.coordinates)

    # -- as an expression ---------------------------------------------------------------------------------------
    def _linear(self, base: int, steps: Sequence[Sequence[tuple[int, int]]], ranges: Ranges) -> Expr:
        """The register as a linear function of the digits."""
        loops = iter(self._partition.digits)
        inputs = [const(0, INT32) if m.is_broadcast else next(loops).var for m in self._partition.layout.value]
        expr: Expr = const(base, INT32)
        for operand, digits in zip((*reversed(inputs), *map(_number, ranges, ranges.values())), steps, strict=True):
            expr = _plus(expr, _weighted(operand, digits))
        return expr


# -- enumerating all threads --------------------------------------------------------------------------------------
@record(slots=True, eq=False)
class _Registers:
    """The registers that the iterations of a distributed loop access, as a linear function of digits.

    Attributes:
        base: The register where all digits are 0.
        steps: For the value digits of the loop, last first, and for each loop inside or around it: the sizes of its
            prime digits, least significant first, each with its step; None if the register differs between threads, or
            is not linear.
        mistake: What is wrong with the layouts of loop and fragment; empty if nothing is.
    """

    base: int
    steps: list[list[tuple[int, int]]] | None
    mistake: str = ""


@functools.cache
def _coordinate(number: int) -> Var:
    """The canonical variable of a loop level, so that equal subscripts of different loops compare equal."""
    return Var(f"x{number}", INT32, index=True)


@functools.lru_cache(maxsize=256)
def _registers(
    iteration: Fragment, layout: Fragment, indices: tuple[KeyedExpr, ...], ranges: tuple[range, ...], writes: bool
) -> _Registers:
    """The registers of the elements with these subscripts.

    Args:
        iteration: The layout of the loop.
        layout: The layout of the fragment.
        indices: Subscripts, in `_coordinate`s: those of the loop, then those of the unrolled loops inside or around it.
        ranges: The values that the variables of the unrolled loops have.
        writes: Whether the elements are written.
    """
    register, thread, at, valid = _table(iteration, layout, [key.expr for key in indices], ranges)
    mistake = _mistake(layout, at, thread, register, valid, writes=writes)
    highest = np.where(valid, register, -1).max(axis=0)
    lowest = np.where(valid, register, np.iinfo(np.int64).max).min(axis=0)
    known = np.asarray(valid.any(axis=0))
    if not (highest == lowest)[known].all():
        return _Registers(0, None, mistake)
    lengths = (*(mode.size for mode in reversed(iteration.value)), *map(len, ranges))
    sizes = [primes(length) or [1] for length in lengths]
    flat = [p for digits in sizes for p in reversed(digits)]  # most significant first, as NumPy counts
    base, found = _fit(highest.reshape(flat), known.reshape(flat))
    if found is None:
        return _Registers(base, None, mistake)
    left = iter(found)
    steps = [[*itertools.islice(left, len(digits))] for digits in sizes]
    return _Registers(base, [[*zip(n, reversed(s), strict=True)] for n, s in zip(sizes, steps, strict=True)], mistake)


def _table(
    iteration: Fragment, layout: Fragment, indices: Sequence[Expr], ranges: Sequence[range]
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], np.ndarray]:
    """For every thread, value and inner iteration: register, thread, element, and whether one is accessed at all.

    Shapes: (threads, values, *lengths of `ranges`).
    """
    table = iteration.table
    inside = (table < np.array(iteration.shape, np.int64)).all(axis=-1)
    rank, depth = len(iteration.shape), len(ranges)
    env: dict[Var, object] = {
        _coordinate(axis): table[..., axis].reshape(*inside.shape, *[1] * depth) for axis in range(rank)
    }
    for n, taken in enumerate(ranges):
        values = np.array(taken, np.int64)
        env[_coordinate(rank + n)] = values.reshape(*[1] * (2 + n), len(taken), *[1] * (depth - 1 - n))
    full = (*inside.shape, *map(len, ranges))
    at = [np.broadcast_to(np.asarray(evaluate(index, env, exact=True), np.int64), full) for index in indices]
    valid = np.broadcast_to(inside.reshape(*inside.shape, *[1] * depth), full).copy()
    for coordinate, extent in zip(at, layout.shape, strict=True):
        valid &= (coordinate >= 0) & (coordinate < extent)
    register = np.where(valid, np.broadcast_to(np.asarray(layout.owner(*at)[1], np.int64), full), 0)
    thread = np.arange(full[0]).reshape(-1, *[1] * (len(full) - 1))
    return register, np.broadcast_to(thread, full), at, valid


def _mistake(
    layout: Fragment,
    at: Sequence[np.ndarray],
    thread: np.ndarray,
    register: np.ndarray,
    valid: np.ndarray,
    *,
    writes: bool,
) -> str:
    """Describe the fault: a thread does not hold what it accesses, or one with a copy does not write it."""
    held = layout.table[thread, register]
    wanted = np.stack(at, axis=-1)
    if not (held == wanted).all(axis=-1)[valid].all():
        return "a thread names an element that another one holds"
    if writes and layout.replication > 1:
        element = np.ravel_multi_index([np.where(valid, a, 0) for a in at], layout.cover)
        elements = _count_distinct(element[valid], math.prod(layout.cover))
        threads, values, _ = layout.table.shape
        named = _count_distinct((thread * values + register)[valid], threads * values)
        if named != elements * layout.replication:
            return "not every thread that holds a copy of an element writes it"
    return ""


# -- linear functions of digits -----------------------------------------------------------------------------------
def _number(var: Var, taken: range) -> Expr:
    """Which of its values a variable has, counted from 0."""
    if taken.step < 0:
        return (taken.start - var) // -taken.step
    return (var - taken.start) // taken.step


def _fit(values: np.ndarray, valid: np.ndarray) -> tuple[int, list[int] | None]:
    """The constant and the step per axis of a sum that gives all known values."""
    if not valid.any():
        return 0, [0] * values.ndim
    origin = tuple([0] * values.ndim)
    if not valid[origin]:
        return 0, None
    base = int(values[origin])
    steps = []
    for axis, size in enumerate(values.shape):
        at = tuple(1 if k == axis and size > 1 else 0 for k in range(values.ndim))
        steps.append(int(values[at]) - base if size > 1 and valid[at] else 0)
    total = np.full(values.shape, base, np.int64)
    for axis, step in enumerate(steps):
        total += (np.arange(values.shape[axis]) * step).reshape(*[-1 if k == axis else 1 for k in range(values.ndim)])
    return base, steps if (total == values)[valid].all() else None


def _weighted(operand: Expr, digits: Sequence[tuple[int, int]]) -> Expr:
    """The sum over the digits of an operand, least significant first, each given by its size and its step."""
    if all(step == digits[0][1] * register for (_, step), register in zip(digits, _weights(digits), strict=True)):
        return _times(operand, digits[0][1])
    total: Expr = const(0, INT32)
    for n, ((size, step), register) in enumerate(zip(digits, _weights(digits), strict=True)):
        digit = operand // register if register > 1 else operand
        if n < len(digits) - 1:
            digit = digit % size
        if step:
            total = _plus(total, _times(digit, step))
    return total


def _weights(digits: Sequence[tuple[int, int]]) -> list[int]:
    weights, register = [], 1
    for size, _ in digits:
        weights.append(register)
        register *= size
    return weights


def _plus(a: Expr, b: Expr) -> Expr:
    return b if int_const(a) == 0 else a if int_const(b) == 0 else a + b


def _times(operand: Expr, step: int) -> Expr:
    return operand if step == 1 else operand * step if step else const(0, INT32)


def _count_distinct(numbers: np.ndarray, limit: int) -> int:
    """Count the different numbers, all from 0 to below the limit."""
    seen = np.zeros(limit, np.bool_)
    seen[numbers] = True
    return int(np.count_nonzero(seen))
