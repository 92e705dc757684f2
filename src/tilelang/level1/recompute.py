"""Decides which matrix products a kernel of several passes computes again, and which are stored instead.

Takes a fused kernel, gives the products that are cheaper to store: a pass that computes one again takes its operations,
a store takes one write and one read of each element. A product that is read in one pass alone stays in its loop, as the
scores of attention do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.ir.expr import Expr
from tilelang.level1.contraction import contraction
from tilelang.level1.data_passes import Pass, data_passes
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.graph import Array
from tilelang.level1.tiles import choose_tiling, extent_of
from tilelang.targets.target import Target

# operations that take as long as a byte of memory, on a machine whose record has no figures
_OPERATIONS_PER_BYTE = {True: 200.0, False: 16.0}  # by whether it is a GPU


def products_to_store(kernel: FusedKernel, target: Target) -> list[Array]:
    """The products that several passes of a kernel compute, and that are cheaper to store."""
    streamed = set(kernel.streamed)
    candidates = [
        reduction
        for reduction in kernel.reductions
        if contraction(reduction) is not None and set(reduction.reduced) != streamed
        if not streamed.isdisjoint(reduction.axes)
    ]
    passes = data_passes(kernel) if candidates else ()
    if len(passes) < 2:
        return []
    blocks = choose_tiling(kernel, target).blocks
    if all(extent_of(kernel, axis) <= blocks.get(axis, extent_of(kernel, axis)) for axis in streamed):
        return []  # all passes read the same tile
    return [each.array for each in candidates if _is_cheaper_to_store(kernel, each, passes, target)]


def _is_cheaper_to_store(
    kernel: FusedKernel, product: FusedReduction, passes: Iterable[Pass], target: Target
) -> bool:
    repeated = sum(product in _needed(kernel, _bodies(each)) for each in passes) - 1
    operations = 2 * math.prod(extent_of(kernel, axis) for axis in product.reduced)
    machine = target.machine
    known = machine.matrix_flops and machine.memory_bandwidth
    rate = machine.matrix_flops / machine.memory_bandwidth if known else _OPERATIONS_PER_BYTE[target.is_gpu]
    return repeated * operations > 2 * product.array.stored_dtype.storage_bytes * rate


def _bodies(each: Pass) -> list[Expr]:
    return [*(accumulation.body for accumulation in each.accumulations), *(output.body for output in each.outputs)]


def _needed(kernel: FusedKernel, bodies: Iterable[Expr]) -> set[FusedReduction]:
    """The reductions that are computed in iterations for bodies, also through others; not the accumulated ones."""
    found: set[FusedReduction] = set()
    for body in bodies:
        read = [each for each in kernel.reads(body) if each not in kernel.accumulated]
        found |= {*read, *_needed(kernel, (each.body for each in read))}
    return found
