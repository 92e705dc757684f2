"""Decides which matrix products a kernel computes in its loop, and which are stored instead.

Takes a fused kernel, gives the products that are cheaper to store: those that several passes would compute again, where
that takes longer than one write and one read of each element; and those that the blocks of the kernel, which have whole
rows, are too few to compute, where a kernel of their own divides rows and sums among more blocks. Products for which
blocks have no room are stored, too. Others stay in the loop, as the scores of attention do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from tilelang.ir.expr import Expr, Var
from tilelang.level1.contraction import contraction
from tilelang.level1.data_passes import Pass, data_passes
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array
from tilelang.level1.placement import Tiling
from tilelang.level1.split import can_split
from tilelang.level1.tiles import (
    blocks_of,
    choose_tiling,
    extent_of,
    fits_on_chip,
    operand_bytes,
    split_count,
    tiled_gemm,
)
from tilelang.performance.gemm import TiledGemm, gemm_seconds
from tilelang.targets.target import Target

# operations that take as long as a byte of memory, on a machine whose record has no figures
_OPERATIONS_PER_BYTE = {True: 200.0, False: 16.0}  # by whether it is a GPU
_CLEARLY_FASTER = 0.8  # of a time; smaller differences are within the error of the model


def products_to_store(kernel: FusedKernel, target: Target) -> list[Array]:
    """The products of a kernel's loop that are cheaper to store, or that do not fit on the chip beside others."""
    products = [reduction for reduction in kernel.reductions if contraction(reduction) is not None]
    inner = [product for product in products if _is_read_in_loop(kernel, product)]
    if inner and not fits_on_chip(kernel, target):
        return [product.array for product in inner]
    streamed = set(kernel.streamed)
    candidates = [
        reduction
        for reduction in kernel.reductions
        if contraction(reduction) is not None and set(reduction.reduced) != streamed
        if not streamed.isdisjoint(reduction.axes)
    ]
    if not candidates:
        return []
    tiling, passes = choose_tiling(kernel, target), data_passes(kernel)
    blocks = tiling.blocks
    one_tile = all(extent_of(kernel, axis) <= blocks.get(axis, extent_of(kernel, axis)) for axis in streamed)
    if len(passes) > 1 and not one_tile:
        repeated = [each.array for each in candidates if _is_cheaper_to_store(kernel, each, passes, target)]
        if repeated:
            return repeated
    return [each.array for each in products if len(products) == 1 and _is_faster_alone(kernel, each, tiling, target)]


def _is_read_in_loop(kernel: FusedKernel, product: FusedReduction) -> bool:
    """Whether another reduction, a sort or a scan reads a product."""
    sequences = [output.body for output in kernel.outputs if output.along is not None]
    return any(product in kernel.reads(body) for body in (*(each.body for each in kernel.reductions), *sequences))


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


def _is_faster_alone(kernel: FusedKernel, product: FusedReduction, tiling: Tiling, target: Target) -> bool:
    """Whether a product and what reads it take clearly less time as two kernels, where one leaves multiprocessors idle.

    Never on machines without rates.
    """
    machine, rates = target.machine, target.machine.rates
    parts = split_count(kernel, target)
    parts = parts if can_split(kernel, parts) else 1
    fused = _gemm_in_loop(kernel, product, tiling, parts)
    if rates is None or not machine.multiprocessors or fused is None or fused.blocks >= machine.multiprocessors:
        return False
    alone = _kernel_of(kernel, product)
    gemm = tiled_gemm(alone, choose_tiling(alone, target, alone=False))
    if gemm is None:
        return False
    gemm = dataclasses.replace(gemm, workspace_splits=split_count(alone, target, alone=False))
    size = gemm.m * gemm.n * product.array.stored_dtype.storage_bytes
    read = rates.launch + size / (machine.memory_bandwidth * rates.memory_share)
    joined = rates.launch if parts > 1 else 0.0
    seconds = gemm_seconds(gemm, machine, rates) + read
    return seconds < _CLEARLY_FASTER * (gemm_seconds(fused, machine, rates) + joined)


def _gemm_in_loop(kernel: FusedKernel, product: FusedReduction, tiling: Tiling, parts: int) -> TiledGemm | None:
    """A product as the loop of a kernel computes it, which is split into ranges; None if no side is streamed."""
    operands = contraction(product)
    assert operands is not None
    grid, streamed = set(kernel.grid), set(kernel.streamed)
    sides = [operands.rows, operands.columns]
    own = next((side for side in sides if grid.issuperset(side)), None)
    looped = next((side for side in sides if streamed.issuperset(side)), None)
    if own is None or looped is None:
        return None

    def size(axes: Iterable[Var]) -> tuple[int, int]:
        """Elements along axes, and those of a tile."""
        tile = tiling.blocks.get(tuple(axes)[-1], extent_of(kernel, tuple(axes)[-1]))
        return math.prod(extent_of(kernel, axis) for axis in axes), tile

    (_, rows), (n, columns), (k, depth) = map(size, (own, looped, product.reduced))
    return TiledGemm(
        blocks_of(kernel, tiling) * rows, n, k, rows, columns, depth,
        operand_bytes=operand_bytes(operands), result_bytes=0,
        tiles_per_block=math.ceil(math.ceil(n / columns) / parts), stages=tiling.stages,
    )  # fmt: skip


def _kernel_of(kernel: FusedKernel, product: FusedReduction) -> FusedKernel:
    """A kernel that stores a product."""
    extents = {axis: kernel.extents[axis] for axis in (*product.axes, *product.reduced)}
    output = Output(product.array, product.axes, product.axes, product.result)
    return FusedKernel(extents, (product,), (output,))
