"""Rows that a block loads to shared memory once, because several of its passes read them.

They are too long for registers. Two blocks with their rows must fit on a multiprocessor, so that one loads while the
other computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.visit import loads_of, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.data_passes import Pass, data_passes
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Array
from tilelang.level1.placement import Tiling
from tilelang.targets.target import Target

_BLOCKS_PER_MULTIPROCESSOR = 2
_OTHER_BYTES = 4096  # of shared memory that a block needs beside its rows


def kept_rows(kernel: FusedKernel, tiling: Tiling, target: Target) -> tuple[Load, ...]:
    """The loads of which a block keeps whole rows; none if they do not fit, or one pass reads them."""
    if not target.is_gpu or len(kernel.streamed) != 1 or kernel.streamed[0] not in tiling.blocks:
        return ()
    if any(contraction(reduction) is not None for reduction in kernel.reductions):
        return ()
    (axis,) = kernel.streamed
    passes = data_passes(kernel)
    if len(passes) < 2:
        return ()
    read = {expr_key(load): load for each in passes for load in _rows_read(each, kernel, axis)}
    counts = Counter(key for each in passes for key in {expr_key(load) for load in _rows_read(each, kernel, axis)})
    left = (target.machine.shared_per_multiprocessor or 0) // _BLOCKS_PER_MULTIPROCESSOR - _OTHER_BYTES
    kept: list[Load] = []
    for key, load in read.items():
        size = _bytes(load, kernel, tiling)
        if counts[key] > 1 and size is not None and size <= left:
            left -= size
            kept.append(load)
    return tuple(kept)


def _rows_read(each: Pass, kernel: FusedKernel, axis: Var) -> Iterator[Load]:
    """The loads of a pass whose last index is the axis, and whose other indices are axes of the grid."""
    bodies: list[Expr] = [accumulation.body for accumulation in each.accumulations]
    for body in (*bodies, *(output.body for output in each.outputs)):
        for load in loads_of(body):
            *rows, last = load.indices or (None,)
            inside = [index for index in rows if isinstance(index, Var)]
            if isinstance(load.buffer, Array) and load.buffer not in kernel.by_array and last is axis:
                if len(inside) == len(rows) and len(set(inside)) == len(inside) and set(inside) <= set(kernel.grid):
                    yield load


def _bytes(load: Load, kernel: FusedKernel, tiling: Tiling) -> int | None:
    """The bytes of a block's rows; None if they are not known."""
    (axis,) = kernel.streamed
    extent = int_const(kernel.extents[axis])
    if extent is None:
        return None
    elements = -(-extent // tiling.blocks[axis]) * tiling.blocks[axis]
    for row in variables_of(load) - {axis}:
        elements *= tiling.blocks.get(row, 1)
    assert isinstance(load.buffer, Array)
    return elements * load.buffer.stored_dtype.storage_bytes
