"""Loops over a thread's own registers in the simulator: all independent iterations at once.

Takes a nest of loops, gives a function that executes it on arrays with one entry per lane and point of the nest.
Invariant: a nest that breaks a rule (an index out of bounds, a register that was not written, or one that asynchronous
work uses) changes nothing, and is left to the caller, who executes it iteration by iteration and words the error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tilelang.errors import CompilerBug
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Var
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import Bind, For, If, Seq, Stmt, Store
from tilelang.ir.visit import walk
from tilelang.sim.device_memory import row_major
from tilelang.sim.lane_expressions import Closure, LaneCompiler, Moved, Slots, Value
from tilelang.sim.local_memory import Columns, Registers
from tilelang.sim.register_nests import LARGEST, Nest, Place, nest_of
from tilelang.sim.warp import SimWarp

_MIN_POINTS = 4  # with fewer, executing them together is not faster


class RegisterLoops:
    """Compiles the loops of one program.

    Args:
        slots: The slots of variables and buffers in a warp.
        around: What compiles the expressions outside of nests.
        warp_size: How many lanes a warp has.
    """

    def __init__(self, slots: Slots, around: LaneCompiler, warp_size: int) -> None:
        self._slots, self._around, self._warp_size = slots, around, warp_size

    def compile(self, loop: For) -> Callable[[SimWarp], bool] | None:
        """A function that executes a nest, or says False and has done nothing; None where it is not worth it."""
        nest = nest_of(loop)
        if nest is None or nest.points < _MIN_POINTS or (places := nest.places()) is None:
            return None
        free = nest.independent(places)
        if free is None:
            return None
        order = nest.order(free)
        fold = _fold_of(nest.body, places) if len(order) > 1 else None
        if fold is None and order.shape[1] < _MIN_POINTS:
            return None
        rows = order if fold is None else order.T.reshape(1, -1)
        compiler = _PointCompiler(self._slots, self._around, self._warp_size, nest, places, rows)
        steps = compiler.steps(nest.body) if fold is None else (compiler.fold(*fold, order[0]),)
        frames = compiler.frames()

        def execute(warp: SimWarp) -> bool:
            undo: dict[Registers, Any] = {}
            try:
                for row, values in enumerate(frames):
                    points = _Points(warp, row, rows.shape[1], list(values), undo)
                    for step in steps:
                        step(points)
            except _Irregular:
                for registers, contents in undo.items():
                    registers.restore(contents)
                return False
            return True

        return execute


def _fold_of(body: Stmt, places: Mapping[Load | Store, Place]) -> tuple[Store, Load, Expr] | None:
    """Of a body that only adds to a register, or the like: the store, the load of the register, and what it adds."""
    stores = [stmt for stmt in walk(body) if not isinstance(stmt, Seq)]
    if len(stores) != 1 or not isinstance(store := stores[0], Store) or not isinstance(update := store.value, Binary):
        return None
    loads = [access for access in places if isinstance(access, Load) and access.buffer.storage is store.buffer.storage]
    if len(loads) != 1 or update.dtype != store.buffer.dtype:
        return None
    (load,) = loads
    same = [expr_key(i) for i in load.indices] == [expr_key(i) for i in store.indices]
    for operand, other in ((update.a, update.b), (update.b, update.a)):
        if operand is load and same and update.dtype == other.dtype == load.dtype:
            return store, load, other
    return None


class _Irregular(Exception):
    """A nest does what only the execution one by one can word an error for, or do at all."""


class _Points:
    """The points of a nest that are executed at once, as `LaneCompiler`'s closures see lanes: those of a lane in a row.

    Attributes:
        warp: Whose registers they are.
        row: Which of the rows of points is executed.
        env: See `Frame`.
        mask: Which points execute the statement at hand, of which lanes. Shape (lanes * points,).
        undo: The old contents of the registers that the nest has written.
    """

    def __init__(
        self, warp: SimWarp, row: int, count: int, env: list[Value], undo: dict[Registers, Any]
    ) -> None:
        self.warp, self.row, self.env = warp, row, env
        self._count, self.undo = count, undo
        self._whole = warp.lanes is None
        self.mask = np.repeat(warp.mask, count)

    def set_mask(self, mask: np.ndarray) -> None:
        """See `Frame`."""
        self.mask, self._whole = mask, bool(mask.all())

    def spread(self, value: Value) -> Value:
        """Values that lanes have, or share, for each of their points."""
        return np.repeat(value, self._count) if np.ndim(value) else value

    def spread_index(self, value: Value) -> Value:
        """The same of an exact integer."""
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise _Irregular
        return self.spread(value)

    # -- statements -----------------------------------------------------------------------------------------
    def branch(self, test: Value, yes: Iterable[Step], no: Iterable[Step]) -> None:
        """Executes one side for the points for which the condition holds, the other for the others."""
        outer = self.mask
        for chosen, steps in ((outer & test, yes), (outer & np.logical_not(test), no)):
            if chosen.any():
                self.set_mask(chosen)
                for step in steps:
                    step(self)
        self.set_mask(outer)

    def read(self, cell: Registers, columns: Columns, *, moving: bool) -> tuple[Value, np.ndarray | None]:
        """A register for each point."""
        if not cell.hazards.access_any(self.warp):
            raise _Irregular
        values, defined = cell.read_columns(columns)
        known = None if defined is None else defined.reshape(-1)
        if known is not None and not moving:
            if (self.mask & ~known).any():
                raise _Irregular
            known = None
        return values.reshape(-1), known

    def write(self, cell: Registers, columns: Columns, value: Value, defined: np.ndarray | None = None) -> None:
        """Stores into a register for each point."""
        if not cell.hazards.access_any(self.warp):
            raise _Irregular
        if cell not in self.undo:
            self.undo[cell] = cell.contents()
        shape = (self.warp.size, -1)
        values = np.asarray(value).reshape(shape) if np.ndim(value) else np.asarray(value)
        mask = None if self._whole else self.mask.reshape(shape)
        known = None if defined is None else np.broadcast_to(defined, self.mask.shape).reshape(shape)
        cell.write_columns(columns, values, mask=mask, defined=known)


Step = Callable[[_Points], None]
_Target = Callable[[_Points], tuple[Registers, Columns]]


class _PointCompiler(LaneCompiler):
    """Closures for the statements of one nest.

    Args:
        slots: The slots of variables and buffers in a warp.
        around: What compiles the expressions that are the same at every point.
        warp_size: How many lanes a warp has.
        nest: The nest.
        places: Where its accesses go.
        rows: The numbers of the points that are executed at once. Shape (rows, points).
    """

    def __init__(
        self,
        slots: Slots,
        around: LaneCompiler,
        warp_size: int,
        nest: Nest,
        places: Mapping[Load | Store, Place],
        rows: np.ndarray,
    ) -> None:
        super().__init__(Slots(), warp_size)
        self._outer_slots, self._around = slots, around
        self._nest, self._places, self._rows = nest, places, rows

    def frames(self) -> list[list[Value]]:
        """The values of the slots for each row of points; None for those that are not the nest's."""
        made: list[list[Value]] = []
        for row in self._rows:
            env: list[Value] = [None] * self._slots.variables
            for var, values in self._nest.values.items():
                if self._slots.has_slot(var):
                    own = np.tile(values[row], self._warp_size)
                    env[self._slots.var(var)] = own if var.index else convert(own, var.dtype)
            made.append(env)
        return made

    # -- expressions ----------------------------------------------------------------------------------------
    def index(self, expr: Expr) -> Closure:
        """The exact value of an integer expression: an int, or one for every point of every lane."""
        if isinstance(expr, Const) or not self._nest.is_around(expr):
            return super().index(expr)
        outer = self._around.index(expr)
        return lambda points: points.spread_index(outer(points.warp))  # type: ignore[attr-defined]

    def data(self, expr: Expr) -> Closure:
        """The value of an expression in its dtype."""
        if isinstance(expr, Const) or not self._nest.is_around(expr):
            return super().data(expr)
        outer = self._around.data(expr)
        return lambda points: points.spread(outer(points.warp))  # type: ignore[attr-defined]

    def _load(self, expr: Load, moving: bool) -> Moved:
        target = self._target(expr)
        return lambda points: points.read(*target(points), moving=moving)  # type: ignore[attr-defined,arg-type]

    # -- statements -----------------------------------------------------------------------------------------
    def steps(self, body: Stmt) -> tuple[Step, ...]:
        """The statements, each for all points at once."""
        match body:
            case Seq(body=parts):
                return tuple([step for part in parts for step in self.steps(part)])
            case Bind(var=var, value=value):
                slot, evaluate = self._slots.var(var), self.bound(var, value)
                return (lambda points: points.env.__setitem__(slot, evaluate(points)),)
            case If(condition=condition, then_body=yes, else_body=no):
                test, branches = self.data(condition), (self.steps(yes), self.steps(no) if no is not None else ())
                return (lambda points: points.branch(test(points), *branches),)
            case Store():
                return (self._store(body),)
        raise CompilerBug(f"nests of registers cannot execute {type(body).__name__}")

    def _store(self, stmt: Store) -> Step:
        target, moved, value = self._target(stmt), self.moved(stmt.value), self.data(stmt.value)
        if moved is not None:
            return lambda points: points.write(*target(points), *moved(points))  # type: ignore[arg-type]
        return lambda points: points.write(*target(points), value(points))  # type: ignore[arg-type]

    def fold(self, store: Store, load: Load, operand: Expr, first: np.ndarray) -> Step:
        """A loop that folds operands into registers, one register per point in `first`: the operands come at once."""
        update = store.value
        assert isinstance(update, Binary)
        total, each = Var("total", load.dtype), Var("each", load.dtype)
        self._nest.bound |= {total, each}
        a, b = (total, each) if update.a is load else (each, total)
        combine, operands = self.data(dataclasses.replace(update, a=a, b=b)), self.data(operand)
        slots = self._slots.var(total), self._slots.var(each)
        target, count = self._target(store, first[None]), len(first)

        def execute(points: _Points) -> None:
            values = np.broadcast_to(operands(points), points.mask.shape)  # type: ignore[arg-type]
            registers = _Points(points.warp, 0, count, points.env, points.undo)
            where = target(registers)
            result, _ = registers.read(*where, moving=False)
            for operand in np.moveaxis(values.reshape(points.warp.size, count, -1), 2, 0):
                points.env[slots[0]], points.env[slots[1]] = result, operand.reshape(-1)
                result = combine(registers)  # type: ignore[arg-type]
            registers.write(*where, result)

        return execute

    def _target(self, access: Load | Store, rows: np.ndarray | None = None) -> _Target:
        """Finds the registers of an access."""
        buffer, place = access.buffer, self._places[access]
        slot, offsets = self._outer_slots.buffer(buffer), self._nest.offsets(buffer, place)
        tables = [_columns(offsets[row]) for row in (self._rows if rows is None else rows)]
        shape = buffer.static_shape
        assert shape is not None
        strides = row_major(shape)
        bounds = [(-int(at.min()), extent - int(at.max())) for at, extent in zip(place.at, shape, strict=True)]
        terms = [[(-1 if minus else 1, self._around.index(term)) for minus, term in part] for part in place.around]

        def find(points: _Points) -> tuple[Registers, Columns]:
            cell = points.warp.cells[slot] or points.warp.cell(slot)
            assert isinstance(cell, Registers)
            shift = 0
            for (low, high), stride, part in zip(bounds, strides, terms, strict=True):
                more = 0
                for sign, term in part:
                    more += sign * term(points.warp)
                if not isinstance(more, int) or not low <= more < high:
                    raise _Irregular
                shift += more * stride
            return cell, _shifted(tables[points.row], shift)

        return find


def _columns(offsets: np.ndarray) -> Columns:
    """The registers at some offsets, as a slice where they are equally far apart."""
    first, step = int(offsets[0]), int(offsets[1] - offsets[0]) if len(offsets) > 1 else 1
    if step > 0 and (np.diff(offsets) == step).all():
        return slice(first, int(offsets[-1]) + 1, step)
    return offsets


def _shifted(columns: Columns, by: int) -> Columns:
    if by == 0:
        return columns
    if isinstance(columns, slice):
        return slice(columns.start + by, columns.stop + by, columns.step)
    return columns + by
