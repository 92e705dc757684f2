"""Distributes the 1-D slices of a reduction or scan by a combine function over warps or threads.

A slice whose elements are contiguous in memory is processed by a warp, any other by one thread. All operands are in
memory that every thread of the block can access. Invariant: slices are independent of each other; all lanes of a warp
execute the code of its slice together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.dtypes import INT32, SCALARS, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr, cast, const, int_const
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Store
from tilelang.lowering.loops import expand_combine
from tilelang.lowering.lowering import LoweringContext, PlainLowering
from tilelang.lowering.regions import ZERO, axes, indices, load, matching_axes
from tilelang.ops.combine import CombineOp
from tilelang.targets.gpu.isa.warp import shuffle

At = tuple[Expr, ...]


class CombineLowering(PlainLowering):
    """Base of the lowerings of `CombineReduce` and `Scan`."""

    name = ""

    def expand(self, op: CombineOp, build: Builder) -> None:
        """Moves operands in registers to shared memory, where all threads reach them."""
        expand_combine(op, build)


class SliceLoops:
    """Emits the loops over the slices of one operator, and the code of the executing thread.

    Args:
        op: The operator.
        context: The context of the lowering.
        build: Receives the code.

    Attributes:
        extent: Elements of a slice.
        across: The dimensions of the first tile other than the reduced one.
        lanes: Threads of a warp.
    """

    def __init__(self, op: CombineOp, context: LoweringContext, build: Builder) -> None:
        reached = all(r.buffer.scope is not Scope.FRAGMENT for r in (*op.srcs, *op.dsts))
        if context.thread is None or not reached:
            raise CompilerBug(f"{op.name}: its operands must be in memory that all threads reach")
        self.op, self.build = op, build
        self.extent, self.lanes = op.srcs[0].extent[op.dim], context.target.machine.warp_size
        self.across = [axis for axis in axes(op.srcs[0]) if axis != op.dim]
        self._thread, self._threads = context.thread, context.threads
        self._axes = [matching_axes(op.srcs[0], region, op.dim) for region in op.srcs]

    def distribute(self, by_warp: Callable[[At, Expr], None], by_thread: Callable[[At], None]) -> None:
        """Emits the code of all slices: by warp if the elements of a slice are contiguous in memory, else by thread."""
        along_memory = not any(axis > self.op.dim for axis in self.across)
        if not along_memory or self._threads < self.lanes:
            self._each(self._thread, self._threads, by_thread)
            return
        warps = self._threads // self.lanes
        lane = Var("lane", INT32, index=True)
        with self.build.block() as statements:
            self._each(self._thread // self.lanes, warps, lambda at: by_warp(at, lane))
        body = as_body(statements, self.build.loc)
        if self._threads % self.lanes:  # an incomplete warp is idle
            body = If(self._thread < warps * self.lanes, body)
        self.build.emit(Bind(lane, self._thread % self.lanes))
        self.build.emit(body)

    def _each(self, worker: Expr, workers: int, body: Callable[[At], None]) -> None:
        """A strided loop over slices: worker w processes the slices w, w + workers, and so on."""
        extents = [self.op.srcs[0].extent[axis] for axis in self.across]
        total: Expr = as_expr(1)
        for extent in extents:
            total = total * extent
        step = Var("turn", INT32, index=True)
        number = worker + step * workers
        with self.build.block() as statements:
            body(_coordinates(number, extents))
        constant = int_const(total)
        within = as_body(statements, self.build.loc)
        if constant is None or constant % workers:
            within = If(number < total, within)
        steps = (total + (workers - 1)) // workers
        self.build.emit(For(step, ZERO, steps, 1, ForKind.SERIAL, within))

    # -- elements -------------------------------------------------------------------------------------------------
    def read(self, at: At, k: Expr) -> list[Expr]:
        """Element k of the slice at some coordinates of all sources, in the running dtypes."""
        return [
            cast(load(src, (*at, k), along), dtype)
            for src, along, dtype in zip(self.op.srcs, self._axes, self.op.dtypes, strict=True)
        ]

    def write(self, regions: Sequence[tuple[Region, Sequence[int] | None]], at: At, values: Sequence[Expr]) -> None:
        """Stores a value in each region, along the dimensions given for it."""
        for (region, along), value in zip(regions, values, strict=True):
            self.build.emit(Store(region.buffer, indices(region, at, along), cast(value, region.dtype)))

    # -- running values -------------------------------------------------------------------------------------------
    def scalars(self, name: str, values: Sequence[Expr]) -> list[Buffer]:
        """Mutable scalars of the running dtypes, initialized."""
        buffers = [Buffer(name, (), dtype, Scope.VAR) for dtype in self.op.dtypes]
        for buffer, value in zip(buffers, values, strict=True):
            self.build.emit(Alloc(buffer, value))
        return buffers

    def assign(self, buffers: Sequence[Buffer], values: Sequence[Expr]) -> None:
        """Assigns mutable scalars; all values are computed before the first store."""
        if len(buffers) > 1:
            values = [self.bound("next", value) for value in values]
        for buffer, value in zip(buffers, values, strict=True):
            self.build.emit(Store(buffer, (), value))

    def bound(self, name: str, value: Expr) -> Var:
        """Binds a value to a name."""
        var = Var(name, value.dtype)
        self.build.emit(Bind(var, value))
        return var

    def shuffled(self, mode: str, values: Sequence[Expr], operand: int) -> list[Var]:
        """The values of other lanes, by warp shuffles."""
        mask = const((1 << self.lanes) - 1, SCALARS[f"uint{self.lanes}"])
        results = []
        for value in values:
            result = Var("other", value.dtype)
            args = (mask, value, const(operand, INT32), const(self.lanes, INT32))
            self.build.emit(CallStmt(shuffle(mode, value.dtype), args, result=result))
            results.append(result)
        return results

    def loop(self, name: str, start: Expr, stop: Expr, body: Callable[[Var], None]) -> None:
        """`for name in range(start, stop)`."""
        var = Var(name, INT32, index=True)
        with self.build.block() as statements:
            body(var)
        self.build.emit(For(var, start, stop, 1, ForKind.SERIAL, as_body(statements, self.build.loc)))

    def when(self, condition: Expr, body: Callable[[], None]) -> None:
        """A branch; unconditional if the condition is constant true."""
        with self.build.block() as statements:
            body()
        within = as_body(statements, self.build.loc)
        self.build.emit(within if int_const(condition) == 1 else If(condition, within))


def _coordinates(number: Expr, extents: Sequence[Expr]) -> At:
    found: list[Expr] = []
    for extent in reversed(extents[1:]):
        found.append(number % extent)
        number = number // extent
    return (*([number] if extents else []), *reversed(found))


def values(buffers: Sequence[Buffer]) -> list[Expr]:
    """The values of mutable scalars."""
    return [Load(buffer, (), buffer.dtype) for buffer in buffers]


def zeros(dtypes: Sequence[DType]) -> list[Expr]:
    """A zero of each dtype, for elements beyond the end of a slice."""
    return [const(0, dtype) for dtype in dtypes]
