"""Statements of a thread-level program as closures over a warp.

Takes statements, gives `Code`: a function that runs at once, or one that makes a generator where a warp may have to
wait. Invariant: a statement is only run with at least one active lane; `break` and `continue` take lanes out of the
mask, and the loop that they belong to puts them back. Where a condition or a trip count is the same for all active
lanes, the mask is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import CompilerBug, DeviceAssertError, Note
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from tilelang.ir.scalar import convert, data_binary
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    If,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import expressions, jumps, walk_expr
from tilelang.isa.instruction import Instruction
from tilelang.isa.machine import LANES, Pointer, Wait
from tilelang.sim.lane_expressions import LaneCompiler, Slots, Value, per_lane, uniform_int
from tilelang.sim.machine import Block, ElementPointer, RegisterPointer, SimWarp
from tilelang.sim.printing import scalar_text, tile_text
from tilelang.target import Target

Run = Callable[[SimWarp], Any]
_PATIENCE = 1024  # iterations of a `while` after which other warps get their turn
_NO_LANES = np.zeros(LANES, bool)


@dataclass(frozen=True, slots=True)
class Code:
    """A statement ready to run.

    Attributes:
        run: Executes it for the active lanes; gives an iterator of waits if `waits`.
        waits: Whether a warp may have to wait in it.
        jumps: Whether lanes may leave the mask in it.
    """

    run: Run
    waits: bool = False
    jumps: bool = False


class StatementCompiler:
    """Closures for the statements of one program.

    Args:
        slots: Where warps keep variables and buffers.
        target: What the program is for.
        counting: Whether to count what is executed.
    """

    def __init__(self, slots: Slots, target: Target, *, counting: bool = False) -> None:
        self._slots = slots
        self._target, self._counting = target, counting
        self._lanes = LaneCompiler(slots)

    def compile(self, stmt: Stmt) -> Code:
        """The statement as code."""
        match stmt:
            case Seq(body=body):
                return self._seq([self.compile(part) for part in body])
            case For():
                return self._for(stmt)
            case While():
                return self._while(stmt)
            case If():
                return self._if(stmt)
            case Break():
                return Code(_break, jumps=True)
            case Continue():
                return Code(_continue, jumps=True)
            case CallStmt():
                return Code(self._call(stmt), waits=True)
        return Code(self._at(stmt, self._leaf(stmt)))

    def _leaf(self, stmt: Stmt) -> Run:
        match stmt:
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
        """The same, with its place known to whoever complains, and what it computes counted."""
        loc = stmt.loc
        tally = tuple(_operations(stmt).items()) if self._counting else ()

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

    # -- control flow ---------------------------------------------------------------------------------------
    def _seq(self, parts: list[Code]) -> Code:
        leaves = any(part.jumps for part in parts)
        runs = [(part.run, part.waits, part.jumps) for part in parts]
        if any(part.waits for part in parts):

            def generate(w: SimWarp) -> Iterator[Wait]:
                for run, waits, may_leave in runs:
                    if waits:
                        yield from run(w)
                    else:
                        run(w)
                    if may_leave and not w.mask.any():
                        return

            return Code(generate, waits=True, jumps=leaves)
        if not leaves:
            plain = [part.run for part in parts]

            def execute(w: SimWarp) -> None:
                for run in plain:
                    run(w)

            return Code(execute)

        def execute_some(w: SimWarp) -> None:
            for run, _, may_leave in runs:
                run(w)
                if may_leave and not w.mask.any():
                    return

        return Code(execute_some, jumps=True)

    def _if(self, stmt: If) -> Code:
        test = self._lanes.data(stmt.condition)
        then = self.compile(stmt.then_body)
        other = Code(lambda w: None) if stmt.else_body is None else self.compile(stmt.else_body)
        loc, leaves = stmt.loc, then.jumps or other.jumps
        if then.waits or other.waits:
            first, second = _generating(then), _generating(other)

            def generate(w: SimWarp) -> Iterator[Wait]:
                w.loc = loc
                ours, theirs = _split(test(w), w.mask)
                if theirs is None:
                    yield from first(w)
                elif ours is None:
                    yield from second(w)
                else:
                    w.set_mask(ours)
                    yield from first(w)
                    left = w.mask
                    w.set_mask(theirs)
                    yield from second(w)
                    w.set_mask(left | w.mask)

            return Code(generate, waits=True, jumps=leaves)

        def execute(w: SimWarp) -> None:
            w.loc = loc
            ours, theirs = _split(test(w), w.mask)
            if theirs is None:
                then.run(w)
            elif ours is None:
                other.run(w)
            else:
                w.set_mask(ours)
                then.run(w)
                left = w.mask
                w.set_mask(theirs)
                other.run(w)
                w.set_mask(left | w.mask)

        return Code(execute, jumps=leaves)

    def _for(self, stmt: For) -> Code:
        start, stop, step = self._lanes.index(stmt.start), self._lanes.index(stmt.stop), stmt.step
        slot = self._slots.var(stmt.var)
        body, loc = self.compile(stmt.body), stmt.loc
        leaves = jumps(stmt.body)
        shape: Callable[[int], Value] = (lambda v: v) if stmt.var.index else _wrap(stmt.var.dtype)

        def trips(w: SimWarp) -> Iterator[Value | None]:
            """Gives the variable's value of each iteration, with the mask set; None once the loop is over."""
            w.loc = loc
            first, end = uniform_int(start(w), w.mask), uniform_int(stop(w), w.mask)
            outer, outer_broken = w.mask, w.broken
            uniform = isinstance(first, int) and isinstance(end, int)
            if uniform and not leaves:
                for value in range(first, end, step):
                    yield shape(value)
                return
            w.broken = _NO_LANES
            counts = -((per_lane(first) - per_lane(end)) // step)
            for trip in range(max(0, int(counts[outer].max()))):
                alive = outer & ~w.broken & (counts > trip)
                if not alive.any():
                    break
                if not np.array_equal(alive, w.mask):
                    w.set_mask(alive)
                yield shape(first + trip * step)
            w.set_mask(outer)
            w.broken = outer_broken

        if body.waits:

            def generate(w: SimWarp) -> Iterator[Wait]:
                for value in trips(w):
                    w.env[slot] = value
                    yield from body.run(w)

            return Code(generate, waits=True)

        def execute(w: SimWarp) -> None:
            for value in trips(w):
                w.env[slot] = value
                body.run(w)

        return Code(execute)

    def _while(self, stmt: While) -> Code:
        test, body, loc = self._lanes.data(stmt.condition), _generating(self.compile(stmt.body)), stmt.loc

        def generate(w: SimWarp) -> Iterator[Wait]:
            outer, outer_broken = w.mask, w.broken
            w.broken = _NO_LANES
            alive, trips, version = outer, 0, w.block.version
            while True:
                w.loc = loc
                if alive is not w.mask:
                    w.set_mask(alive)
                ours, theirs = _split(test(w), alive)
                if ours is None:
                    break
                if theirs is not None:
                    alive = ours
                    w.set_mask(alive)
                yield from body(w)
                alive = alive & ~w.broken
                if not alive.any():
                    break
                trips += 1
                if trips % _PATIENCE == 0:  # it may wait for what others write
                    yield Wait("a change of memory", _changed_since(w.block, version))
                    version = w.block.version
            w.set_mask(outer)
            w.broken = outer_broken

        return Code(generate, waits=True)

    # -- memory ---------------------------------------------------------------------------------------------
    def _alloc(self, stmt: Alloc) -> Run:
        buffer = stmt.buffer
        slot, owner = self._slots.buffer(buffer), self._slots.buffer(buffer.storage)
        if buffer.scope not in (Scope.LOCAL, Scope.VAR):
            return lambda w: None  # shared memory is there from the beginning
        if stmt.init is None:
            return lambda w: w.allocate(slot, owner)
        init = self._lanes.data(stmt.init)

        def allocate(w: SimWarp) -> None:
            value = init(w)
            w.allocate(slot, owner)
            w.cell(slot).write(w, 0, value, buffer.dtype.lanes)

        return allocate

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
        result = None if stmt.result is None else self._slots.var(stmt.result)
        index = stmt.result is not None and stmt.result.index
        loads = not (op is AtomicOp.STORE or (op is AtomicOp.EXCHANGE and result is None))

        def update(w: SimWarp) -> None:
            operand = None if value is None else per_lane(convert(value(w), buffer.dtype))
            cell = w.cells[slot] or w.cell(slot)
            offset = per_lane(cell.offset(w, tuple([i(w) for i in where]), 1))

            def change(old: np.ndarray, lanes: np.ndarray) -> Value:
                return operand if op.operator is None else data_binary(op.operator, old, operand, buffer.dtype)

            old = cell.update(w, offset, change, stores=op is not AtomicOp.LOAD, loads=loads)
            if result is not None:
                w.env[result] = old.astype(np.int64) if index else old

        return update

    # -- instructions ---------------------------------------------------------------------------------------
    def _call(self, stmt: CallStmt) -> Run:
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
            value = simulate(w, *[argument(w) for argument in arguments])
            if isinstance(value, GeneratorType):
                value = yield from value
            if result is not None and var is not None:
                w.env[result] = _result(value, var)

        return generate

    def _argument(self, argument: Expr | Region) -> Callable[[SimWarp], Any]:
        if isinstance(argument, Const):
            constant = argument.value
            return lambda w: constant
        if isinstance(argument, Expr):
            evaluate = self._lanes.data(argument)
            return lambda w: per_lane(evaluate(w))
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
                return RegisterPointer(buffer, offset)
            return ElementPointer(buffer, per_lane(offset), indices)

        return point

    # -- talking --------------------------------------------------------------------------------------------
    def _assert(self, stmt: Assert) -> Run:
        test, message = self._lanes.data(stmt.condition), stmt.message or "assertion failed"

        def check(w: SimWarp) -> None:
            failed = ~np.broadcast_to(np.asarray(test(w), bool), (LANES,)) & w.mask
            if failed.any():
                thread = int(w.threads[np.flatnonzero(failed)[0]])
                raise DeviceAssertError(message, notes=(Note(f"in thread {thread} of block {w.block.index}"),))

        return check

    def _print(self, stmt: Print) -> Run:
        operand = stmt.operand
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
            first, size = [per_lane(i(w)) for i in start], [per_lane(i(w)) for i in extent]
            cell = w.cell(slot)
            for lane in np.flatnonzero(outer):
                w.set_mask(np.arange(LANES) == lane)
                shape = tuple(int(s[lane]) for s in size)
                values, known = np.zeros(shape, buffer.dtype.numpy), np.ones(shape, bool)
                for point in np.ndindex(*shape):
                    indices = tuple(int(f[lane]) + p for f, p in zip(first, point, strict=True))
                    value, defined = cell.read(w, cell.offset(w, indices, 1), moving=True)
                    values[point] = value if np.ndim(value) == 0 else value[lane]
                    known[point] = defined is None or bool(defined[lane])
                if shape:
                    text = tile_text(stmt.message, buffer.name, values, buffer.dtype, known)
                else:
                    text = scalar_text(stmt.message, stmt.source or buffer.name, values[()], buffer.dtype)
                w.report(text)
            w.set_mask(outer)

        return show


def _break(w: SimWarp) -> None:
    w.broken = w.broken | w.mask
    w.set_mask(_NO_LANES)


def _continue(w: SimWarp) -> None:
    w.set_mask(_NO_LANES)


def _changed_since(block: Block, version: int) -> Callable[[], bool]:
    return lambda: block.version != version


def _split(chosen: Value, mask: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The active lanes for which a condition holds, and the others; None in place of no lanes."""
    if np.ndim(chosen) == 0:
        return (mask, None) if chosen else (None, mask)
    ours, theirs = mask & chosen, mask & ~chosen
    return (ours if ours.any() else None), (theirs if theirs.any() else None)


def _generating(code: Code) -> Callable[[SimWarp], Iterator[Wait]]:
    """The code as a generator, whether or not it waits."""
    if code.waits:
        return code.run

    def generate(w: SimWarp) -> Iterator[Wait]:
        code.run(w)
        yield from ()

    return generate


def _wrap(dtype: DType) -> Callable[[Value], Value]:
    return lambda value: convert(value, dtype)


def _result(value: Any, var: Var) -> Value:
    array = np.asarray(value)
    if var.index:
        return array.astype(np.int64) if array.ndim else int(array)
    if var.dtype.lanes == 1 and array.ndim == 2:
        array = array[:, 0]
    return np.asarray(convert(array, var.dtype))[()]


def _operations(stmt: Stmt) -> dict[str, int]:
    """How many operations of each kind the expressions of a statement hold; those on constants are folded."""
    found: dict[str, int] = {}
    for root in expressions(stmt):
        for node in walk_expr(root):
            kind = _kind(node)
            if kind:
                found[kind] = found.get(kind, 0) + 1
    return found


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

