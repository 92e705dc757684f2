"""What one thread touches of the memory that it shares with others, statement by statement.

Takes statements of a thread-level program, gives `Touch`es: an access with its indices in terms of the thread index,
the loop variables around it and constants. Invariant: a touch covers everything that its statement may access, seen
from any thread; where an index is not plain, it says so instead of guessing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Select, Var, int_const, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Atomic, AtomicOp, Bind, CallStmt, For, Group, Print, Stmt, Store, While
from tilelang.ir.visit import children, expressions, substitute, variables_of, walk, walk_expr, written_buffers
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.records import record

SHARED_BY_THREADS = (Scope.SHARED, Scope.GLOBAL)


@record(slots=True, eq=False)
class Free:
    """A variable whose value at the access is only known to lie in a range.

    Attributes:
        var: It occurs in one touch only.
        values: The values it may have; None if they are too many or not known.
        low: The smallest value, if known.
        high: The largest value, if known.
    """

    var: Var
    values: range | None
    low: int | None
    high: int | None


@record(slots=True, eq=False)
class Touch:
    """One access, as any thread makes it.

    Attributes:
        buffer: What is named.
        start: The first element per dimension, names of index arithmetic replaced by their values; None where the
            index depends on the contents of memory.
        extent: Elements per dimension; None where that is not constant.
        write: Whether it writes.
        atomic: Whether it is indivisible.
        async_unit: What makes it at some time before a wait, if not its thread when the statement is executed.
        conditions: What holds whenever it happens.
        free: The variables of `start` that may have any value of a range.
        loc: Where its statement stands.
        arranged: Whether the program itself orders it among accesses that say so too, by barriers of some threads.
        alone: The group of one whose thread makes it; None if other threads may make it, too.
        releases: Whether it lets other blocks see what was done to global memory before.
        acquires: Whether it lets its thread see what other blocks did to global memory before they released it.
        by_all: Whether all threads make it wherever one does.
    """

    buffer: Buffer
    start: tuple[Expr | None, ...]
    extent: tuple[int | None, ...]
    write: bool
    atomic: bool
    async_unit: AsyncUnit | None
    conditions: tuple[Expr, ...]
    free: tuple[Free, ...]
    loc: Loc
    arranged: bool = False
    alone: Group | None = None
    releases: bool = False
    acquires: bool = False
    by_all: bool = True

    @property
    def asynchronous(self) -> bool:
        """Whether it happens at some time before a wait."""
        return self.async_unit is not None

    def replaced(self, values: Mapping[Var, Expr], free: Iterable[Free]) -> Touch:
        """The touch with variables replaced, which brings in further free ones."""
        if not values:
            return self
        start = tuple(e if e is None else substitute(e, values) for e in self.start)
        conditions = tuple(substitute(c, values) for c in self.conditions)
        return dataclasses.replace(self, start=start, conditions=conditions, free=(*self.free, *free))


def touches_of(stmt: Stmt, values: Mapping[Var, Expr], conditions: tuple[Expr, ...] = ()) -> list[Touch]:
    """What a statement itself touches, reads first; its sub-statements not counted.

    Args:
        stmt: The statement.
        values: Names of index arithmetic around it.
        conditions: What holds where it stands.
    """
    return list(_Collector(stmt, values).collect(conditions))


def is_shared(buffer: Buffer) -> bool:
    """Whether threads share a buffer."""
    return buffer.scope in SHARED_BY_THREADS


def touches_anything(stmt: Stmt, matters: Callable[[Buffer], bool] = is_shared) -> tuple[bool, bool]:
    """Whether a statement itself touches memory that matters, and whether it writes there."""
    writes = any(matters(buffer) for buffer in written_buffers(stmt))
    regions = stmt.reads if isinstance(stmt, CallStmt) else ()
    reads = isinstance(stmt, Print | Atomic) or any(matters(region.buffer) for region in regions)
    touches = writes or reads or any(
        isinstance(node, Load) and matters(node.buffer)
        for root in expressions(stmt)
        for node in walk_expr(root)
    )
    return touches, writes


def meets_some(stmt: Stmt) -> bool:
    """Whether a statement lets some threads of the block wait for others, beyond those of a warp."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return isinstance(routine, Instruction) and Effect.SYNC_SOME in routine.effect


def hands_over(stmt: Stmt) -> bool:
    """Whether others may touch memory from a statement on, other warps or other blocks, that they did not before."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return meets_some(stmt) or isinstance(routine, Instruction) and Effect.SYNC_GRID in routine.effect


class _Collector:
    def __init__(self, stmt: Stmt, values: Mapping[Var, Expr]) -> None:
        self._stmt = stmt
        self._values = values

    def collect(self, conditions: tuple[Expr, ...]) -> Iterator[Touch]:
        stmt = self._stmt
        for root in expressions(stmt):
            yield from self._loads(root, conditions)
        match stmt:
            case Store(buffer=buffer, indices=indices, value=value):
                lanes = value.dtype.lanes // buffer.dtype.lanes
                yield from self._touch(buffer, indices, lanes, conditions, write=True)
            case Atomic(buffer=buffer, indices=indices, op=op):
                lanes = 1 if stmt.value is None else stmt.value.dtype.lanes // buffer.dtype.lanes
                write = op is not AtomicOp.LOAD
                for touch in self._touch(buffer, indices, lanes, conditions, write=write, atomic=True):
                    ordered = buffer.scope is Scope.GLOBAL
                    yield dataclasses.replace(
                        touch, releases=ordered and stmt.releases, acquires=ordered and stmt.acquires
                    )
            case CallStmt():
                yield from self._call(stmt, conditions)
            case Print(operand=Region() as region):
                yield from self._region(region, conditions, None, write=False)

    def _call(self, stmt: CallStmt, conditions: tuple[Expr, ...]) -> Iterator[Touch]:
        routine = stmt.routine
        unit = routine.async_unit if isinstance(routine, Instruction) else None
        for region in stmt.reads:
            late = unit if unit is not None and unit.reads_late else None
            yield from self._region(region, conditions, late, write=False)
        for region in stmt.writes:
            yield from self._region(region, conditions, unit, write=True)

    def _loads(self, expr: Expr, conditions: tuple[Expr, ...]) -> Iterator[Touch]:
        if isinstance(expr, Load):
            lanes = expr.dtype.lanes // expr.buffer.dtype.lanes
            yield from self._touch(expr.buffer, expr.indices, lanes, conditions, write=False)
        if isinstance(expr, Select):
            yield from self._loads(expr.condition, conditions)
            condition = self._exact(expr.condition)
            chosen, other = ((), ()) if condition is None else ((condition,), (unary(UnaryOp.NOT, condition),))
            yield from self._loads(expr.a, (*conditions, *chosen))
            yield from self._loads(expr.b, (*conditions, *other))
            return
        for child in children(expr):
            yield from self._loads(child, conditions)

    def _touch(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        lanes: int,
        conditions: tuple[Expr, ...],
        *,
        write: bool,
        atomic: bool = False,
    ) -> Iterator[Touch]:
        if buffer.scope in SHARED_BY_THREADS:
            extent = (*(1 for _ in indices[1:]), lanes) if indices else ()
            start = tuple(map(self._exact, indices))
            yield Touch(buffer, start, extent, write, atomic, None, conditions, (), self._stmt.loc)

    def _region(
        self, region: Region, conditions: tuple[Expr, ...], unit: AsyncUnit | None, *, write: bool
    ) -> Iterator[Touch]:
        if region.buffer.scope in SHARED_BY_THREADS:
            extent = tuple(int_const(e) for e in region.extent)
            start = tuple(map(self._exact, region.start))
            yield Touch(region.buffer, start, extent, write, False, unit, conditions, (), self._stmt.loc)

    def _exact(self, index: Expr) -> Expr | None:
        return plain(index, self._values)


def plain(expr: Expr, values: Mapping[Var, Expr]) -> Expr | None:
    """The expression with names replaced by their values; None if it depends on the contents of memory."""
    whole = substitute(expr, values) if values else expr
    return None if any(isinstance(node, Load) for node in walk_expr(whole)) else whole


# -- the same access at another time -----------------------------------------------------------------------------


class Moments:
    """Tells how accesses of a loop's body look from later moments: a later iteration, or after the loop.

    Attributes:
        loop: The loop.
        trips: How often it runs, if known.
    """

    def __init__(self, loop: For | While, domain: Domain) -> None:
        self.loop = loop
        self.trips: int | None = None
        self._domain = domain
        self._inner = {s.var for s in walk(loop.body) if isinstance(s, Bind | For)} | {
            s.result for s in walk(loop.body) if isinstance(s, CallStmt | Atomic) and s.result is not None
        }
        self._after: dict[int, tuple[Touch, Touch]] = {}
        self._back: dict[int, tuple[Touch, Touch | None]] = {}
        self._ages: dict[int, tuple[Touch, Touch, int]] = {}
        if isinstance(loop, For):
            start, stop = int_const(loop.start), int_const(loop.stop)
            if start is not None and stop is not None:
                self.trips = len(range(start, stop, loop.step))

    def back(self, touch: Touch) -> Touch | None:
        """An access of this or an earlier iteration, seen from the next one; None if there is no such iteration.

        One iteration back is known exactly, and so are several for copies whose waits count them; from there on it is
        any iteration before.
        """
        known = self._back.get(id(touch))
        if known is None:
            known = self._back[id(touch)] = (touch, self._moved_back(touch))
        return known[1]

    def _moved_back(self, touch: Touch) -> Touch | None:
        _, origin, age = self._ages.get(id(touch), (touch, touch, 0))
        unit = touch.async_unit
        exact = _EXACT_COPIES if unit is not None and unit.every_thread else 1
        if age > exact:
            return touch  # stands for any iteration before already
        age += 1
        if self.trips is not None and age >= self.trips:
            return None
        if not self._changes(touch):
            return touch
        if age <= exact:
            moved = self._move(origin, lambda loop, free: loop.var - age * loop.step)
        else:
            ages = None if self.trips is None else range(age, self.trips)
            oldest = None if self.trips is None else self.trips - 1

            def before(loop: For, free: list[Free]) -> Expr:
                return loop.var - _fresh(loop.var, ages, age, oldest, free) * loop.step

            moved = self._move(origin, before)
        self._ages[id(moved)] = (moved, origin, age)
        return moved

    def after(self, touch: Touch) -> Touch:
        """The access of any iteration, seen from after the loop."""
        touch = self._ages.get(id(touch), (touch, touch, 0))[1]  # what it was in its own iteration says all
        known = self._after.get(id(touch))
        if known is None:
            moved = self._move(touch, lambda loop, free: _fresh(loop.var, *self._range(loop), free))
            known = self._after[id(touch)] = (touch, moved)
        return known[1]

    def _changes(self, touch: Touch) -> bool:
        """Whether the access is another one in each iteration."""
        used = _variables(touch)
        return not used.isdisjoint(self._inner) or isinstance(self.loop, For) and self.loop.var in used

    def _move(self, touch: Touch, value: Callable[[For, list[Free]], Expr]) -> Touch:
        used = _variables(touch)
        values: dict[Var, Expr] = {}
        free: list[Free] = []
        for var in self._inner:
            if var in used:  # another value each time, of which nothing is known
                values[var] = _fresh(var, None, None, None, free)
        if isinstance(self.loop, For) and self.loop.var in used:
            values[self.loop.var] = value(self.loop, free)
        return touch.replaced(values, free)

    def _range(self, loop: For) -> tuple[range | None, int | None, int | None]:
        start, stop = int_const(loop.start), int_const(loop.stop)
        if start is not None and stop is not None:
            values = range(start, stop, loop.step)
            return (values, min(values), max(values)) if values else (values, start, start)
        inside = bounds(loop.var, self._domain.with_loop(loop.var, loop.start, loop.stop, loop.step))
        return None, inside.low, inside.high


_EXACT_COPIES = 8  # iterations; pipelines are not deeper


def _variables(touch: Touch) -> frozenset[Var]:
    return frozenset().union(*[variables_of(e) for e in (*touch.start, *touch.conditions) if e is not None])


def _fresh(var: Var, values: range | None, low: int | None, high: int | None, free: list[Free]) -> Var:
    new = Var(f"{var.name}_then", var.dtype if var.dtype.is_int else INT32, index=True)
    free.append(Free(new, values, low, high))
    return new
