"""Parallel loops in the reference interpreter: all iterations at once, where the result is that of one after another.

Takes a loop, executes it on arrays with one entry per iteration. Invariant: a loop that breaks a rule (an index out of
bounds of a tile, undefined memory, a race) or might depend on the order of its iterations changes nothing, and is left
to the caller, who executes it iteration by iteration and words the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import numpy as np

from tilelang.errors import CompilerBug, Loc, SimulationError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, If, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, walk, walk_expr
from tilelang.records import record
from tilelang.sim.exact_indices import are_exact, exact_parts
from tilelang.sim.expressions import Evaluator
from tilelang.sim.lane_expressions import LaneCompiler, Slots, Value
from tilelang.sim.memory import Cells, Memory
from tilelang.sim.races import RaceDetector, ShadowMemory

Evaluate = Callable[[Any], Value]  # a closure of `LaneCompiler`, which needs no more of a `Frame` than `_Points` has

_MIN_ITERATIONS, _MAX_ITERATIONS = 32, 1 << 22  # iterations that are worth it, and that memory holds


class ParallelLoops:
    """Executes loops of one run.

    Args:
        evaluator: Has the values of the variables around a loop.
        memory: The memory.
    """

    def __init__(self, evaluator: Evaluator, memory: Memory) -> None:
        self._evaluator, self._memory = evaluator, memory
        self._slots = Slots()
        self._compiler = LaneCompiler(self._slots, 1)
        self._plans: dict[ParallelLoop, _Plan | None] = {}

    def run(self, loop: ParallelLoop, extents: Sequence[int], races: RaceDetector | None) -> bool:
        """Executes a loop; False if nothing was done."""
        if not _MIN_ITERATIONS <= math.prod(extents) <= _MAX_ITERATIONS:
            return False
        if races is not None and races.release_acquire is not None:
            return False
        if loop not in self._plans:
            self._plans[loop] = self._plan(loop)
        plan = self._plans[loop]
        if plan is None:
            return False
        places = [self._slots.var(var) for var in loop.vars]  # before the points: an unused variable gets its slot here
        points = _Points(self._slots, self._memory, math.prod(extents))
        indices = np.indices(extents).reshape(len(extents), -1)
        for place, values in zip(places, indices, strict=True):
            points.env[place] = values
        peaks: dict[Expr, int] = dict(zip(loop.vars, extents, strict=True))
        for var in plan.outer:
            points.env[self._slots.var(var)] = self._evaluator.env[var]
            if var.index:
                peaks[var] = abs(self._evaluator.env[var])
        if not are_exact(plan.exact, peaks) or self._overlap(plan):
            return False
        try:
            for step in plan.steps:
                step(points)
        except (SimulationError, _Irregular):
            points.restore()
            return False
        points.record(races)
        return True

    def _overlap(self, plan: _Plan) -> bool:
        """Whether memory that is written has a second name, as when one array is passed for two parameters."""
        written = [self._memory.cells(buffer).data for buffer in plan.stored]
        others = [self._memory.cells(buffer).data for buffer in plan.accessed if buffer not in plan.stored]
        return any(np.may_share_memory(a, b) for n, a in enumerate(written) for b in (*written[:n], *others))

    # -- planning -------------------------------------------------------------------------------------------
    def _plan(self, loop: ParallelLoop) -> _Plan | None:
        stmts = list(walk(loop.body))
        roots = [expr for stmt in stmts for expr in expressions(stmt)]
        if not all(map(_is_simple, stmts)):
            return None
        own = {stmt.buffer for stmt in stmts if isinstance(stmt, Alloc)}
        stores = [stmt for stmt in stmts if isinstance(stmt, Store) and stmt.buffer not in own]
        loads = [node for root in roots for node in loads_of(root) if node.buffer not in own]
        bound = {stmt.var for stmt in stmts if isinstance(stmt, Bind)} | set(loop.vars)
        if not _is_independent(loop, stores, loads, bound):
            return None
        used = dict.fromkeys(node for root in roots for node in walk_expr(root) if isinstance(node, Var))
        stored = dict.fromkeys(stmt.buffer for stmt in stores)
        return _Plan(
            self._steps(loop.body),
            tuple(var for var in used if var not in bound),
            tuple(exact for stmt in stmts for exact in exact_parts(stmt)),
            tuple(stored),
            tuple(dict.fromkeys([*stored, *(load.buffer for load in loads)])),
        )

    def _steps(self, body: Stmt) -> tuple[Step, ...]:
        match body:
            case Seq(body=parts):
                return tuple([step for part in parts for step in self._steps(part)])
            case Bind(var=var, value=value):
                return (self._bind(self._slots.var(var), self._compiler.bound(var, value)),)
            case If(condition=condition, then_body=yes, else_body=no):
                branches = self._steps(yes), self._steps(no) if no is not None else ()
                return (self._branch(self._compiler.data(condition), *branches),)
            case Alloc(buffer=buffer, init=init):
                return (self._alloc(buffer, None if init is None else self._compiler.data(init)),)
            case Store():
                return (self._store(body),)
        raise CompilerBug(f"parallel loops cannot execute {type(body).__name__}")

    @staticmethod
    def _bind(slot: int, value: Evaluate) -> Step:
        return lambda points: points.bind(slot, value(points))

    @staticmethod
    def _branch(test: Evaluate, yes: Sequence[Step], no: Sequence[Step]) -> Step:
        return lambda points: points.branch(test(points), yes, no)

    def _alloc(self, buffer: Buffer, init: Evaluate | None) -> Step:
        slot = self._slots.buffer(buffer)
        return lambda points: points.allocate(slot, buffer, None if init is None else init(points))

    def _store(self, stmt: Store) -> Step:
        buffer, loc = stmt.buffer, stmt.loc
        where: list[Evaluate] = [self._compiler.index(i) for i in stmt.indices]
        value: Evaluate = self._compiler.data(stmt.value)
        if not where:
            slot = self._slots.buffer(buffer)
            return lambda points: points.cells[slot].write(points, value(points))
        return lambda points: points.store(buffer, tuple([i(points) for i in where]), value(points), loc)


_STATEMENTS = (Seq, Alloc, Bind, If, Store)


def _is_simple(stmt: Stmt) -> bool:
    """Whether a statement computes, or stores single elements that are visible at once."""
    if type(stmt) not in _STATEMENTS or isinstance(stmt, Alloc) and stmt.buffer.scope is not Scope.VAR:
        return False
    if isinstance(stmt, Store) and stmt.asynchronous:
        return False
    return all(node.dtype.lanes == 1 for root in expressions(stmt) for node in walk_expr(root))


def _is_independent(loop: ParallelLoop, stores: Sequence[Store], loads: Sequence[Load], bound: Set[Var]) -> bool:
    """Whether the statements may be executed one after the other, each for all iterations."""
    for store in stores:
        every: list[Store | Load] = [*stores, *loads]
        accesses = [access for access in every if access.buffer.storage is store.buffer.storage]
        if not store.indices:
            return False
        if len(accesses) > 1 and not (
            all(a.buffer is store.buffer and _same(a.indices, store.indices) for a in accesses)
            and all(any(_moves_with(i, var, bound) for i in store.indices) for var in loop.vars)
        ):
            return False
    return True


def _same(some: Sequence[Expr], others: Sequence[Expr]) -> bool:
    return [expr_key(e) for e in some] == [expr_key(e) for e in others]


def _moves_with(index: Expr, var: Var, bound: Set[Var]) -> bool:
    """Whether an index is the variable of the loop, or that plus what all iterations share."""
    if isinstance(index, Binary) and index.op is BinaryOp.ADD:
        index, rest = (index.a, index.b) if index.a is var else (index.b, index.a)
        if any(isinstance(node, Load) or node in bound for node in walk_expr(rest)):
            return False
    return index is var


@record(slots=True)
class _Plan:
    """A loop compiled for execution.

    Attributes:
        steps: Its statements.
        outer: The variables from around it.
        exact: The index arithmetic in it, with the variables that it is bound to.
        stored: The buffers to which it stores.
        accessed: All of its buffers.
    """

    steps: tuple[Step, ...]
    outer: tuple[Var, ...]
    exact: tuple[tuple[Var | None, Expr], ...]
    stored: tuple[Buffer, ...]
    accessed: tuple[Buffer, ...]


class _Irregular(Exception):
    """An iteration does what only the execution one by one can word an error for."""


class _Points:
    """The iterations of one execution, as `LaneCompiler`'s closures see lanes.

    Attributes:
        env: See `Frame`.
        cells: See `Frame`.
        mask: Which iterations execute the statement at hand.
    """

    def __init__(self, slots: Slots, memory: Memory, count: int) -> None:
        self._slots, self._memory, self._count = slots, memory, count
        self.env: list[Value] = [None] * slots.variables
        self.cells: list[Any] = [None] * len(slots.buffers)
        self.mask = np.ones(count, bool)
        self._loc: Loc | None = None
        self._undo: list[tuple[Cells, Any, np.ndarray, np.ndarray]] = []
        self._accesses: list[tuple[Callable[[Any], None], Any, Loc | None]] = []

    def cell(self, slot: int) -> _Elements:
        """See `Frame`."""
        made = self.cells[slot] = _Elements(self._memory.cells(self._slots.buffers[slot]))
        return made

    def set_mask(self, mask: np.ndarray) -> None:
        """See `Frame`."""
        self.mask = mask

    # -- statements -----------------------------------------------------------------------------------------
    def bind(self, slot: int, value: Value) -> None:
        """Gives a variable its values."""
        self.env[slot] = value

    def allocate(self, slot: int, buffer: Buffer, init: Value | None) -> None:
        """Makes a variable of which each iteration has its own."""
        variable = self.cells[slot] = _Variable(self._count, buffer)
        if init is not None:
            variable.write(self, init)

    def branch(self, test: Value, yes: Iterable[Step], no: Iterable[Step]) -> None:
        """Executes one side for the iterations for which the condition holds, the other for the others."""
        outer = self.mask
        for chosen, steps in ((outer & test, yes), (outer & np.logical_not(test), no)):
            if chosen.any():
                self.mask = chosen
                for step in steps:
                    step(self)
        self.mask = outer

    def store(self, buffer: Buffer, where: tuple[Value, ...], value: Value, loc: Loc) -> None:
        """Stores one element for each iteration."""
        cells = self._memory.cells(buffer)
        inside = self.inside(cells, where)
        at = tuple([np.broadcast_to(i, self._count)[inside] for i in where])
        self.touch(cells.shadow, at, loc, writes=True)
        self._undo.append((cells, at, cells.data[at], cells.written[at]))
        cells.data[at] = np.broadcast_to(value, self._count)[inside]
        cells.written[at] = cells.whole

    def inside(self, cells: Cells, where: tuple[Value, ...]) -> np.ndarray:
        """Which iterations access an element that there is."""
        inside = self.mask
        for index, extent in zip(where, cells.extents, strict=True):
            inside = inside & ((0 <= index) & (index < extent))
        if cells.buffer.scope.on_chip and (inside != self.mask).any():
            raise _Irregular
        return inside

    def touch(self, shadow: ShadowMemory | None, at: Any, loc: Loc | None, *, writes: bool = False) -> None:
        """Refuses accesses to what another block accessed, and keeps them to be recorded when the loop is done."""
        if shadow is not None:
            (shadow.may_write if writes else shadow.may_read)(at)
            self._accesses.append((shadow.has_written if writes else shadow.has_read, at, loc))

    # -- the end --------------------------------------------------------------------------------------------
    def restore(self) -> None:
        """Undoes all stores."""
        for cells, at, data, written in reversed(self._undo):
            cells.data[at] = data
            cells.written[at] = written

    def record(self, races: RaceDetector | None) -> None:
        """Records the accesses for the race detector."""
        for enter, at, loc in self._accesses:
            if races is not None and loc is not None:
                races.loc = loc
            enter(at)


Step = Callable[[_Points], None]


class _Elements:
    """The elements of one buffer, as `LaneCompiler`'s closures see memory."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def offset(self, points: _Points, where: tuple[Value, ...], count: int) -> tuple[Value, ...]:
        """Return the arguments that `read` takes for an access."""
        del points, count
        return where

    def read(
        self, points: _Points, where: tuple[Value, ...], count: int, *, moving: bool = False
    ) -> tuple[Value, np.ndarray | None]:
        """The element of each active iteration."""
        del count, moving
        cells = self._cells
        if all(np.ndim(i) == 0 for i in where):
            return cells.load(where), None
        inside = points.inside(cells, where)
        at = tuple([np.where(inside, i, 0) for i in where])
        if not inside.any():
            return cells.outside, None
        if (cells.written[at] != cells.whole)[inside].any():
            raise _Irregular
        points.touch(cells.shadow, tuple([i[inside] for i in at]), None)
        values = cells.data[at]
        return values if inside.all() else np.where(inside, values, cells.outside), None


class _Variable:
    """A variable of which each iteration has its own, as `LaneCompiler`'s closures see memory."""

    def __init__(self, count: int, buffer: Buffer) -> None:
        self._values = np.zeros(count, buffer.dtype.numpy)
        self._written = np.zeros(count, bool)

    def offset(self, points: _Points, where: tuple[Value, ...], count: int) -> tuple[Value, ...]:
        """See `_Elements`."""
        del points, count
        return where

    def read(
        self, points: _Points, where: tuple[Value, ...], count: int, *, moving: bool = False
    ) -> tuple[Value, np.ndarray | None]:
        """The value of each iteration."""
        del where, count, moving
        if not self._written[points.mask].all():
            raise _Irregular
        return self._values.copy(), None

    def write(self, points: _Points, value: Value) -> None:
        """Gives the active iterations a value."""
        self._values = np.where(points.mask, value, self._values).astype(self._values.dtype)
        self._written |= points.mask
