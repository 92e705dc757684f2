"""Reductions across threads as older programs write them: `T.comm_reducer` and `T.tvm_thread_allreduce` (level 3).

Takes the value of each thread, emits plain statements: lanes of a warp reduce by shuffles, other threads by shared
memory, both in pairs. Invariant: every thread that shares all other indices with another gets the same result, and
nothing here needs support by a target but threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Call, Expr, ExprLike, Load, Var, as_bool, as_expr, cast, const, int_const, select
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Store
from tilelang.ir.visit import variables_of, walk_expr
from tilelang.language.api import api
from tilelang.language.calls import inside_kernel
from tilelang.language.lanes import LANES, shuffled
from tilelang.language.regions import scalar_operand
from tilelang.language.stage import Stager
from tilelang.language.threads import get_thread_binding, linear_thread
from tilelang.records import record

__all__ = [
    "comm_reducer",
    "tvm_thread_allreduce",
]

_Combine = Callable[[Expr, Expr], ExprLike]
_DIMS = "xyz"


@record(eq=False)
class Reducer:
    """A function that combines two values, with its identity.

    Attributes:
        combine: Gives the one; in any order and grouping.
        identity: What changes nothing.
    """

    combine: _Combine
    identity: ExprLike


@api
def comm_reducer(combine: _Combine, identity: Sequence[ExprLike]) -> Reducer:
    """Make the reducer of `T.tvm_thread_allreduce`, for `with T.attr(reducer, "reduce_scope", ...)`.

    Args:
        combine: A function of two values, which may come in any order.
        identity: A list of one value, which changes nothing.

    Raises:
        ProgramError: It is no function, or reduces several values at once.

    Example:
        `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`
    """
    what = "T.comm_reducer"
    if not callable(combine):
        raise ProgramError(f"{what}: {combine!r:.40} is no function", hint="write lambda x, y: x + y")
    if not isinstance(identity, list | tuple) or len(identity) != 1:
        raise ProgramError(
            f"{what}: the identity is {identity!r:.60}, but a list of one value is needed",
            hint="write [T.float32(0)]; several values are reduced one after another",
        )
    return Reducer(combine, identity[0])


@api
def tvm_thread_allreduce(
    size: ExprLike, value: ExprLike, condition: ExprLike, result: Expr, *threads: ExprLike, dtype: object = "handle"
) -> None:
    """Reduces the values of all threads that differ only in the given indices; each of them gets the result.

    It stands inside of `with T.attr(T.comm_reducer(...), "reduce_scope", ...)`, which says how, where all threads come.
    `T.reduce_sum` and its kin, and `T.warp_reduce_sum`, are the shorter ways of this language.

    Args:
        size: 1, the number of values.
        value: What the executing thread has.
        condition: Whether it counts.
        result: An element that is the thread's own, such as `total[0]` of `T.alloc_local`.
        threads: Indices of `T.get_thread_binding`.
        dtype: Accepted for older programs.

    Raises:
        ProgramError: There is no combine function, or an argument is invalid.

    Example:
        `T.evaluate(T.tvm_thread_allreduce(T.uint32(1), mine[0], True, total[0], tk, dtype="handle"))`
    """
    del dtype
    what = "T.tvm_thread_allreduce"
    stager, hints = inside_kernel(what)
    if not isinstance(hints.reducer, Reducer):
        raise ProgramError(
            f"{what}: there is no combine function",
            hint='write it inside `with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):`',
        )
    if int_const(as_expr(size)) != 1:
        raise ProgramError(f"{what}: reduces {size!r:.40} values at once", hint="reduce one after another, with size 1")
    if not isinstance(result, Load):
        raise ProgramError(
            f"{what}: the result goes to {result!r:.40}, which is no element", hint="write total[0] of T.alloc_local"
        )
    mine, counts = scalar_operand(value, what, "value"), scalar_operand(condition, what, "condition")
    _Fold(what, stager, hints.threads, hints.reducer, result).run(as_expr(mine), as_bool(counts), threads)


class _Fold:
    """One reduction."""

    def __init__(
        self, what: str, stager: Stager, threads: tuple[int, int, int], reducer: Reducer, result: Load
    ) -> None:
        self._what, self._stager, self._threads, self._result = what, stager, threads, result
        self._reducer, self._dtype = reducer, result.dtype

    def run(self, value: Expr, condition: Expr, indices: Sequence[ExprLike]) -> None:
        """Emits it; a thread that does not count has what changes nothing."""
        axes = sorted({self._axis(index) for index in indices})
        mine = cast(value, self._dtype)
        if int_const(condition) != 1:
            mine = select(condition, mine, cast(as_expr(self._reducer.identity), self._dtype))
        mine = self._stager.bind("mine", mine)
        lanes = math.gcd(self._threads[0], LANES)
        if 0 in axes and lanes in (self._threads[0], LANES) and math.prod(self._threads) % LANES == 0:
            mine = self._by_shuffles(mine, lanes)
        else:
            lanes = 1
        parts = {dim: self._threads[dim] // (lanes if dim == 0 else 1) for dim in axes}
        mine = self._by_memory(mine, {dim: count for dim, count in parts.items() if count > 1})
        self._stager.emit(Store(self._result.buffer, self._result.indices, mine))

    def _axis(self, index: ExprLike) -> int:
        """The dimension of the block whose index this is."""
        given = as_expr(scalar_operand(index, self._what, "index"))
        plain, thread = self._value(given), linear_thread(self._what)
        is_arithmetic = not any(isinstance(node, Load | Call) for node in walk_expr(plain))
        if is_arithmetic and variables_of(plain) <= {thread}:
            numbers = np.arange(math.prod(self._threads))
            found = np.asarray(evaluate(plain, {thread: numbers}))
            for dim, extent in enumerate(self._threads):
                if (found == numbers // math.prod(self._threads[:dim]) % extent).all():
                    return dim
        raise ProgramError(
            f"{self._what}: {given!r:.60} is no index of the executing thread",
            hint="pass what T.get_thread_binding(0), (1) or (2) gave",
        )

    def _value(self, index: Expr) -> Expr:
        """Return the value that a name is bound to."""
        named = (s for block in self._stager.open_blocks for s in block if isinstance(s, Bind) and s.var is index)
        found = next(named, None) if isinstance(index, Var) else None
        return index if found is None else self._value(found.value)

    def _both(self, first: Expr, second: Expr) -> Expr:
        return cast(as_expr(self._reducer.combine(first, second)), self._dtype)

    def _by_shuffles(self, value: Expr, lanes: int) -> Expr:
        """A butterfly among `lanes` neighboring lanes."""
        distance = lanes // 2
        while distance:
            value = self._stager.bind("folded", self._both(value, self._neighbor(value, distance)))
            distance //= 2
        return value

    def _neighbor(self, value: Expr, distance: int) -> Expr:
        return shuffled("T.tvm_thread_allreduce", "xor", value, distance)

    def _by_memory(self, value: Expr, counts: Mapping[int, int]) -> Expr:
        """Reduces what some parts of each dimension have: in pairs, so that as little is rounded as by shuffles."""
        thread = linear_thread(self._what)
        first: Expr = thread
        rest: list[tuple[int, int]] = []  # for each dimension the number of values that are left, and their distance
        for dim, count in counts.items():
            stride = math.prod(self._threads[: dim + 1]) // count
            place = get_thread_binding(dim) // (self._threads[dim] // count)
            paired = count & -count
            distance = paired // 2
            while distance:
                parts = self._stored(value)
                other = thread + (1 - place // distance % 2 * 2) * (distance * stride)
                value = self._stager.bind("folded", self._both(value, Load(parts, (other,), self._dtype)))
                distance //= 2
            if count > paired:
                rest.append((count // paired, paired * stride))
                first = first - place // paired * (paired * stride)
        return self._serially(self._stored(value), first, rest) if rest else value

    def _stored(self, value: Expr) -> Buffer:
        """The values of all threads in shared memory."""
        total = const(math.prod(self._threads), INT32)
        parts = Buffer(self._stager.unique("parts"), (total,), self._dtype, Scope.SHARED)
        self._stager.emit(Alloc(parts))
        self._stager.emit(Store(parts, (linear_thread(self._what),), value))
        return parts

    def _serially(self, parts: Buffer, first: Expr, along: Sequence[tuple[int, int]]) -> Expr:
        """One value after another, from the first on; `along` has their numbers and distances."""
        stager = self._stager
        number = Var(stager.unique("part"), INT32, index=True)
        at, rest = first, as_expr(number)
        for count, stride in along:
            at, rest = at + rest % count * stride, rest // count
        running = stager.mutable("folded", self._dtype, Load(parts, (first,), self._dtype))
        step = Store(running.buffer, (), self._both(running, Load(parts, (at,), self._dtype)))
        counts = const(math.prod(count for count, _ in along), INT32)
        stager.emit(For(number, const(1, INT32), counts, 1, ForKind.SERIAL, step))
        return running
