"""`T.gemm` as a call of the register-blocked micro-kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import Builder
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Const, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import CallStmt
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.cpu.isa.gemm import GemmShape, gemm_routine

_NEVER = Const(False, BOOL)


@record
class MicroKernelPlan(Plan):
    """The routine of a gemm.

    Attributes:
        routine: The micro-kernel for its sizes and dtypes.
    """

    routine: Routine


class MicroKernel:
    """The lowering."""

    name = "gemm.micro_kernel"

    def accepts(self, op: Gemm, context: LoweringContext) -> MicroKernelPlan | Refusal:
        """The micro-kernel, if there is one for the dtypes and all sizes are constant."""
        shape = _shape(op)
        if shape is None:
            return Refusal("its extents are not constants above zero, or its rows are not contiguous in memory")
        routine = gemm_routine(op.a.dtype, op.b.dtype, op.c.dtype, shape)
        return Refusal(f"no micro-kernel multiplies {op.multiplied}") if routine is None else MicroKernelPlan(routine)

    def constrain(self, op: Gemm, plan: MicroKernelPlan, context: LoweringContext) -> Iterable[Constraint]:
        """No constraint: tiles are arrays."""
        del op, plan, context
        return ()

    def lower(self, op: Gemm, plan: MicroKernelPlan, context: LoweringContext, build: Builder) -> None:
        """Emits the call."""
        clear = op.clear_accum if op.clear_accum is not None else _NEVER
        build.emit(CallStmt(plan.routine, (op.a, op.b, op.c, clear), (op.a, op.b, op.c), (op.c,)))


def _shape(op: Gemm) -> GemmShape | None:
    """Sizes and strides, if all are constant and rows of A, B and C are contiguous."""
    sizes = [int_const(size) for size in op.sizes]
    leading = [_leading(region) for region in (op.a, op.b, op.c)]
    if None in sizes or None in leading or 0 in sizes or op.transpose_c:
        return None
    m, n, k = (size or 0 for size in sizes)
    lda, ldb, ldc = (stride or 0 for stride in leading)
    return GemmShape(m, n, k, lda, ldb, ldc, op.transpose_a, op.transpose_b)


def _leading(region: Region) -> int | None:
    """The leading dimension of a matrix with contiguous rows, else None."""
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
