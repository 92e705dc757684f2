"""`T.gemm` by scalar FMA instructions, for dtypes and shapes that mma instructions do not support.

Takes a gemm of shared operands into a fragment, gives the program of one thread: for each step along K it loads
elements of its rows of A and of its columns of B, and accumulates their outer product. Invariant: rows and columns
beyond M or N are loaded from in-bounds positions, since they only contribute to elements of C that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, binary, cast, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import ForKind, Store
from tilelang.layout.constraints import Constraint, FixedLayout, Reason, SharedLayout
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.lowering.accumulator import Accumulator
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.operand_layout import WarpAccess, choose_layout, is_contiguous_in_runs
from tilelang.lowering.regions import indices, is_whole
from tilelang.lowering.registers import Emitter, emitter, vector
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.gpu.lowerings.mma_operand import rounded
from tilelang.targets.gpu.lowerings.warp_partition import placed
from tilelang.targets.machine import Machine

_VECTOR_BYTES = 16
_MAX_RUN = 4  # elements per vector load, along K or along a row or column


@record
class _Side:
    """The part of one operand that a thread needs: rows of A, or columns of B.

    Attributes:
        region: The operand.
        axis: The buffer's dimension along M or N.
        k_axis: The buffer's dimension along K.
        extent: Extent of the operand along M or N.
        run: Consecutive rows or columns of a thread.
        threads: Threads along M or N.
        times: Runs per thread; the runs of the threads are interleaved.
    """

    region: Region
    axis: int
    k_axis: int
    extent: int
    run: int
    threads: int
    times: int

    @property
    def count(self) -> int:
        """Rows or columns of a thread."""
        return self.run * self.times

    @property
    def cover(self) -> int:
        """Rows or columns of all threads together."""
        return self.count * self.threads

    @property
    def along_k(self) -> bool:
        """Whether K is contiguous in memory."""
        return self.k_axis == self.region.buffer.rank - 1

    def place(self, v: Expr) -> Expr:
        """Row or column of the v-th value of a thread, relative to its first."""
        return v // self.run * (self.run * self.threads) + v % self.run

    def vector(self, step: int) -> int:
        """Elements per vector load."""
        return step if self.along_k else self.run

    def layout(self, first: np.ndarray, step: int, machine: Machine) -> Layout | None:
        """A layout of the operand in shared memory without bank conflicts; None for row-major."""
        buffer = self.region.buffer
        shape = buffer.static_shape
        if shape is None or {self.axis, self.k_axis} != {buffer.rank - 2, buffer.rank - 1}:
            return None
        height, length = shape[-2:]
        size = self.vector(step) * buffer.dtype.storage_bytes
        rows, columns = (first, 0 * first) if self.along_k else (0 * first, first)
        if not is_contiguous_in_runs(self.region, None, self.vector(step)):
            size = buffer.dtype.storage_bytes
        access = WarpAccess(rows % height, columns % length, size)
        return choose_layout((height, length), buffer.dtype, [access], machine)


@record
class FmaPlan(Plan):
    """The partition of a gemm over threads.

    Attributes:
        rows: Along M: run, threads, and runs per thread; see `_Side`.
        columns: The same along N.
        step: Elements per load along K.
    """

    rows: tuple[int, int, int]
    columns: tuple[int, int, int]
    step: int

    def __str__(self) -> str:
        return f"{self.rows[1]} x {self.columns[1]} threads, {self.step} along K at a time"


class GemmFma:
    """The lowering."""

    name = "gemm.fma"

    def accepts(self, op: Gemm, context: LoweringContext) -> FmaPlan | Refusal:
        """The partition, or the reason of refusal."""
        sizes = [int_const(size) for size in op.sizes]
        if None in sizes or 0 in sizes:
            return Refusal("its extents are not constants above zero")
        scopes = (Scope.SHARED, Scope.SHARED, Scope.FRAGMENT)
        for letter, region, scope in zip("ABC", (op.a, op.b, op.c), scopes, strict=True):
            if region.buffer.scope is not scope:
                return Refusal(f"{letter} is in scope {region.buffer.scope.value}")
        if not is_whole(op.c):
            return Refusal("C is a part of a fragment")
        return _divided(op, context.threads)

    def constrain(self, op: Gemm, plan: FmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """C distributed over threads; shared operands without bank conflicts."""
        rows, columns = _sides(op, plan)
        sums = _accumulator(op, rows, columns, context.threads)
        yield FixedLayout(op.c.buffer, sums, Reason(f"{op.name} accumulates in it by single threads", op.loc))
        lanes = np.arange(context.target.machine.warp_size) % context.threads
        first_row = lanes // columns.threads % rows.threads * rows.run
        first_column = lanes % columns.threads * columns.run
        for side, first in ((rows, first_row), (columns, first_column)):
            layout = side.layout(first, plan.step, context.target.machine)
            if layout is not None:
                reason = Reason(f"{op.name} loads it by threads without bank conflicts", op.loc)
                yield SharedLayout(side.region.buffer, layout, reason)

    def lower(self, op: Gemm, plan: FmaPlan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        rows, columns = _sides(op, plan)
        emit, thread = emitter(build, context, self.name)
        across, down = columns.threads, rows.threads
        a = _Loader(emit, rows, plan.step, thread // across % down * rows.run, context)
        b = _Loader(emit, columns, plan.step, thread % across * columns.run, context)
        tile = _accumulator(op, rows, columns, context.threads)
        sums = Accumulator(emit, op, context, tile, op.accumulator_dtype, run=1, zero_padding=True)
        sums.load()

        def step(at: Expr) -> None:
            a.fetch(at * plan.step)
            b.fetch(at * plan.step)
            emit.loop("kk", plan.step, add)

        def add(k: Expr) -> None:
            emit.loop("i", rows.count, lambda i: emit.loop("j", columns.count, lambda j: multiply_add(i, j, k)))

        def multiply_add(i: Expr, j: Expr, k: Expr) -> None:
            elements = a.element(i, k), b.element(j, k)
            x, y = (cast(cast(e, to), op.accumulator_dtype) for e, to in zip(elements, op.operands, strict=True))
            old = sums.element(rows.place(i), columns.place(j))
            total = binary(BinaryOp.ADD, old, binary(BinaryOp.MUL, x, y))
            emit.build.emit(Store(old.buffer, old.indices, total))

        emit.loop("k_step", (int_const(op.sizes[2]) or 0) // plan.step, step, kind=ForKind.SERIAL)
        sums.store()


class _Loader:
    """Loads a thread's elements of an operand for one step along K."""

    def __init__(self, emit: Emitter, side: _Side, step: int, first: Expr, context: LoweringContext) -> None:
        buffer = side.region.buffer
        self._emit, self._side, self._step = emit, side, step
        layout = context.shared_layouts.get(buffer)
        wanted = side.vector(step)
        self._width = wanted if is_contiguous_in_runs(side.region, layout, wanted) else 1
        self._registers = emit.registers(f"{buffer.name}_r", side.count * step, buffer.dtype)
        self._first = emit.bind(f"{buffer.name}_first", first, side.cover)

    def fetch(self, k: Expr) -> None:
        """Loads the elements from `k` on."""
        side, emit, width = self._side, self._emit, self._width
        last = side.extent - (1 if side.along_k else width)

        def load(group: Expr) -> None:
            v, kk = self._split(group * width)
            along = emit.short(self._first + side.place(v))
            if side.cover > side.extent:
                along = emit.short(binary(BinaryOp.MIN, along, last))
            at = indices(side.region, (along, emit.short(k + kk)), (side.axis, side.k_axis))
            value = rounded(Load(side.region.buffer, at, vector(side.region.dtype, width)))
            emit.store(self._registers, group * width, value)

        emit.loop("v", side.count * self._step // width, load)

    def _split(self, index: Expr) -> tuple[Expr, Expr]:
        """The value and the step along K of a register."""
        if self._side.along_k:
            return index // self._step, index % self._step
        return index % self._side.count, index // self._side.count

    def element(self, v: Expr, k: Expr) -> Load:
        """The element of value `v` at step `k`."""
        along_k = self._side.along_k
        return self._emit.load(self._registers, v * self._step + k if along_k else k * self._side.count + v)


def _divided(op: Gemm, threads: int) -> FmaPlan:
    """The partition with the fewest elements of C per thread, then with the fewest loads."""

    def cost(sides: tuple[_Side, _Side]) -> tuple[int, ...]:
        rows, columns = sides
        return (rows.count * columns.count, rows.count + columns.count, -columns.run, -rows.run, -columns.threads)

    m, n, k = (int_const(size) or 0 for size in op.sizes)
    rows, columns = min(_divisions(op, m, n, *_axes(op), threads), key=cost)
    step = min((_most(side.region, k) for side in (rows, columns) if side.along_k), default=1)
    return FmaPlan((rows.run, rows.threads, rows.times), (columns.run, columns.threads, columns.times), step)


def _axes(op: Gemm) -> tuple[tuple[int, int], tuple[int, int]]:
    """The dimensions of A's buffer along M and K, and of B's along N and K."""
    (a0, a1), (b0, b1) = matrix_axes(op.a), matrix_axes(op.b)
    return (a1, a0) if op.transpose_a else (a0, a1), (b0, b1) if op.transpose_b else (b1, b0)


def _sides(op: Gemm, plan: FmaPlan) -> tuple[_Side, _Side]:
    """The parts of both operands of a thread."""
    m, n, _ = (int_const(size) or 0 for size in op.sizes)
    a_axes, b_axes = _axes(op)
    return _Side(op.a, *a_axes, m, *plan.rows), _Side(op.b, *b_axes, n, *plan.columns)


def _accumulator(op: Gemm, rows: _Side, columns: _Side, threads: int) -> Fragment:
    """The fragment of C, as one of its buffer."""
    copies = threads // (rows.threads * columns.threads)
    thread = [digit(columns.threads, 0, columns.run), digit(rows.threads, rows.run, 0), digit(copies, 0, 0)]
    value = [
        digit(columns.run, 0, 1),
        digit(rows.run, 1, 0),
        digit(columns.times, 0, columns.run * columns.threads),
        digit(rows.times, rows.run * rows.threads, 0),
    ]
    tile = fragment((rows.extent, columns.extent), thread, value)
    return placed(tile, op.axes_of_c, op.c.buffer.static_shape or ())


def _divisions(
    op: Gemm, m: int, n: int, a_axes: tuple[int, int], b_axes: tuple[int, int], threads: int
) -> Iterator[tuple[_Side, _Side]]:
    """All partitions of the threads over M and N."""
    for across in _divisors(threads):
        for down in _divisors(threads // across):
            for row_run in _runs(op.a, a_axes, m):
                for column_run in _runs(op.b, b_axes, n):
                    if (down - 1) * row_run >= m or (across - 1) * column_run >= n:
                        continue  # avoid threads without rows or columns; they replicate others instead
                    row_times = -(-m // (row_run * down))
                    column_times = -(-n // (column_run * across))
                    yield (
                        _Side(op.a, *a_axes, m, row_run, down, row_times),
                        _Side(op.b, *b_axes, n, column_run, across, column_times),
                    )


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _runs(region: Region, axes: tuple[int, int], extent: int) -> list[int]:
    """Numbers of consecutive rows or columns per thread: several if they are contiguous in memory."""
    return [1] if axes[0] != region.buffer.rank - 1 else _dividing(region, extent)


def _most(region: Region, extent: int) -> int:
    return _dividing(region, extent)[0]


def _dividing(region: Region, extent: int) -> list[int]:
    most = min(_MAX_RUN, max(1, _VECTOR_BYTES // region.dtype.storage_bytes))
    return [run for run in (4, 2, 1) if run <= most and extent % run == 0]


LOWERING = GemmFma()
