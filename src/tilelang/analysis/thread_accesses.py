"""Accesses of a thread to shared and global memory, statement by statement.

Takes statements of a thread-level program, gives `ThreadAccess`es, with indices in terms of the thread index, enclosing
loop variables and constants. Invariant: the accesses cover everything that a statement may access in any thread; an
index that depends on memory is None.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Select, Var, int_const, unary
from tilelang.ir.pipeline import PipelineStmt, StoreWait
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Atomic, AtomicOp, CallStmt, For, Group, If, Print, Stmt, Store, While
from tilelang.ir.visit import (
    children,
    defined_variables,
    expressions,
    loads_of,
    substitute,
    variables_of,
    walk,
    written_buffers,
)
from tilelang.isa.instruction import AsyncUnit, Effect, ExecutionScope, Instruction
from tilelang.records import record

SHARED_BY_THREADS = (Scope.SHARED, Scope.GLOBAL)


@record(slots=True, eq=False)
class FreeVariable:
    """A variable of which only a range is known at the access.

    Attributes:
        var: The variable; the accesses of a loop share it, each with a value of its own.
        values: The values it may have; None if they are too many or not known.
        low: The smallest value, if known.
        high: The largest value, if known.
    """

    var: Var
    values: range | None
    low: int | None
    high: int | None


@record(slots=True, eq=False)
class ThreadAccess:
    """One access to shared or global memory, for any thread.

    Attributes:
        buffer: The buffer.
        start: The first element per dimension, with bound index variables substituted; None where the
            index depends on the contents of memory.
        extent: Elements per dimension; None where that is not constant.
        write: Whether it writes.
        commutes: The operation of an atomic update that commutes with others of that operation, since nobody takes its
            previous value; None for any other access.
        async_unit: The unit that performs it asynchronously; None if the thread does.
        conditions: Conditions under which it happens.
        free: The variables of `start` that may have any value of a range.
        loc: Source location of its statement.
        explicitly_ordered: Whether barriers in the program order it among other such accesses.
        single_thread: The group of one thread that makes it; None if other threads may make it, too.
        releases: Whether it is a release at GPU scope of earlier accesses to global memory.
        acquires: Whether it is an acquire at GPU scope.
        by_all_threads: Whether it is uniform: all threads make it wherever one does.
        atomic: Whether it is atomic.
        spins: Whether it is an atomic of a statement in which some threads of the block spin on atomics: they may wait
            for those of a later statement, and a barrier between the two would deadlock.
    """

    buffer: Buffer
    start: tuple[Expr | None, ...]
    extent: tuple[int | None, ...]
    write: bool
    commutes: AtomicOp | None
    async_unit: AsyncUnit | None
    conditions: tuple[Expr, ...]
    free: tuple[FreeVariable, ...]
    loc: Loc
    explicitly_ordered: bool = False
    single_thread: Group | None = None
    releases: bool = False
    acquires: bool = False
    by_all_threads: bool = True
    atomic: bool = False
    spins: bool = False

    @property
    def asynchronous(self) -> bool:
        """Whether it completes only at a wait."""
        return self.async_unit is not None

    def substituted(self, values: Mapping[Var, Expr], free: Iterable[FreeVariable]) -> ThreadAccess:
        """The access with variables substituted, and additional free variables."""
        if not values:
            return self
        start = tuple(e if e is None else substitute(e, values) for e in self.start)
        conditions = tuple(substitute(c, values) for c in self.conditions)
        return dataclasses.replace(self, start=start, conditions=conditions, free=(*self.free, *free))


def thread_accesses(stmt: Stmt, values: Mapping[Var, Expr], conditions: tuple[Expr, ...] = ()) -> list[ThreadAccess]:
    """The accesses of a statement itself, reads first, without those of its sub-statements.

    Args:
        stmt: The statement.
        values: Values of bound index variables.
        conditions: Conditions that hold at the statement.
    """
    return list(_Collector(stmt, values).collect(conditions))


def is_shared(buffer: Buffer) -> bool:
    """Whether threads share a buffer."""
    return buffer.scope in SHARED_BY_THREADS


def accesses_memory(stmt: Stmt, relevant: Callable[[Buffer], bool] = is_shared) -> tuple[bool, bool]:
    """Whether a statement itself accesses relevant memory, and whether it writes it."""
    writes = any(relevant(buffer) for buffer in written_buffers(stmt))
    regions = stmt.reads if isinstance(stmt, CallStmt) else ()
    reads = isinstance(stmt, Print | Atomic) or any(relevant(region.buffer) for region in regions)
    accesses = writes or reads or any(relevant(load.buffer) for root in expressions(stmt) for load in loads_of(root))
    return accesses, writes


def syncs_block(stmt: CallStmt, threads: int, warp_size: int) -> bool:
    """Whether a call is a barrier of all threads of a block, which may be those of one warp."""
    effect = stmt.routine.effect if isinstance(stmt.routine, Instruction) else Effect.NONE
    if Effect.SYNC_BLOCK in effect or Effect.SYNC_WARP not in effect or threads > warp_size:
        return Effect.SYNC_BLOCK in effect
    mask, needed = int_const(stmt.args[0]) if isinstance(stmt.args[0], Expr) else None, (1 << threads) - 1
    return mask is not None and mask & needed == needed


def syncs_some_threads(stmt: Stmt) -> bool:
    """Whether a statement synchronizes some threads of the block, beyond those of a warp."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return isinstance(routine, Instruction) and Effect.SYNC_SOME in routine.effect


def arrives_for_warps(stmt: Stmt) -> bool:
    """Whether a statement arrives at a barrier for which other warps of the block wait."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return isinstance(routine, Instruction) and Effect.ARRIVE in routine.effect


def syncs_warps(stmt: Stmt) -> bool:
    """Whether a statement waits at a barrier of some warps of the block."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    if not isinstance(routine, Instruction) or routine.execution_scope is not ExecutionScope.WARP:
        return False
    return Effect.SYNC_SOME in routine.effect and Effect.ARRIVE not in routine.effect


def transfers_ownership(stmt: Stmt) -> bool:
    """Whether a statement allows other warps or blocks to access memory that they could not access before."""
    if isinstance(stmt, PipelineStmt):
        return not isinstance(stmt, StoreWait)
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    return syncs_some_threads(stmt) or isinstance(routine, Instruction) and Effect.SYNC_GRID in routine.effect


def synchronizes(stmt: Stmt) -> bool:
    """Whether a statement orders threads, or waits for what they do asynchronously, as the user says."""
    routine = stmt.routine if isinstance(stmt, CallStmt) else None
    asynchronous = isinstance(routine, Instruction) and routine.async_unit is not None
    return asynchronous or transfers_ownership(stmt) or isinstance(stmt, If) and stmt.group is not None


class _Collector:
    def __init__(self, stmt: Stmt, values: Mapping[Var, Expr]) -> None:
        self._stmt = stmt
        self._values = values

    def collect(self, conditions: tuple[Expr, ...]) -> Iterator[ThreadAccess]:
        stmt = self._stmt
        for root in expressions(stmt):
            yield from self._loads(root, conditions)
        match stmt:
            case Store(buffer=buffer, indices=indices, value=value):
                lanes = value.dtype.lanes // buffer.dtype.lanes
                yield from self._access(buffer, indices, lanes, conditions, write=True)
            case Atomic(buffer=buffer, indices=indices, op=op):
                lanes = 1 if stmt.value is None else stmt.value.dtype.lanes // buffer.dtype.lanes
                write = op is not AtomicOp.LOAD
                commutes = op if op.operator is not None and stmt.result is None else None
                for access in self._access(buffer, indices, lanes, conditions, write=write, commutes=commutes):
                    ordered = buffer.scope is Scope.GLOBAL
                    yield dataclasses.replace(
                        access, releases=ordered and stmt.releases, acquires=ordered and stmt.acquires, atomic=True
                    )
            case CallStmt():
                yield from self._call(stmt, conditions)
            case Print(operand=Region() as region):
                yield from self._region(region, conditions, None, write=False)

    def _call(self, stmt: CallStmt, conditions: tuple[Expr, ...]) -> Iterator[ThreadAccess]:
        routine = stmt.routine
        unit = routine.async_unit if isinstance(routine, Instruction) else None
        # a thread that waits for its own copies may write to their sources before others have waited for theirs
        late = unit if unit is not None and (unit.reads_asynchronously or unit.per_thread) else None
        for region in stmt.reads:
            yield from self._region(region, conditions, late, write=False)
        for region in stmt.writes:
            yield from self._region(region, conditions, unit, write=True)

    def _loads(self, expr: Expr, conditions: tuple[Expr, ...]) -> Iterator[ThreadAccess]:
        if not loads_of(expr):
            return
        if isinstance(expr, Load):
            lanes = expr.dtype.lanes // expr.buffer.dtype.lanes
            yield from self._access(expr.buffer, expr.indices, lanes, conditions, write=False)
        if isinstance(expr, Select):
            yield from self._loads(expr.condition, conditions)
            condition = self._exact(expr.condition)
            chosen, other = ((), ()) if condition is None else ((condition,), (unary(UnaryOp.NOT, condition),))
            yield from self._loads(expr.a, (*conditions, *chosen))
            yield from self._loads(expr.b, (*conditions, *other))
            return
        for child in children(expr):
            yield from self._loads(child, conditions)

    def _access(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        lanes: int,
        conditions: tuple[Expr, ...],
        *,
        write: bool,
        commutes: AtomicOp | None = None,
    ) -> Iterator[ThreadAccess]:
        if buffer.scope in SHARED_BY_THREADS:
            extent = (*(1 for _ in indices[1:]), lanes) if indices else ()
            start = tuple(map(self._exact, indices))
            yield ThreadAccess(buffer, start, extent, write, commutes, None, conditions, (), self._stmt.loc)

    def _region(
        self, region: Region, conditions: tuple[Expr, ...], unit: AsyncUnit | None, *, write: bool
    ) -> Iterator[ThreadAccess]:
        if region.buffer.scope in SHARED_BY_THREADS:
            extent = tuple(int_const(e) for e in region.extent)
            start = tuple(map(self._exact, region.start))
            yield ThreadAccess(region.buffer, start, extent, write, None, unit, conditions, (), self._stmt.loc)

    def _exact(self, index: Expr) -> Expr | None:
        return plain(index, self._values)


def plain(expr: Expr, values: Mapping[Var, Expr]) -> Expr | None:
    """The expression with bound variables substituted; None if it depends on the contents of memory."""
    whole = substitute(expr, values) if values else expr
    return None if loads_of(whole) else whole


# -- accesses of earlier iterations -----------------------------------------------------------------------------


class LoopCarried:
    """Expresses accesses of earlier iterations of a loop in terms of a later iteration, or of the point after the loop.

    Attributes:
        loop: The loop.
        trips: The trip count, if constant.
    """

    def __init__(self, loop: For | While, domain: Domain) -> None:
        self.loop = loop
        self.trips: int | None = None
        self._domain = domain
        self._after: dict[int, tuple[ThreadAccess, ThreadAccess]] = {}
        self._later: dict[int, tuple[ThreadAccess, ThreadAccess | None]] = {}
        self._ages: dict[int, tuple[ThreadAccess, ThreadAccess, int]] = {}
        self._free: dict[tuple[Var, range | None, int | None, int | None], FreeVariable] = {}
        if isinstance(loop, For):
            start, stop = int_const(loop.start), int_const(loop.stop)
            if start is not None and stop is not None:
                self.trips = len(range(start, stop, loop.step))

    def one_iteration_later(self, access: ThreadAccess) -> ThreadAccess | None:
        """An access of this or an earlier iteration, expressed in the next one; None if there is no such iteration.

        A distance of one iteration is exact, and so are several for asynchronous copies, whose waits count groups;
        larger distances are merged into "any earlier iteration".
        """
        cached = self._later.get(id(access))
        if cached is None:
            cached = self._later[id(access)] = (access, self._moved_later(access))
        return cached[1]

    def _moved_later(self, access: ThreadAccess) -> ThreadAccess | None:
        _, origin, age = self._ages.get(id(access), (access, access, 0))
        unit = access.async_unit
        exact = _EXACT_COPIES if unit is not None and unit.per_thread else 1
        if age > exact:
            return access  # represents any earlier iteration already
        age += 1
        if self.trips is not None and age >= self.trips:
            return None
        if not self._varies(access):
            return access
        if age <= exact:
            moved = self._move(origin, lambda loop, free: loop.var - age * loop.step)
        else:
            ages = None if self.trips is None else range(age, self.trips)
            oldest = None if self.trips is None else self.trips - 1

            def before(loop: For, free: list[FreeVariable]) -> Expr:
                return loop.var - self._fresh(loop.var, ages, age, oldest, free) * loop.step

            moved = self._move(origin, before)
        self._ages[id(moved)] = (moved, origin, age)
        return moved

    def after(self, access: ThreadAccess) -> ThreadAccess:
        """The access of any iteration, expressed after the loop."""
        access = self._ages.get(id(access), (access, access, 0))[1]  # the access of its own iteration covers all
        cached = self._after.get(id(access))
        if cached is None:
            moved = self._move(access, lambda loop, free: self._fresh(loop.var, *self._range, free))
            cached = self._after[id(access)] = (access, moved)
        return cached[1]

    @functools.cached_property
    def _inner(self) -> frozenset[Var]:
        """The variables that the body defines."""
        return frozenset(var for stmt in walk(self.loop.body) for var in defined_variables(stmt))

    def _varies(self, access: ThreadAccess) -> bool:
        """Whether the access differs between iterations."""
        used = _variables(access)
        return not used.isdisjoint(self._inner) or isinstance(self.loop, For) and self.loop.var in used

    def _move(self, access: ThreadAccess, value: Callable[[For, list[FreeVariable]], Expr]) -> ThreadAccess:
        used = _variables(access)
        values: dict[Var, Expr] = {}
        free: list[FreeVariable] = []
        for var in self._inner:
            if var in used:  # a different, unknown value in each iteration
                values[var] = self._fresh(var, None, None, None, free)
        if isinstance(self.loop, For) and self.loop.var in used:
            values[self.loop.var] = value(self.loop, free)
        return access.substituted(values, free)

    def _fresh(
        self, var: Var, values: range | None, low: int | None, high: int | None, free: list[FreeVariable]
    ) -> Var:
        """A variable for the unknown value of another one, added to `free`; equal indices of accesses stay equal."""
        key = (var, values, low, high)
        if key not in self._free:
            new = Var(f"{var.name}_then", var.dtype if var.dtype.is_int else INT32, index=True)
            self._free[key] = FreeVariable(new, values, low, high)
        free.append(self._free[key])
        return self._free[key].var

    @functools.cached_property
    def surely_runs(self) -> bool:
        """Whether the loop provably has an iteration."""
        loop = self.loop
        if not isinstance(loop, For):
            return False
        return proves(loop.start < loop.stop if loop.step > 0 else loop.start > loop.stop, self._domain)

    @functools.cached_property
    def _range(self) -> tuple[range | None, int | None, int | None]:
        """All values of the variable of a `For`, if they are constants, and its least and largest value, if known."""
        loop = self.loop
        assert isinstance(loop, For)
        start, stop = int_const(loop.start), int_const(loop.stop)
        if start is not None and stop is not None:
            values = range(start, stop, loop.step)
            return (values, min(values), max(values)) if values else (values, start, start)
        inside = bounds(loop.var, self._domain.with_loop(loop.var, loop.start, loop.stop, loop.step))
        return None, inside.low, inside.high


_EXACT_COPIES = 8  # iterations; pipelines are not deeper


def _variables(access: ThreadAccess) -> frozenset[Var]:
    return frozenset().union(*[variables_of(e) for e in (*access.start, *access.conditions) if e is not None])
