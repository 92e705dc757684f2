"""`T.gemm` as a call of the register-blocked micro-kernel, or as loops where no micro-kernel fits."""

from __future__ import annotations

import math

from tilelang.dtypes import BOOL, DType
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Var, binary, cast, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, Store
from tilelang.lowering.regions import indices, load
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.targets.cpu.isa.gemm import GemmShape, gemm_routine
from tilelang.targets.cpu.lowerings.nest import assign, loop, nest, read, variable

_NEVER = Const(False, BOOL)


def lower_gemm(op: Gemm, build: Builder) -> None:
    """The micro-kernel if it has the dtypes and all sizes are constants."""
    shape = _shape(op)
    routine = None if shape is None else gemm_routine(op.a.dtype, op.b.dtype, op.c.dtype, shape)
    if routine is None:
        _loops(op, build)
        return
    clear = op.clear_accum if op.clear_accum is not None else _NEVER
    build.emit(CallStmt(routine, (op.a, op.b, op.c, clear), (op.a, op.b, op.c), (op.c,)))


def _shape(op: Gemm) -> GemmShape | None:
    """Sizes and strides, if all are constants and elements of a row are neighbors in memory."""
    sizes = [int_const(size) for size in op.sizes]
    leading = [_leading(region) for region in (op.a, op.b, op.c)]
    if None in sizes or None in leading or 0 in sizes:
        return None
    m, n, k = (size or 0 for size in sizes)
    lda, ldb, ldc = (stride or 0 for stride in leading)
    return GemmShape(m, n, k, lda, ldb, ldc, op.transpose_a, op.transpose_b)


def _leading(region: Region) -> int | None:
    """Elements from one row of a matrix to the next, if it lies in rows."""
    rows, columns = matrix_axes(region)
    strides = _strides(region.buffer)
    if strides is None or (strides[columns] != 1 and int_const(region.extent[columns]) != 1):
        return None
    return strides[rows]


def _strides(buffer: Buffer) -> tuple[int, ...] | None:
    shape = buffer.static_shape
    if buffer.strides is not None or shape is None:
        return None
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _loops(op: Gemm, build: Builder) -> None:
    """A dot product for each element of C."""
    dtype = op.accumulator_dtype
    a_axes, b_axes, c_axes = (matrix_axes(region) for region in (op.a, op.b, op.c))
    m, n, k = op.sizes

    def operand(region: Region, multiplied: DType, along: tuple[int, ...], row: Var, column: Var) -> Expr:
        return cast(cast(load(region, (row, column), along), multiplied), dtype)

    def element(at: tuple[Var, ...]) -> None:
        i, j = at
        old = cast(load(op.c, at, c_axes), dtype)
        zero = const(0, dtype)
        running = variable(build, "dot", dtype, old if op.clear_accum is None else select(op.clear_accum, zero, old))

        def step(p: Var) -> None:
            x = operand(op.a, op.operands[0], a_axes, *((p, i) if op.transpose_a else (i, p)))
            y = operand(op.b, op.operands[1], b_axes, *((j, p) if op.transpose_b else (p, j)))
            product = binary(BinaryOp.MUL, x, y)
            assign(build, running, binary(BinaryOp.ADD, read(running), product))

        loop(build, "k", k, step)
        build.emit(Store(op.c.buffer, indices(op.c, at, c_axes), cast(read(running), op.c.dtype)))

    nest(build, (m, n), element)
