"""Turns a product of one row and a matrix (gemv) into a gemm with one row.

A matrix with contiguous rows of columns is loaded fastest in tiles, by the copy engine, for the matrix units. Most rows
of the result tile are unused, which costs nothing, since memory bounds the product. 1 x 8192 x 8192 took 88 us on an
H200 element by element, and 38 us as a gemm.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.visit import Rewriter, loads_of, variables_of
from tilelang.level1.aligned_operands import ALIGNMENT_BYTES
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array
from tilelang.targets.target import Target

_NARROW_BITS = 16  # of operands that matrix units take
_MIN_ELEMENTS = 1 << 16  # of a matrix; a smaller one has too few blocks for a difference
_MAX_TILE_ROWS = 16  # of the smallest gemm tile of a machine for which this pays


def with_gemv_as_gemm(kernel: FusedKernel, target: Target) -> FusedKernel:
    """The kernel with an axis of one row, if it is a gemv and the machine has gemm tiles of few rows.

    Args:
        kernel: What it computes.
        target: For which machine.
    """
    if not target.is_gpu or len(kernel.reductions) != 1 or kernel.sequences:
        return kernel
    (reduction,) = kernel.reductions
    if min(tile.block_M for tile in target.family.gemm_tiles(target.machine, 1)) > _MAX_TILE_ROWS:
        return kernel
    row = Var("row", INT32, index=True)
    outputs = tuple(_with_row(output, row) for output in kernel.outputs)
    if contraction(reduction) is not None or not _is_row(kernel, reduction):
        return kernel
    if any(output is None for output in outputs):
        return kernel
    body = _UnitIndices(reduction, row).expr(reduction.body)
    made = dataclasses.replace(reduction, axes=(row, *reduction.axes), body=body)
    if contraction(made) is None:
        return kernel
    read = _ResultRows(reduction.array, row)
    return FusedKernel(
        {row: const(1, INT32), **kernel.extents},
        (made,),
        tuple(dataclasses.replace(each, body=read.expr(each.body)) for each in outputs if each is not None),
    )


def _with_row(output: Output, row: Var) -> Output | None:
    """An output with the axis of rows, if the dimension before its last one has extent 1."""
    if len(output.indices) < 2 or output.definition is not None or int_const(output.array.shape[-2]) != 1:
        return None
    indices = (*output.indices[:-2], row, output.indices[-1])
    return dataclasses.replace(output, indices=indices, axes=(row, *output.axes))


def _is_row(kernel: FusedKernel, reduction: FusedReduction) -> bool:
    """Whether a reduction is the product of a row and a matrix that the copy engine can load."""
    factors = [load for load in loads_of(reduction.body) if isinstance(load.buffer, Array)]
    reduced = set(reduction.reduced)
    if len(reduction.reduced) != 1 or len(factors) != 2 or any(each.buffer in kernel.by_array for each in factors):
        return False
    vectors = [each for each in factors if variables_of(each) <= reduced]
    matrices = [each for each in factors if not variables_of(each) <= reduced]
    if len(vectors) != 1 or any(each.buffer.dtype.bits > _NARROW_BITS for each in factors):
        return False
    (vector,), (matrix,) = vectors, matrices
    shape = matrix.buffer.static_shape
    if shape is None or len(shape) != 2 or vector.buffer.rank != 2 or int_const(vector.buffer.shape[0]) != 1:
        return False
    aligned = shape[-1] * matrix.buffer.dtype.storage_bytes % ALIGNMENT_BYTES == 0
    by_columns = matrix.indices[0] in reduced and matrix.indices[-1] in set(reduction.axes)
    return aligned and by_columns and math.prod(shape) >= _MIN_ELEMENTS


class _UnitIndices(Rewriter):
    """Replaces the index 0 of the vector by the axis of rows."""

    def __init__(self, reduction: FusedReduction, row: Var) -> None:
        self._reduced, self._row = set(reduction.reduced), row

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Load):
            return self.rebuild_expr(node)
        if not variables_of(node) <= self._reduced:
            return node
        return Load(node.buffer, (self._row, *node.indices[1:]), node.dtype)


class _ResultRows(Rewriter):
    """Adds the axis of rows to reads of the reduction."""

    def __init__(self, array: Array, row: Var) -> None:
        self._array, self._row = array, row

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer is self._array:
            return Load(node.buffer, (self._row, *node.indices), node.dtype)
        return self.rebuild_expr(node)
