"""Statements with an effect as closures over a warp: memory, atomics, instructions, assertions, prints.

Takes statements, gives functions that run one for the active lanes; that of an instruction makes a generator, since the
warp may have to wait in it. Invariant: a statement sets the warp's location before it does anything, so that errors
have the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

import numpy as np

from tilelang.arith.exact import exactly
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, DeviceAssertError, Note, SimulationError, TileLangError
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from tilelang.ir.scalar import convert, data_binary
from tilelang.ir.stmt import Alloc, Assert, Atomic, AtomicOp, Bind, CallStmt, Print, Stmt, Store
from tilelang.ir.visit import expressions, walk_expr
from tilelang.isa.instruction import Instruction
from tilelang.isa.simulated import Pointer, Wait
from tilelang.sim.device_memory import Window
from tilelang.sim.lane_expressions import LaneCompiler, Slots, Value, per_lane, uniform_int
from tilelang.sim.pointers import ElementPointer, RegisterPointer
from tilelang.sim.printing import false_assumption, scalar_text, tile_text
from tilelang.sim.release_acquire import atomic_access
from tilelang.sim.warp import SimWarp
from tilelang.targets.target import Target

Run = Callable[[SimWarp], Any]


class EffectCompiler:
    """Closures for the statements of one program that hold no other statements.

    Args:
        slots: The slots of variables and buffers in a warp.
        expressions: What compiles the expressions.
        target: What the program is for.
        counting: Whether to count what is executed.
    """

    def __init__(self, slots: Slots, expressions: LaneCompiler, target: Target, *, counting: bool) -> None:
        self._slots, self._lanes = slots, expressions
        self._target, self._counting = target, counting

    def compile(self, stmt: Stmt) -> Run:
        """The statement as a function that runs at once."""
        return self._at(stmt, self._leaf(stmt))

    def _leaf(self, stmt: Stmt) -> Run:
        match stmt:
            case Assume():
                return self._assume(stmt)
            case Bind(var=var, value=value):
                slot, evaluate = self._slots.var(var), self._lanes.bound(var, value)
                return lambda w: w.env.__setitem__(slot, evaluate(w))
            case Alloc():
                return self._alloc(stmt)
            case Store():
                return self._store(stmt)
            case Atomic():
                return self._atomic(stmt)
            case Assert():
                return self._assert(stmt)
            case Print():
                return self._print(stmt)
        raise CompilerBug(f"the simulator cannot run {type(stmt).__name__}")

    def _at(self, stmt: Stmt, run: Run) -> Run:
        """Sets the warp's location before `run`, and counts operations."""
        loc = stmt.loc
        tally = tuple(_operations(stmt).items()) if self._counting and not isinstance(stmt, Assume) else ()

        def execute(w: SimWarp) -> None:
            w.loc = loc
            run(w)

        def count(w: SimWarp) -> None:
            w.loc = loc
            if w.counters is not None:
                for kind, times in tally:
                    w.counters.count(kind, times)
            run(w)

        return count if tally else execute

    # -- memory ---------------------------------------------------------------------------------------------
    def _alloc(self, stmt: Alloc) -> Run:
        buffer = stmt.buffer
        if buffer.storage.address is not None:
            return self._declare(buffer)
        slot, owner = self._slots.buffer(buffer), self._slots.buffer(buffer.storage)
        if buffer.scope not in (Scope.LOCAL, Scope.VAR):
            return lambda w: None  # shared memory is there from the beginning
        if stmt.init is None:
            return lambda w: w.allocate(slot, owner)
        store = self._store(Store(buffer, (), stmt.init, loc=stmt.loc))

        def allocate(w: SimWarp) -> None:
            w.allocate(slot, owner)
            store(w)

        return allocate

    def _declare(self, buffer: Buffer) -> Run:
        """The declaration of a tensor at an address, or of another name for one."""
        slots, slot = self._slots, self._slots.buffer(buffer)
        owner = None if buffer.view_of is None else slots.buffer(buffer.view_of)
        shape = [self._lanes.index(extent) for extent in buffer.shape]
        strides = None if buffer.strides is None else [self._lanes.index(stride) for stride in buffer.strides]
        address = self._lanes.index(Const(0, INT32) if buffer.address is None else buffer.address)

        def number(w: SimWarp, closure: Callable[[SimWarp], Value]) -> int:
            value = uniform_int(closure(w), w.mask)
            if not isinstance(value, int):
                raise SimulationError(
                    f"'{buffer.name}' lies elsewhere, or has another shape, for other threads of a warp",
                    hint="the simulator supports tensors whose address and shape are uniform in a warp",
                )
            return value

        def place(w: SimWarp) -> None:
            extents = tuple(number(w, extent) for extent in shape)
            if owner is not None:
                base = w.cell(owner)
                assert isinstance(base, Window)
                w.cells[slot] = Window(buffer, base.storage, base.begin, extents, mark=base.mark)
                return
            steps = None if strides is None else tuple(number(w, stride) for stride in strides)
            assert slots.place is not None
            w.cells[slot] = slots.place(buffer, number(w, address), extents, steps)
            w.moves = True

        return place

    def _store(self, stmt: Store) -> Run:
        slot, count = self._slots.buffer(stmt.buffer), stmt.value.dtype.lanes
        where = [self._lanes.index(i) for i in stmt.indices]
        moved = self._lanes.moved(stmt.value)
        value = self._lanes.data(stmt.value)

        def store(w: SimWarp) -> None:
            result = value(w)
            cell = w.cells[slot] or w.cell(slot)
            cell.write(w, cell.offset(w, tuple([i(w) for i in where]), count), result, count)

        def move(w: SimWarp) -> None:
            result, defined = moved(w)  # type: ignore[misc]
            cell = w.cells[slot] or w.cell(slot)
            cell.write(w, cell.offset(w, tuple([i(w) for i in where]), count), result, count, defined=defined)

        return store if moved is None else move

    def _atomic(self, stmt: Atomic) -> Run:
        buffer, op = stmt.buffer, stmt.op
        slot = self._slots.buffer(buffer)
        where = [self._lanes.index(i) for i in stmt.indices]
        value = None if stmt.value is None else self._lanes.data(stmt.value)
        compare = None if stmt.compare is None else self._lanes.data(stmt.compare)
        result = None if stmt.result is None else self._slots.var(stmt.result)
        index = stmt.result is not None and stmt.result.index
        ordering = atomic_access(stmt) if buffer.scope is Scope.GLOBAL else None
        count = 1 if stmt.value is None else stmt.value.dtype.lanes // buffer.dtype.lanes
        loads = not (op is AtomicOp.STORE or (op is AtomicOp.EXCHANGE and result is None))

        def update(w: SimWarp) -> None:
            operands = [None] if value is None else _neighbors(convert(value(w), buffer.dtype), count, w.size)
            expected = None if compare is None else per_lane(convert(compare(w), buffer.dtype), w.size)
            cell = w.cells[slot] or w.cell(slot)
            first = per_lane(cell.offset(w, tuple([i(w) for i in where]), count), w.size)
            for number, operand in enumerate(operands):

                def change(old: np.ndarray, lanes: np.ndarray, operand: Any = operand) -> Value:
                    if expected is not None and operand is not None:
                        return np.where(_same_bits(old, expected), operand, old)
                    return operand if op.operator is None else data_binary(op.operator, old, operand, buffer.dtype)

                old = cell.update(w, first + number, change, stores=op is not AtomicOp.LOAD, loads=loads)
                if ordering is not None and isinstance(cell, Window):
                    cell.atomic_access(w, first + number, ordering)
                if result is not None:
                    w.env[result] = old.astype(np.int64) if index else old

        return update

    # -- instructions ---------------------------------------------------------------------------------------
    def call(self, stmt: CallStmt) -> Run:
        """The call of an instruction as a function that makes an iterator of waits."""
        routine, loc = stmt.routine, stmt.loc
        if not isinstance(routine, Instruction):
            raise CompilerBug(f"{routine.name}: has no meaning for the simulator", loc=loc)
        if not self._target.has(routine.needs):
            raise CompilerBug(f"{routine.name}: {self._target} cannot do that", loc=loc)
        arguments = [self._argument(argument) for argument in stmt.args]
        result = None if stmt.result is None else self._slots.var(stmt.result)
        var, name, simulate = stmt.result, routine.name, routine.simulate

        def generate(w: SimWarp) -> Iterator[Wait]:
            w.loc = loc
            if w.counters is not None:
                w.counters.count(name)
            try:
                value = simulate(w, *[argument(w) for argument in arguments])
                if isinstance(value, GeneratorType):
                    value = yield from value
            except SimulationError as error:
                _name_call(error, stmt.written)
                raise
            if result is not None and var is not None:
                w.env[result] = _result(value, var)

        return generate

    def _argument(self, argument: Expr | Region) -> Callable[[SimWarp], Any]:
        if isinstance(argument, Const):
            constant = argument.value
            return lambda w: constant
        view = self._slots.views.get(argument) if isinstance(argument, Expr) else None
        if view is not None:
            return lambda w: view
        if isinstance(argument, Expr):
            evaluate = self._lanes.data(argument)
            return lambda w: per_lane(evaluate(w), w.size)
        buffer = argument.buffer
        slot = self._slots.buffer(buffer)
        where = [self._lanes.index(i) for i in argument.start]

        registers = buffer.scope in (Scope.LOCAL, Scope.VAR)

        def point(w: SimWarp) -> Pointer:
            cell = w.cells[slot] or w.cell(slot)
            indices = tuple([i(w) for i in where])
            offset: Value = 0
            for index, stride in zip(indices, cell.strides, strict=True):
                offset = offset + index * (stride // cell.per_element)
            if registers and isinstance(offset, int):
                return RegisterPointer(buffer, offset, w.size)
            return ElementPointer(buffer, per_lane(offset, w.size), indices)

        return point

    # -- assertions and prints -------------------------------------------------------------------------------
    def _assert(self, stmt: Assert) -> Run:
        message = stmt.message or "assertion failed"
        return self._holds(stmt.condition, lambda note: DeviceAssertError(message, notes=(note,)))

    def _assume(self, stmt: Assume) -> Run:
        return self._holds(exactly(stmt.value), lambda note: false_assumption(stmt.value, note))

    def _holds(self, condition: Expr, failure: Callable[[Note], TileLangError]) -> Run:
        test = self._lanes.data(condition)

        def check(w: SimWarp) -> None:
            failed = ~np.broadcast_to(np.asarray(test(w), bool), w.mask.shape) & w.mask
            if failed.any():
                thread = int(w.threads[np.flatnonzero(failed)[0]])
                raise failure(Note(f"in thread {thread} of block {w.block.index}"))

        return check

    def _print(self, stmt: Print) -> Run:
        operand = stmt.operand
        if operand is None:

            def report(w: SimWarp) -> None:
                for _ in np.flatnonzero(w.mask):
                    w.report(stmt.message)

            return report
        if isinstance(operand, Expr):
            evaluate, dtype = self._lanes.data(operand), operand.dtype

            def show(w: SimWarp) -> None:
                value = evaluate(w)
                for lane in np.flatnonzero(w.mask):
                    one = value if np.ndim(value) == 0 else value[lane]
                    w.report(scalar_text(stmt.message, stmt.source, one, dtype))

            return show
        return self._print_region(stmt, operand)

    def _print_region(self, stmt: Print, region: Region) -> Run:
        buffer = region.buffer
        slot = self._slots.buffer(buffer)
        start = [self._lanes.index(i) for i in region.start]
        extent = [self._lanes.index(i) for i in region.extent]

        def show(w: SimWarp) -> None:
            outer = w.mask
            first, size = ([per_lane(i(w), w.size) for i in each] for each in (start, extent))
            cell = w.cell(slot)
            for lane in np.flatnonzero(outer):
                w.set_mask(w.lane == lane)
                shape = tuple(int(s[lane]) for s in size)
                values, is_defined = np.zeros(shape, buffer.dtype.numpy), np.ones(shape, bool)
                for point in np.ndindex(*shape):
                    indices = tuple(int(f[lane]) + p for f, p in zip(first, point, strict=True))
                    value, defined = cell.read(w, cell.offset(w, indices, 1), moving=True)
                    values[point] = value if np.ndim(value) == 0 else value[lane]
                    is_defined[point] = defined is None or bool(defined[lane])
                if shape:
                    text = tile_text(stmt.message, buffer.name, values, buffer.dtype, is_defined)
                else:
                    text = scalar_text(stmt.message, stmt.source or buffer.name, values[()], buffer.dtype)
                w.report(text)
            w.set_mask(outer)

        return show


def _name_call(error: SimulationError, written: str) -> None:
    """Names what the user called in place of the instruction with which a message begins."""
    instruction, colon, rest = error.message.partition(": ")
    if written and colon and instruction.replace("_", "").replace(".", "").isalnum():
        error.message = f"{written}: {rest}"


def _result(value: Any, var: Var) -> Value:
    array = np.asarray(value)
    if var.index:
        return array.astype(np.int64) if array.ndim else int(array)
    if var.dtype.lanes == 1 and array.ndim == 2:
        array = array[:, 0]
    return np.asarray(convert(array, var.dtype))[()]


def _operations(stmt: Stmt) -> dict[str, int]:
    """Count the operations of each kind in a statement's expressions; those on constants are folded."""
    found: dict[str, int] = {}
    for root in expressions(stmt):
        for node in walk_expr(root):
            kind = _kind(node)
            if kind:
                found[kind] = found.get(kind, 0) + 1
    return found


def _same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where the elements of two arrays have the same bytes. Shapes: (n,) -> (n,)."""
    first, second = (np.ascontiguousarray(array).reshape(array.size, 1).view(np.uint8) for array in (a, b))
    return np.asarray((first == second).all(axis=1))


def _kind(node: Expr) -> str:
    match node:
        case Binary() | Unary():
            operand = node.a.dtype
            return "float op" if operand.is_float else "integer op"
        case Select():
            return "select"
        case Cast(a=a, dtype=dtype) if a.dtype != dtype and not node.is_index:
            return "convert"
        case Call(callee=callee):
            return callee.name
    return ""


def _neighbors(value: Any, count: int, lanes: int) -> list[np.ndarray]:
    """The values of `count` consecutive elements, per lane: the elements of a vector, or a scalar."""
    if count == 1:
        return [per_lane(value, lanes)]
    vectors = np.broadcast_to(np.asarray(value), (lanes, count))
    return [vectors[:, column] for column in range(count)]
