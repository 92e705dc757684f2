"""`T.gemm` by the matrix instruction of a wave.

Takes products of shared or fragment operands of float16 into a fragment of float32, gives the program of one thread:
for each step along K the registers of both operands, then all instructions of the wave. Invariant: the tile is covered
by whole instructions; beyond K operands are zero, and what lies beyond M or N reaches only sums that are not there.
"""

from __future__ import annotations

from collections.abc import Iterable

from invented.isa.matrix import MATRIX_ATOM, MATRIX_MULTIPLY
from invented.machines import WAVE_SIZE
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Select, binary, const, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt
from tilelang.layout.constraints import Constraint, Is, Why
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.accumulator import Accumulator
from tilelang.lowering.fragment_order import FragmentOrder
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import indices, is_whole
from tilelang.lowering.registers import Emitter, emitter
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition, held, partition, placed

_STEP = MATRIX_ATOM.shape[2]


@record
class _Operand:
    """An operand, seen as a matrix of rows (along M or N) by K.

    Attributes:
        region: Where it lies.
        axes: The buffer's dimensions of its rows, and along K.
        extents: Its rows, and its extent along K.
        atoms: Instructions of a wave along the rows.
        fragment: What waves hold of it, as a fragment of the buffer.
    """

    region: Region
    axes: tuple[int, int]
    extents: tuple[int, int]
    atoms: int
    fragment: Fragment


@record
class MatrixPlan(Plan):
    """How a product is divided among waves."""

    waves: WarpPartition

    def __str__(self) -> str:
        return f"{MATRIX_ATOM.name} of {self.waves.rows} x {self.waves.columns} waves"


@record
class _Division:
    """What a plan says of an operator's own operands."""

    a: _Operand
    b: _Operand
    accumulator: Fragment


def _divided(op: Gemm, plan: MatrixPlan) -> _Division:
    m, n, k = (int_const(size) or 0 for size in op.sizes)
    waves = plan.waves
    (a0, a1), (b0, b1), c_axes = (matrix_axes(region) for region in (op.a, op.b, op.c))
    a_axes = (a1, a0) if op.transpose_a else (a0, a1)
    b_axes = (b0, b1) if op.transpose_b else (b1, b0)

    def of_buffer(tile: Fragment, axes: tuple[int, ...], buffer: Buffer) -> Fragment:
        return placed(tile, (axes[0], axes[1]), buffer.static_shape or ())

    left = of_buffer(waves.left(MATRIX_ATOM, m, k), a_axes, op.a.buffer)
    right = of_buffer(waves.right(MATRIX_ATOM, n, k), b_axes, op.b.buffer)
    return _Division(
        _Operand(op.a, a_axes, (m, k), waves.row_atoms, left),
        _Operand(op.b, b_axes, (n, k), waves.column_atoms, right),
        of_buffer(waves.accumulator(MATRIX_ATOM, m, n), c_axes, op.c.buffer),
    )


class _Registers:
    """The registers of an operand for one step along K."""

    def __init__(self, emit: Emitter, operand: _Operand, lane: Expr, position: Expr, context: LoweringContext) -> None:
        """Allocates them; `position` is the wave's among those with rows of their own."""
        self._emit, self._operand, self._context = emit, operand, context
        atom = MATRIX_ATOM.a
        row, self._k = atom.coordinates(lane, 0)
        self._row = row + position * (operand.atoms * atom.shape[0])
        self._count = atom.values
        self._buffer = emit.registers(f"{operand.region.buffer.name}_r", operand.atoms * atom.values, MATRIX_ATOM.dtype)

    def fetch(self, step: Expr) -> None:
        """Loads what the instructions of a step read."""
        rows, depth = self._operand.extents

        def each(v: Expr) -> None:
            atom_row, atom_k = v // self._count * MATRIX_ATOM.a.shape[0], v % self._count + step * _STEP
            value = self._element(atom_row, atom_k, rows)
            if depth % _STEP:
                inside = self._emit.short(self._k + atom_k < depth)
                value = Select(inside, value, const(0, value.dtype), value.dtype)
            self._emit.store(self._buffer, v, value)

        self._emit.loop("v", self._operand.atoms * self._count, each)

    def _element(self, row: Expr, k: Expr, rows: int) -> Expr:
        emit, region = self._emit, self._operand.region
        if region.buffer.scope is Scope.FRAGMENT:
            order = FragmentOrder(self._context.fragments[region.buffer], self._operand.fragment)
            place: list[Expr | int] = [0] * region.buffer.rank
            place[self._operand.axes[0]], place[self._operand.axes[1]] = row, k
            return emit.load(self._context.registers[region.buffer], order.place(*place))
        inside = emit.short(binary(BinaryOp.MIN, self._row + row, const(rows - 1, self._row.dtype)))
        at = indices(region, (inside, emit.short(self._k + k)), self._operand.axes)
        return Load(region.buffer, at, region.dtype)

    def of(self, atom: Expr) -> Region:
        """Those of one instruction."""
        return self._emit.part(self._buffer, atom * self._count, self._count)


class GemmMatrix:
    """The lowering."""

    name = "gemm.matrix"

    def accepts(self, op: Gemm, context: LoweringContext) -> MatrixPlan | Refusal:
        """How the product is divided, or why the matrix instruction cannot do it."""
        m, n, k = (int_const(size) or 0 for size in op.sizes)
        if not (m and n and k):
            return Refusal("its extents are not constants above zero")
        if not context.target.has(MATRIX_ATOM.needs):
            return Refusal(f"{context.target.arch} has no matrix instruction")
        dtypes = (op.a.dtype, op.b.dtype, op.c.dtype)
        if dtypes != (MATRIX_ATOM.dtype, MATRIX_ATOM.dtype, MATRIX_ATOM.c_dtype) or op.operands != dtypes[:2]:
            return Refusal(f"it multiplies {op.a.dtype!s} and {op.b.dtype!s} into {op.c.dtype!s}")
        for letter, region in zip("ABC", (op.a, op.b, op.c), strict=True):
            scope = region.buffer.scope
            if scope is not Scope.FRAGMENT and (letter == "C" or scope is not Scope.SHARED):
                return Refusal(f"{letter} is in scope {scope.value}")
            if scope is Scope.FRAGMENT and not is_whole(region):
                return Refusal(f"{letter} is a part of a fragment")
        return MatrixPlan(partition(m, n, MATRIX_ATOM, context.threads, op.policy, WAVE_SIZE))

    def constrain(self, op: Gemm, plan: MatrixPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The fragments of the instruction over the waves."""
        made = _divided(op, plan)
        why = Why(f"{op.name} multiplies by {MATRIX_ATOM.name}", op.loc)
        yield Is(op.c.buffer, held(made.accumulator), why)
        for operand in (made.a, made.b):
            if operand.region.buffer.scope is Scope.FRAGMENT:
                yield Is(operand.region.buffer, held(operand.fragment), why)

    def lower(self, op: Gemm, plan: MatrixPlan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        made = _divided(op, plan)
        emit, thread = emitter(build, context, self.name)
        lane = emit.bind("lane", thread % WAVE_SIZE, WAVE_SIZE)
        wave = emit.bind("wave", thread // WAVE_SIZE, context.threads // WAVE_SIZE)
        a = _Registers(emit, made.a, lane, wave % plan.waves.rows, context)
        b = _Registers(emit, made.b, lane, wave // plan.waves.rows % plan.waves.columns, context)
        sums = Accumulator(emit, op, context, made.accumulator, MATRIX_ATOM.c_dtype, run=MATRIX_ATOM.c.values)
        height, width, _ = MATRIX_ATOM.shape

        def multiply(i: Expr, j: Expr) -> None:
            parts = (sums.registers(i * height, j * width), a.of(i), b.of(j))
            emit.build.emit(CallStmt(MATRIX_MULTIPLY, parts, parts, parts[:1]))

        def step(k: Expr) -> None:
            a.fetch(k)
            b.fetch(k)
            emit.loop("i", made.a.atoms, lambda i: emit.loop("j", made.b.atoms, lambda j: multiply(i, j)))

        sums.begin()
        emit.loop("k_step", -(-made.a.extents[1] // _STEP), step)
        sums.end()
