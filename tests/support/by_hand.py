"""Builders of programs for tests that write the IR directly."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, ExprLike, Load, Var, as_bool, as_expr, cast
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import (
    Alloc,
    Bind,
    CallStmt,
    For,
    ForKind,
    If,
    Launch,
    LaunchHints,
    ParallelLoop,
    Stmt,
    Store,
    While,
)
from tilelang.ir.verify import verify
from tilelang.isa.instruction import Instruction
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.target import Target


def exprs(values: Sequence[ExprLike]) -> tuple[Expr, ...]:
    return tuple(as_expr(value) for value in values)


class Program:
    """A `PrimFunc` in the making; the n-th statement of the program stands in line n of `kernel.py`."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.params: list[TensorParam | ScalarParam] = []
        self.symbols: list[Var] = []
        self.printed: list[str] = []
        self._line = 0

    def emit(self, stmt: Stmt) -> None:
        self._line += 1
        self.builder.loc = Loc("kernel.py", self._line)
        self.builder.emit(stmt)

    # -- names ------------------------------------------------------------------------------------------------
    def tensor(self, name: str, shape: Sequence[ExprLike], dtype: str = "float32", strides=None) -> Buffer:
        buffer = Buffer(name, exprs(shape), as_dtype(dtype), Scope.GLOBAL, strides and exprs(strides))
        self.params.append(TensorParam(buffer))
        return buffer

    def scalar(self, name: str, dtype: str, *, index: bool = False) -> Var:
        var = Var(name, as_dtype(dtype), index)
        self.params.append(ScalarParam(var))
        return var

    def symbol(self, name: str) -> Var:
        self.symbols.append(Var(name, INT32, index=True))
        return self.symbols[-1]

    def alloc(
        self, name: str, shape: Sequence[ExprLike], dtype: str = "float32", scope: Scope = Scope.SHARED, init=None
    ) -> Buffer:
        buffer = Buffer(name, exprs(shape), as_dtype(dtype), scope)
        self.emit(Alloc(buffer, None if init is None else cast(init, buffer.dtype)))
        return buffer

    def var(self, name: str, dtype: str = "float32", init=None) -> Buffer:
        return self.alloc(name, (), dtype, Scope.VAR, init)

    def view(self, of: Buffer, name: str, shape: Sequence[ExprLike], dtype: str) -> Buffer:
        buffer = Buffer(name, exprs(shape), as_dtype(dtype), of.scope, view_of=of)
        self.emit(Alloc(buffer))
        return buffer

    # -- statements -------------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, *indices: ExprLike) -> Expr:
        return Load(buffer, exprs(indices), buffer.dtype)

    def store(self, buffer: Buffer, indices: Sequence[ExprLike], value: ExprLike) -> None:
        self.emit(Store(buffer, exprs(indices), cast(value, buffer.dtype)))

    def bind(self, name: str, value: Expr, *, index: bool = False) -> Var:
        var = Var(name, value.dtype, index)
        self.emit(Bind(var, value))
        return var

    def region(self, buffer: Buffer, *box: tuple[ExprLike, ExprLike]) -> Region:
        if not box:
            return Region(buffer, exprs([0] * buffer.rank), buffer.shape)
        return Region(buffer, exprs([start for start, _ in box]), exprs([extent for _, extent in box]))

    @contextmanager
    def launch(self, *grid: ExprLike, hints: LaunchHints = LaunchHints()) -> Iterator[tuple[Var, ...]]:
        blocks = tuple(Var(f"b{'xyz'[axis]}", INT32, index=True) for axis in range(len(grid)))
        with self.builder.block() as body:
            yield blocks
        self.emit(Launch(blocks, exprs(grid), (128, 1, 1), as_body(body), hints))

    @contextmanager
    def serial(self, start: ExprLike, stop: ExprLike, step: int = 1, kind: ForKind = ForKind.SERIAL) -> Iterator[Var]:
        var = Var("i", INT32, index=True)
        with self.builder.block() as body:
            yield var
        self.emit(For(var, as_expr(start), as_expr(stop), step, kind, as_body(body)))

    @contextmanager
    def parallel(self, *extents: ExprLike) -> Iterator[tuple[Var, ...]]:
        loop = tuple(Var(f"p{axis}", INT32, index=True) for axis in range(len(extents)))
        with self.builder.block() as body:
            yield loop
        self.emit(ParallelLoop(loop, exprs(extents), as_body(body)))

    @contextmanager
    def loop(self, condition: Expr) -> Iterator[None]:
        with self.builder.block() as body:
            yield
        self.emit(While(as_bool(condition), as_body(body)))

    @contextmanager
    def branch(self, condition: Expr, otherwise: Stmt | None = None) -> Iterator[None]:
        with self.builder.block() as body:
            yield
        self.emit(If(as_bool(condition), as_body(body), otherwise))

    # -- running ----------------------------------------------------------------------------------------------
    def finish(self) -> PrimFunc:
        return PrimFunc("kernel", tuple(self.params), self.builder.finish(), symbols=tuple(self.symbols))

    def run(self, *arguments: np.ndarray | int | float, seed: int | None = None) -> None:
        run_reference(self.finish(), arguments, printer=self.printed.append, seed=seed)


class ThreadProgram(Program):
    """A thread-level `PrimFunc` in the making, for the simulator."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = Var("thread", INT32, index=True)

    @contextmanager
    def kernel(
        self,
        *grid: ExprLike,
        threads: int = 64,
        plan: LaunchPlan = LaunchPlan(),
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> Iterator[tuple[Var, ...]]:
        blocks = tuple(Var(f"b{'xyz'[axis]}", INT32, index=True) for axis in range(len(grid)))
        with self.builder.block() as body:
            yield blocks
        hints = LaunchHints(cluster=cluster)
        self.emit(Launch(blocks, exprs(grid), (threads, 1, 1), as_body(body), hints, self.thread, plan))

    def shared(self, name: str, shape: Sequence[ExprLike], dtype: str = "float32") -> Buffer:
        return self.alloc(name, shape, dtype, Scope.SHARED)

    def local(self, name: str, shape: Sequence[ExprLike], dtype: str = "float32") -> Buffer:
        return self.alloc(name, shape, dtype, Scope.LOCAL)

    def call(self, instruction: Instruction, *args: ExprLike | Region, result: Var | None = None) -> None:
        operands = tuple(a if isinstance(a, Region) else as_expr(a) for a in args)
        self.emit(CallStmt(instruction, operands, result=result))

    def call_on(
        self,
        instruction: Instruction,
        args: Sequence[ExprLike | Region],
        *,
        reads: Sequence[Region] = (),
        writes: Sequence[Region] = (),
    ) -> None:
        """A call that says what it touches."""
        operands = tuple(a if isinstance(a, Region) else as_expr(a) for a in args)
        self.emit(CallStmt(instruction, operands, tuple(reads), tuple(writes)))

    def at(self, buffer: Buffer, *start: ExprLike) -> Region:
        return Region(buffer, exprs(start), exprs([1] * buffer.rank))

    def sync(self) -> None:
        self.call(SYNC_THREADS)

    def finish(self) -> PrimFunc:
        return PrimFunc("kernel", tuple(self.params), self.builder.finish(), Level.THREAD, tuple(self.symbols))

    def simulate(
        self,
        *arguments: np.ndarray | int | float,
        arch: str = "sm_80",
        lazy: bool = True,
        seed: int = 0,
        held_back: int | None = None,
        report: Counters | None = None,
    ) -> None:
        func = self.finish()
        verify(func)
        simulate(
            func,
            arguments,
            target=Target("hip" if arch.startswith("gfx") else "cuda", arch),
            lazy=lazy,
            seed=seed,
            held_back=held_back,
            report=report,
            printer=self.printed.append,
        )
