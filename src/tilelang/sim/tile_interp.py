"""The reference interpreter: the meaning of the language, run over NumPy.

Takes a function and its arguments, runs its launches in order and the blocks of each one after another, statement by
statement, operators by their `reference`. Invariant: this is what every target is compared with; it has no
threads, layouts or pipelines, and reports what the language forbids: reading undefined memory, leaving an on-chip
buffer, two blocks that touch one element.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tilelang.arith.exact import exactly
from tilelang.call_stack import reserve_frames
from tilelang.errors import CompilerBug, DeviceAssertError, NoLowering, SimulationError
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import PrimFunc
from tilelang.ir.scalar import Value, convert, data_binary
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
    Launch,
    MemoryOrder,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.isa.instruction import Effect, Instruction
from tilelang.passes.tile.apply_tensor_layouts import apply_tensor_layouts
from tilelang.passes.tile.grow_fragments import grow_fragments
from tilelang.sim import violations
from tilelang.sim.arguments import bind_arguments
from tilelang.sim.expressions import Evaluator
from tilelang.sim.memory import Box, Cells, Memory
from tilelang.sim.parallel_loops import ParallelLoops
from tilelang.sim.printing import false_assumption, scalar_text, tile_text
from tilelang.sim.races import RaceDetector
from tilelang.sim.release_acquire import AtomicAccess, atomic_access
from tilelang.targets.registry import families


@reserve_frames
def run_reference(
    func: PrimFunc,
    arguments: Sequence[np.ndarray | int | float],
    *,
    printer: Callable[[str], object] = print,
    seed: int | None = None,
) -> None:
    """Runs a function on arrays; outputs are written in place.

    Args:
        func: The function, at tile or thread level.
        arguments: One per parameter, in order: arrays for tensors, numbers for scalars.
        printer: Receives the text of every `T.print`.
        seed: Shuffles the order of the blocks; None runs them in ascending order.

    Raises:
        ArgumentError: An argument does not fit its parameter; nothing was run.
        SimulationError: The kernel broke a rule that only shows when it runs.
        DeviceAssertError: An assertion of the kernel failed.
    """
    with func.loc, np.errstate(all="ignore"):
        Interpreter(printer, seed).run(apply_tensor_layouts(grow_fragments(func)), arguments)


class _Jump(enum.Enum):
    """Why a statement ended before its end."""

    BREAK = enum.auto()
    CONTINUE = enum.auto()


class Interpreter:
    """One run of one function; to operators it is the `TileMemory`."""

    def __init__(self, printer: Callable[[str], object], seed: int | None) -> None:
        self._printer = printer
        self._order = None if seed is None else np.random.default_rng(seed)
        self._evaluator = Evaluator(lambda buffer, where: self._memory.cells(buffer).load(where))
        self._memory = Memory(self._evaluator.indices)
        self._parallel_loops = ParallelLoops(self._evaluator, self._memory)
        self._races: RaceDetector | None = None
        self._handlers: dict[type[Stmt], Callable[..., _Jump | None]] = {
            Seq: self._seq,
            Bind: self._bind,
            Assume: self._assume,
            Alloc: self._alloc,
            Store: self._store,
            For: self._for,
            ParallelLoop: self._parallel,
            While: self._while,
            If: self._if,
            Break: lambda stmt: _Jump.BREAK,
            Continue: lambda stmt: _Jump.CONTINUE,
            Atomic: self._atomic,
            Assert: self._assert,
            Print: self._print,
            CallStmt: self._call,
            Launch: self._launch,
        }

    def run(self, func: PrimFunc, arguments: Sequence[np.ndarray | int | float]) -> None:
        """Binds the arguments and executes the body."""
        bind_arguments(func, arguments, self._evaluator, self._memory)
        self._execute(func.body)

    # -- statements ----------------------------------------------------------------------------------------
    def _execute(self, stmt: Stmt) -> _Jump | None:
        with stmt.loc:
            if self._races is not None:
                self._races.loc = stmt.loc
            handler = self._handlers.get(type(stmt))
            if handler is not None:
                return handler(stmt)
            if isinstance(stmt, TileOp):
                stmt.reference(self)
                return None
            raise CompilerBug(f"the reference interpreter cannot run {type(stmt).__name__}")

    def _seq(self, stmt: Seq) -> _Jump | None:
        for part in stmt.body:
            jump = self._execute(part)
            if jump is not None:
                return jump
        return None

    def _bind(self, stmt: Bind) -> None:
        evaluate = self._evaluator.index if stmt.var.index else self._evaluator.data
        self._evaluator.env[stmt.var] = evaluate(stmt.value)

    def _assume(self, stmt: Assume) -> None:
        if not self._evaluator.data(exactly(stmt.value)):
            raise false_assumption(stmt.value)

    def _alloc(self, stmt: Alloc) -> None:
        buffer = stmt.buffer
        if buffer.view_of is not None or buffer.scope is Scope.BARRIER:
            return  # names older bytes; holds no data
        if buffer.address is not None:
            self._memory.place(buffer, self._evaluator.index(buffer.address))
            return
        self._memory.allocate(buffer)
        if stmt.init is not None:
            self._memory.cells(buffer).store((), convert(self._evaluator.data(stmt.init), buffer.dtype))

    def _store(self, stmt: Store) -> None:
        value = self._evaluator.data(stmt.value)
        self._memory.cells(stmt.buffer).store(self._evaluator.indices(stmt.indices), value)

    def _for(self, stmt: For) -> None:
        trips = range(self._evaluator.index(stmt.start), self._evaluator.index(stmt.stop), stmt.step)
        for value in trips:
            self._evaluator.assign(stmt.var, value)
            if self._execute(stmt.body) is _Jump.BREAK:
                return

    def _parallel(self, stmt: ParallelLoop) -> None:
        extents = self._evaluator.indices(stmt.extents)
        if self._parallel_loops.run(stmt, extents, self._races):
            return
        for point in itertools.product(*map(range, extents)):
            for var, value in zip(stmt.vars, point, strict=True):
                self._evaluator.assign(var, value)
            if self._execute(stmt.body) is _Jump.BREAK:
                return

    def _while(self, stmt: While) -> None:
        trips = 0
        while self._evaluator.data(stmt.condition):
            if trips == violations.MAX_ITERATIONS:
                raise violations.endless()
            trips += 1
            if self._execute(stmt.body) is _Jump.BREAK:
                return
            if self._races is not None:
                self._races.loc = stmt.loc

    def _if(self, stmt: If) -> _Jump | None:
        if self._evaluator.data(stmt.condition):
            return self._execute(stmt.then_body)
        return None if stmt.else_body is None else self._execute(stmt.else_body)

    def _atomic(self, stmt: Atomic) -> None:
        buffer, op = stmt.buffer, stmt.op
        where = self._evaluator.indices(stmt.indices)
        operand = None if stmt.value is None else convert(self._evaluator.data(stmt.value), buffer.dtype)
        cells = self._memory.cells(buffer)
        if op is AtomicOp.STORE or (op is AtomicOp.EXCHANGE and stmt.result is None):
            cells.store(where, operand, atomic=True)
            cells.atomic_access(where, atomic_access(stmt))
            return

        expected = None if stmt.compare is None else convert(self._evaluator.data(stmt.compare), buffer.dtype)

        def change(old: Value) -> Value:
            if expected is not None and np.asarray(old).tobytes() != np.asarray(expected).tobytes():
                return None  # nothing is stored
            if op.operator is None:
                return None if op is AtomicOp.LOAD else operand
            return data_binary(op.operator, old, operand, buffer.dtype)

        old = cells.exchange(where, change)
        cells.atomic_access(where, atomic_access(stmt))
        if stmt.result is not None:
            self._evaluator.env[stmt.result] = int(old) if stmt.result.index else old

    def _assert(self, stmt: Assert) -> None:
        if not self._evaluator.data(stmt.condition):
            raise DeviceAssertError(stmt.message or "assertion failed")

    def _print(self, stmt: Print) -> None:
        operand = stmt.operand
        if operand is None:
            text = stmt.message
        elif isinstance(operand, Expr):
            text = scalar_text(stmt.message, stmt.source, self._evaluator.data(operand), operand.dtype)
        elif operand.buffer.rank == 0:
            value = self._memory.cells(operand.buffer).load(())
            text = scalar_text(stmt.message, stmt.source or operand.buffer.name, value, operand.dtype)
        else:
            cells, box = self._box(operand)
            values, defined = cells.fetch(box)
            text = tile_text(stmt.message, operand.buffer.name, values, operand.dtype, defined)
        self._printer(text)

    def _call(self, stmt: CallStmt) -> None:
        """Do nothing: an operator that only orders work of threads has no meaning in a sequential program."""
        effect = stmt.routine.effect if isinstance(stmt.routine, Instruction) else Effect.NONE
        if not effect or Effect.SYNC_GRID in effect or stmt.reads or stmt.writes or stmt.result is not None:
            raise _refusal(stmt.name)

    def _launch(self, stmt: Launch) -> None:
        if stmt.thread is not None:
            _refuse_threads(stmt.body, stmt.thread)
        grid = self._evaluator.indices(stmt.grid)
        blocks = [point[::-1] for point in itertools.product(*map(range, grid[::-1]))]  # the first index runs fastest
        if self._order is not None:
            self._order.shuffle(blocks)
        safe = {buffer: convert(self._evaluator.data(value), buffer.dtype) for buffer, value in stmt.hints.safe_values}
        races = self._races = RaceDetector(stmt) if len(blocks) > 1 else None
        self._memory.begin_launch(races, safe)
        try:
            for block in blocks:
                if races is not None:
                    races.enter(block)
                for var, value in zip(stmt.block_vars, block, strict=True):
                    self._evaluator.assign(var, value)
                self._execute(stmt.body)
        finally:
            self._races = None
        self._memory.begin_launch(None, {})

    # -- memory, as operators see it -------------------------------------------------------------------------
    def read(self, region: Region) -> np.ndarray:
        """A copy of the region; elements out of bounds of a global buffer read as its safe value."""
        cells, box = self._box(region)
        return cells.read(box)

    def write(self, region: Region, values: np.ndarray) -> None:
        """Stores one value everywhere, or as many as the region has elements, in its dtype and in row-major order.

        What is out of bounds of a global buffer is dropped.
        """
        cells, box = self._box(region)
        cells.write(box, values)

    def move(self, src: Region, dst: Region, *, order: Sequence[int] = ()) -> None:
        """Converts and stores `src`, its dimensions in an order, in `dst` row-major; what is undefined stays so."""
        cells, box = self._box(src)
        values, defined = cells.fetch(box)
        target, target_box = self._box(dst)
        shape = target_box.extent + target.data.shape[dst.buffer.rank :]
        if values.size != np.prod(shape, dtype=int):
            raise SimulationError(
                f"'{src.buffer.name}' has extents {box.extent} but '{dst.buffer.name}' has {target_box.extent}",
                hint="slice the larger side so that both agree for these dimensions",
            )
        if order:
            values = values.transpose(*order, *range(len(order), values.ndim))
            defined = defined.transpose(*order, *range(len(order), defined.ndim))
        converted = np.asarray(convert(values, dst.dtype))
        target.write(target_box, converted, defined)

    def update(
        self, region: Region, change: Callable[[np.ndarray], np.ndarray], order: MemoryOrder = MemoryOrder.RELAXED
    ) -> None:
        """Replaces the region by `change` of its values, atomically as seen from other blocks."""
        cells, box = self._box(region)
        cells.write(box, change(cells.read(box, atomic=True)), atomic=True)
        if self._races is not None and self._races.release_acquire is not None and order is not MemoryOrder.RELAXED:
            access = AtomicAccess(loads=True, stores=True, acquires=order.acquires, releases=order.releases)
            cells.atomic_access_all(box, access)

    def value(self, expr: Expr) -> Value:
        """A scalar operand's value, as a NumPy scalar of its dtype."""
        return self._evaluator.data(expr)

    def _box(self, region: Region) -> tuple[Cells, Box]:
        cells = self._memory.cells(region.buffer)
        extent = tuple(max(0, size) for size in self._evaluator.indices(region.extent))  # as in range
        return cells, cells.box(self._evaluator.indices(region.start), extent)


def _refuse_threads(body: Stmt, thread: Var) -> None:
    """Refuses the program of a block that uses single threads."""
    for stmt in walk(body):
        if any(e is thread for root in expressions(stmt) for e in walk_expr(root)):
            with stmt.loc:
                raise _refusal("the thread index")


def _refusal(what: str) -> NoLowering:
    return NoLowering(
        f"{what}: is for single GPU threads, and the reference interpreter runs a block as one program",
        hint=f"run it with execution_backend='simulator' and target={_gpu()}",
    )


def _gpu() -> dict[str, str]:
    """A target with threads."""
    return next(family.example for family in families().values() if family.is_gpu)
