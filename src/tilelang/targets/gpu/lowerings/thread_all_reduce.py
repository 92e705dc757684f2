"""Reductions of partial results across threads: by shuffles within warps, through shared memory across warps.

Takes partial results in registers and the digits of the thread index to reduce over, emits code after which every
thread has the totals. Invariant: all threads of the group execute the code together; partials that are reduced in one
call share one exchange through shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilelang.dtypes import BOOL, INT32, SCALARS, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, binary, conjunction, const, select
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Store
from tilelang.powers import is_power_of_two
from tilelang.records import record
from tilelang.targets.gpu.isa.sync import SYNC_GROUP_OR
from tilelang.targets.gpu.isa.warp import ANY, redux, shuffle
from tilelang.targets.gpu.lowerings.loop_partition import ThreadDigit, merge_digits
from tilelang.targets.gpu.lowerings.unrolling import register_index_variables, unrolled_for
from tilelang.targets.machine import CommonFeature
from tilelang.targets.target import Target

ZERO = const(0, INT32)

COMBINE = {
    "+": BinaryOp.ADD,
    "*": BinaryOp.MUL,
    "min": BinaryOp.MIN,
    "max": BinaryOp.MAX,
    "fmin": BinaryOp.FMIN,
    "fmax": BinaryOp.FMAX,
    "&": BinaryOp.BITAND,
    "|": BinaryOp.BITOR,
    "^": BinaryOp.BITXOR,
}

# the names that redux.sync has for operators; integers have no NaN that "fmin" and "fmax" would drop
_REDUX_OF_INTEGERS = {
    "+": "add", "min": "min", "max": "max", "fmin": "min", "fmax": "max",
    "&": "and", "|": "or", "^": "xor",
}
_REDUX = {"int32": _REDUX_OF_INTEGERS, "uint32": _REDUX_OF_INTEGERS, "float32": {"min": "min", "max": "max"}}


def neutral(op: str, dtype: DType) -> Const:
    """The neutral element of `op`; largest finite values for dtypes without infinities."""
    low, high = dtype.limits
    if dtype.is_float and math.isinf(float(convert(math.inf, dtype))):
        low, high = -math.inf, math.inf
    match op:
        case "*":
            return const(1, dtype)
        case "fmin" | "fmax" if dtype.is_float:
            return const(math.nan, dtype)
        case "max" | "fmax":
            return const(low, dtype)
        case "min" | "fmin":
            return const(high, dtype)
        case "&":
            return const(1 if dtype.is_bool else -1 if low < 0 else int(high), dtype)
    return const(0, dtype)


@record(slots=True, eq=False)
class Partial:
    """Partial results of the executing thread.

    Attributes:
        buffer: An array of registers of one dimension, or a scalar.
        op: The operator that combines them.
        along: Digits of the thread index to combine along.
        across: Digits of the thread index that select different elements; threads that differ in any other digit have
            the same partials.
    """

    buffer: Buffer
    op: str
    along: tuple[ThreadDigit, ...]
    across: tuple[ThreadDigit, ...]

    @property
    def count(self) -> int:
        """Results per thread."""
        shape = self.buffer.static_shape
        assert shape is not None
        return math.prod(shape)

    def at(self, index: Expr) -> tuple[Expr, ...]:
        """Subscripts of a result."""
        return (index,) if self.buffer.rank else ()

    def load(self, index: Expr) -> Load:
        """A result."""
        return Load(self.buffer, self.at(index), self.buffer.dtype)

    def combine(self, a: Expr, b: Expr) -> Expr:
        """Combines two results."""
        return binary(COMBINE[self.op], a, b)


def each(build: Builder, name: str, extent: int, body: Callable[[Expr], None]) -> None:
    """`for name in range(extent)`, unrolled if it indexes registers; no loop for a single iteration."""
    if extent == 1:
        body(ZERO)
        return
    var = Var(name, INT32, index=True)
    with build.block() as statements:
        body(var)
    made = as_body(statements, build.loc)
    build.emit(unrolled_for(var, extent, made, register_index_variables(made)))


class ThreadReducer:
    """Reduces partials of the threads of a group.

    Args:
        build: Receives the code.
        thread: The index of the executing thread in its group.
        threads: Number of threads.
        target: The target.
    """

    def __init__(self, build: Builder, thread: Expr, threads: int, target: Target) -> None:
        self._build, self._thread, self._threads, self._target = build, thread, threads, target
        self._lanes = target.machine.warp_size

    def all_reduce(self, partials: Sequence[Partial]) -> None:
        """Replaces the partials by the totals, in every thread."""
        left = []
        for partial in partials:
            lanes = [d for d in partial.along if _is_of_lanes(d, self._lanes)]
            if 1 << len(lanes) == self._lanes and self._has_redux(partial):
                self._redux(partial)
            else:
                for digit in lanes:
                    self._shuffle(partial, digit.thread_stride)
            rest = tuple(d for d in partial.along if d not in lanes)
            if rest:
                left.append((partial, rest, _of_others(partial, self._threads, self._lanes)))
        places = [self._store_partials(*item) for item in left]
        for (partial, _, _), slot in zip(left, places, strict=True):
            self._load_totals(partial, *slot)

    def is_shuffled(self, partial: Partial) -> bool:
        """Whether partials are combined by shuffles alone."""
        lanes = [digit for digit in partial.along if _is_of_lanes(digit, self._lanes)]
        is_redux = 1 << len(lanes) == self._lanes and self._has_redux(partial)
        return bool(lanes) and len(lanes) == len(partial.along) and not is_redux

    def votes_at_barrier(self, partial: Partial) -> bool:
        """Whether partials are combined across warps, and a barrier tells as well whether that changes anything."""
        votes = self._target.has(CommonFeature.VOTES_AT_BARRIERS)
        return votes and any(not _is_of_lanes(digit, self._lanes) for digit in partial.along)

    def vote_of_warp(self, predicate: Expr) -> Var:
        """Whether a predicate holds in any lane of the executing warp."""
        lanes = Var("any_lane", BOOL)
        self._build.emit(CallStmt(ANY, (self.mask(), predicate), result=lanes))
        return lanes

    def vote_of_group(self, predicate: Expr) -> Var:
        """Whether a predicate holds in any thread of the group, by its barrier."""
        answer, threads = Var("answer", INT32), Var("any_thread", BOOL)
        self._build.emit(CallStmt(SYNC_GROUP_OR, (predicate,), result=answer))
        self._build.emit(Bind(threads, binary(BinaryOp.NE, answer, const(0, INT32))))
        return threads

    def mask(self) -> Expr:
        """The existing lanes of the executing warp."""
        dtype = SCALARS[f"uint{self._lanes}"]
        full, over = const((1 << self._lanes) - 1, dtype), self._threads % self._lanes
        if not over:
            return full
        last = const((1 << over) - 1, dtype)
        whole = self._threads - over
        return select(self._thread < whole, full, last) if whole else last

    def _has_redux(self, partial: Partial) -> bool:
        """Whether one instruction reduces over a warp."""
        operators = _REDUX.get(str(partial.buffer.dtype), {})
        return self._target.has(CommonFeature.REDUCE_LANES) and partial.op in operators

    def _redux(self, partial: Partial) -> None:
        """Reduces over a warp by one instruction, instead of five shuffles."""
        dtype = partial.buffer.dtype

        def exchange(index: Expr) -> None:
            total = Var("total", dtype)
            args = (self.mask(), partial.load(index))
            self._build.emit(CallStmt(redux(_REDUX[str(dtype)][partial.op], dtype), args, result=total))
            self._build.emit(Store(partial.buffer, partial.at(index), total))

        each(self._build, "q", partial.count, exchange)

    def _shuffle(self, partial: Partial, offset: int) -> None:
        """Combines with the lane whose index differs in one bit."""
        dtype = partial.buffer.dtype

        def exchange(index: Expr) -> None:
            other = Var("other", dtype)
            args = (self.mask(), partial.load(index), const(offset, INT32), const(self._lanes, INT32))
            self._build.emit(CallStmt(shuffle("xor", dtype), args, result=other))
            self._build.emit(Store(partial.buffer, partial.at(index), partial.combine(partial.load(index), other)))

        each(self._build, "q", partial.count, exchange)

    # -- across warps -------------------------------------------------------------------------------------------
    def _store_partials(
        self, partial: Partial, rest: tuple[ThreadDigit, ...], others: tuple[ThreadDigit, ...]
    ) -> tuple[Buffer, Expr, int]:
        """One thread of those with equal partials stores them to shared memory: (results, part, element)."""
        parts, elements = _size(rest), _size(partial.across)
        shape = [partial.count, parts] + ([elements] if elements > 1 else [])
        name = f"{partial.buffer.name}_parts"
        shared = Buffer(name, tuple(as_expr(e) for e in shape), partial.buffer.dtype, Scope.SHARED)
        self._build.emit(Alloc(shared))
        element = self._number(partial.across)
        part = self._number(rest)

        def write(index: Expr) -> None:
            self._build.emit(Store(shared, _subscripts(shared, index, part, element), partial.load(index)))

        is_writer = conjunction(digit.of(self._thread, self._threads) == 0 for digit in others)
        with self._build.block() as statements:
            each(self._build, "q", partial.count, write)
        body = as_body(statements, self._build.loc)
        self._build.emit(body if isinstance(is_writer, Const) else If(is_writer, body))
        return shared, element, parts

    def _load_totals(self, partial: Partial, shared: Buffer, element: Expr, parts: int) -> None:
        """Every thread combines all parts of its elements."""
        dtype = partial.buffer.dtype
        gathered = Buffer("parts", (as_expr(parts),), dtype, Scope.LOCAL)
        self._build.emit(Alloc(gathered))

        def total(index: Expr) -> None:
            part = Var("part", INT32, index=True)
            read = Load(shared, _subscripts(shared, index, part, element), dtype)
            fetch = Store(gathered, (part,), read, loc=self._build.loc)
            kind = ForKind.VECTORIZED if shared.rank == 2 else ForKind.UNROLLED
            self._build.emit(For(part, ZERO, const(parts, INT32), 1, kind, fetch))
            self._build.emit(Store(partial.buffer, partial.at(index), Load(gathered, (ZERO,), dtype)))

            def add(n: Expr) -> None:
                more = partial.combine(partial.load(index), Load(gathered, (n + 1,), dtype))
                self._build.emit(Store(partial.buffer, partial.at(index), more))

            each(self._build, "n", parts - 1, add)

        each(self._build, "q", partial.count, total)

    def _number(self, digits: Sequence[ThreadDigit]) -> Expr:
        """The combined index of some digits of the thread index."""
        total: Expr = ZERO
        stride = 1
        for digit in merge_digits(digits):
            value = digit.of(self._thread, self._threads)
            value = value if stride == 1 else value * stride
            total = value if total is ZERO else total + value
            stride *= digit.size
        return total


def _subscripts(shared: Buffer, index: Expr, part: Expr, element: Expr) -> tuple[Expr, ...]:
    return (index, part, element)[: shared.rank]


def _size(digits: Sequence[ThreadDigit]) -> int:
    return math.prod(digit.size for digit in digits)


def _is_of_lanes(digit: ThreadDigit, lanes: int) -> bool:
    """Whether threads that differ in a digit are lanes of one warp whose indices differ in one bit."""
    return digit.size == 2 and is_power_of_two(digit.thread_stride) and 2 * digit.thread_stride <= lanes


def _of_others(partial: Partial, threads: int, lanes: int) -> tuple[ThreadDigit, ...]:
    """The digits in which threads have equal partials by now."""
    done = [d for d in partial.along if _is_of_lanes(d, lanes)]
    taken = sorted((*partial.along, *partial.across), key=lambda d: d.thread_stride)
    idle, stride = list(done), 1
    for digit in (*taken, ThreadDigit(threads, 1, ())):
        if digit.thread_stride > stride:  # nothing is said of the digits between
            idle.append(ThreadDigit(stride, digit.thread_stride // stride, ()))
        stride = digit.thread_stride * digit.size
    return tuple(merge_digits(sorted(idle, key=lambda d: d.thread_stride)))
