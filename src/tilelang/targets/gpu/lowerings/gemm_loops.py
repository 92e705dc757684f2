"""`T.gemm` as a parallel loop over the elements of C, for sizes known only when the kernel runs.

Takes products of any extents and scopes, emits a `ParallelLoop`; which thread computes which elements is decided later.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL, INT32, DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Load, Var, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, For, ForKind, Store
from tilelang.lowering.loops import parallel
from tilelang.lowering.regions import ZERO, indices, load
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm

NAME = "gemm.loop"


def expand_gemm(op: Gemm, build: Builder) -> None:
    """A dot product for each element of C."""
    dtype = op.accumulator_dtype
    m, n, depth = op.sizes
    clear = op.clear_accum if op.clear_accum is not None else Const(False, BOOL)

    def operand(region: Region, multiplied: DType, row: Expr, column: Expr) -> Expr:
        return cast(cast(load(region, (row, column), matrix_axes(region)), multiplied), dtype)

    def element(at: tuple[Var, ...]) -> None:
        i, j = at
        axes = matrix_axes(op.c)
        total = Buffer("dot", (), dtype, Scope.VAR)
        old = cast(load(op.c, at, axes), dtype)
        build.emit(Alloc(total, select(clear, const(0, dtype), old)))
        k = Var("k", INT32, index=True)
        a = operand(op.a, op.operands[0], *((k, i) if op.transpose_a else (i, k)))
        b = operand(op.b, op.operands[1], *((j, k) if op.transpose_b else (k, j)))
        running = Load(total, (), dtype)
        step = Store(total, (), binary(BinaryOp.ADD, running, binary(BinaryOp.MUL, a, b)))
        build.emit(For(k, ZERO, depth, 1, ForKind.SERIAL, step))
        build.emit(Store(op.c.buffer, indices(op.c, at, axes), cast(running, op.c.dtype)))

    parallel(build, (m, n), element)
