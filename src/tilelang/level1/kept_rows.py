"""Rows that a block loads once, into shared memory, because several passes over them read them.

They are too long for registers, but two blocks with such rows fit on a multiprocessor, so that one loads while the
other computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Load, Var, int_const
from tilelang.ir.visit import loads_of, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Array
from tilelang.level1.passes import Pass, passes_of
from tilelang.level1.placement import Tiling
from tilelang.targets.target import Target

_BLOCKS = 2  # of a multiprocessor
_BESIDE = 4096  # bytes of shared memory that a block needs beside its rows


def kept_rows(kernel: FusedKernel, tiling: Tiling, target: Target) -> tuple[Load, ...]:
    """The reads of memory of which a block keeps whole rows; none where they do not fit, or are read once."""
    if not target.is_gpu or len(kernel.streamed) != 1 or kernel.streamed[0] not in tiling.blocks:
        return ()
    if any(contraction(reduction) is not None for reduction in kernel.reductions):
        return ()
    (axis,) = kernel.streamed
    passes = passes_of(kernel)
    if len(passes) < 2:
        return ()
    read = {expr_key(load): load for each in passes for load in _rows_read(each, kernel, axis)}
    counts = Counter(key for each in passes for key in {expr_key(load) for load in _rows_read(each, kernel, axis)})
    left = (target.machine.shared_per_multiprocessor or 0) // _BLOCKS - _BESIDE
    kept: list[Load] = []
    for key, load in read.items():
        size = _bytes(load, kernel, tiling)
        if counts[key] > 1 and size is not None and size <= left:
            left -= size
            kept.append(load)
    return tuple(kept)


def _rows_read(each: Pass, kernel: FusedKernel, axis: Var) -> Iterator[Load]:
    """The reads of a pass that go along an axis as the last dimension of an array, and along others of the grid."""
    bodies: list[Expr] = [accumulation.body for accumulation in each.accumulations]
    for body in (*bodies, *(output.body for output in each.outputs)):
        for load in loads_of(body):
            *rows, last = load.indices or (None,)
            inside = [index for index in rows if isinstance(index, Var)]
            if isinstance(load.buffer, Array) and load.buffer not in kernel.by_array and last is axis:
                if len(inside) == len(rows) and len(set(inside)) == len(inside) and set(inside) <= set(kernel.grid):
                    yield load


def _bytes(load: Load, kernel: FusedKernel, tiling: Tiling) -> int | None:
    """What the rows of a block take; None if that is not known."""
    (axis,) = kernel.streamed
    extent = int_const(kernel.extents[axis])
    if extent is None:
        return None
    elements = -(-extent // tiling.blocks[axis]) * tiling.blocks[axis]
    for row in variables_of(load) - {axis}:
        elements *= tiling.blocks.get(row, 1)
    assert isinstance(load.buffer, Array)
    return elements * load.buffer.stored_dtype.storage_bytes
