"""Chooses tiles for a kernel and a machine.

Kernels that are one gemm take the best tile by the cost model of the tuner, and chains of gemms by that of
`chain_work`. Others take the largest tiles whose elements fit into the registers of a block, and that give all
multiprocessors work; reductions of rows take other tiles or numbers of threads where the performance model predicts
that they are clearly faster.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.arith.interval import bounds
from tilelang.dtypes import FLOAT32
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Cast, Expr, Load, Var, int_const
from tilelang.ir.visit import loads_of, variables_of
from tilelang.level1.chain_work import ChainWork
from tilelang.level1.contraction import Contraction, contraction, without_widening
from tilelang.level1.cpu_tiles import cpu_tiles
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fused import FusedKernel, FusedReduction
from tilelang.level1.graph import Sort
from tilelang.level1.placement import Tiling
from tilelang.level1.tile_work import sorted_by_predicted_time
from tilelang.ops.gemm import can_accumulate
from tilelang.options import PassConfigKey
from tilelang.performance.gemm import TiledGemm, gemm_seconds
from tilelang.targets.target import Target
from tilelang.tune.gemm_space import gemm_configs
from tilelang.tune.subject import PASS_CONFIGS

_UNKNOWN = 1 << 30  # stands for extents that are not known
_ROW_TILE = 4096  # elements of a tile of rows that are reduced, or that a CPU computes, for each 128 threads
_ELEMENTWISE_TILE = 1024  # elements of a tile that a GPU computes element by element, for each 128 threads
_MAX_ELEMENTS_PER_THREAD = 16  # of whole rows
_MAX_WHOLE_ROW = 16384  # elements of rows that a block holds at once
_MAX_GRID_AXES = 3
_MAX_WHOLE_SUM = 512  # elements of an axis that an inner product sums at once
_COALESCED = 32  # contiguous elements of a coalesced access
_CPU_COALESCED = 128  # contiguous elements that a CPU reads of rows that are far apart
_THREADS = 128  # of a block
_THREAD_COUNTS = (128, 256, 512)  # candidates
_MMA_ROWS = 16  # of a matrix instruction
_MAX_VALUES_PER_THREAD = {128: 178, 256: 178, 384: 130}  # in registers beside addresses, by threads that multiply
_REGISTER_BYTES = 4
_LONG_AXIS = 4096  # elements of an axis whose extent is not known, where times are compared
_POSITION_BYTES = 4  # of an element that is sorted
_TUNED_ELEMENT_BYTES = 2  # of the operands for which the tuner lists tiles
_SMALL_CHAINS = ((64, 32, 4), (32, 16, 2), (16, 16, 1))  # rows, depth and warps where nothing larger fits
_MIN_STEPS_PER_SPLIT = 4  # iterations of a block, where several blocks split a loop
_DEFAULT_MULTIPROCESSORS = 128  # of a machine whose record has no number


def choose_tiling(kernel: FusedKernel, target: Target, *, alone: bool = True) -> Tiling:
    """The tiling with which a kernel is expected to be fastest.

    Args:
        kernel: What it computes.
        target: For which machine.
        alone: Whether the module has no other kernel, so that `pass_configs` may be set for this one.
    """
    return tilings_of(kernel, target, alone=alone)[0]


def tilings_of(kernel: FusedKernel, target: Target, *, alone: bool = True) -> list[Tiling]:
    """The candidate tilings, the one predicted to be fastest first; arguments as above.

    Gemms are tiled as the tuner tiles them (`tune.gemm_space`), chains of gemms as attention is, by registers and
    multiprocessors; others get tiles of whole or partial rows, of which reductions are ordered by `tile_work`.
    """
    if any(contraction(reduction) is not None for reduction in kernel.reductions):
        single = _gemm_tilings(kernel, target, alone=alone) if len(kernel.reductions) == 1 else []
        return single or _gemm_chain_tilings(kernel, target)
    if not kernel.reductions and not kernel.sequences:
        return _with_neighbors(kernel, _elementwise_tiling(kernel, target))
    tilings = _with_neighbors(kernel, _row_tiling(kernel, target))
    return tilings if kernel.sequences else sorted_by_predicted_time(kernel, tilings, target.machine)


def _with_neighbors(kernel: FusedKernel, best: Tiling) -> list[Tiling]:
    """A tiling, and its neighbors: half or twice the tile along an axis, or other numbers of threads."""
    shapes = [best.blocks]
    for axis, size in best.blocks.items():
        least = min(size, _COALESCED) if kernel.reductions and _is_contiguous(kernel, axis) else 1
        sizes = [other for other in (size // 2, size * 2) if least <= other <= _power_of_two(extent_of(kernel, axis))]
        shapes += [{**best.blocks, axis: other} for other in sizes]
    return [Tiling(blocks, n, best.stages) for n in dict.fromkeys((best.threads, *_THREAD_COUNTS)) for blocks in shapes]


def split_count(kernel: FusedKernel, target: Target, *, alone: bool = True) -> int:
    """The number of ranges into which a kernel's streamed axis is split, so that all multiprocessors have work."""
    tiling = choose_tiling(kernel, target, alone=alone)
    streamed = [axis for axis in kernel.streamed if axis in tiling.blocks]
    if not streamed or tiling.pass_configs:  # the options may split it within a cluster
        return 1
    steps = extent_of(kernel, streamed[-1]) // tiling.blocks[streamed[-1]]
    most = max(1, min(multiprocessors(target) // blocks_of(kernel, tiling), steps // _MIN_STEPS_PER_SPLIT))
    product = tiled_gemm(kernel, tiling)
    machine = target.machine
    if product is None or machine.rates is None or not machine.multiprocessors:
        return most
    rates = machine.rates

    def seconds(splits: int) -> float:
        return gemm_seconds(dataclasses.replace(product, workspace_splits=splits), machine, rates)

    return min(range(1, most + 1), key=seconds)


def multiprocessors(target: Target) -> int:
    """The number of blocks that keep a machine busy."""
    return target.machine.multiprocessors or _DEFAULT_MULTIPROCESSORS if target.is_gpu else 16


def blocks_of(kernel: FusedKernel, tiling: Tiling) -> int:
    """The blocks of a kernel's grid."""
    return math.prod(-(-extent_of(kernel, axis) // tiling.blocks.get(axis, 1)) for axis in kernel.grid)


def extent_of(kernel: FusedKernel, axis: Var) -> int:
    """The extent of an axis; a large number if it is not known."""
    size = bounds(kernel.extents[axis], kernel.domain).high
    return _UNKNOWN if size is None else min(size, _UNKNOWN)


def divisible(kernel: FusedKernel) -> tuple[Var, ...]:
    """The axes of the grid that can be tiled: no extent depends on them."""
    fixed = frozenset[Var]().union(*map(variables_of, kernel.extents.values()))
    return tuple(axis for axis in kernel.grid if axis not in fixed)


def _power_of_two(value: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(0, value - 1).bit_length()


# -- elements and rows ---------------------------------------------------------------------------------------------
def _elementwise_tiling(kernel: FusedKernel, target: Target) -> Tiling:
    blocks: dict[Var, int] = {}
    left = _ELEMENTWISE_TILE if target.is_gpu else _ROW_TILE
    for axis in divisible(kernel)[::-1][:_MAX_GRID_AXES]:
        blocks[axis] = min(_power_of_two(extent_of(kernel, axis)), left)
        left //= blocks[axis]
        if left < 2:
            break
    return Tiling(blocks, _THREADS, 1)


def _row_tiling(kernel: FusedKernel, target: Target) -> Tiling:
    """A few rows for each block, whole if they fit."""
    width = math.prod(extent_of(kernel, axis) for axis in kernel.extents if axis not in set(kernel.grid))
    blocks: dict[Var, int] = {}
    row = next(reversed(divisible(kernel)), None)
    least = 1
    if row is not None and _is_contiguous(kernel, row):
        coalesced = _COALESCED if target.is_gpu else _CPU_COALESCED
        least = min(coalesced, _power_of_two(extent_of(kernel, row)))
    held = width
    unequal = any(not variables_of(kernel.extents[axis]).isdisjoint(kernel.grid) for axis in kernel.streamed)
    if (width * least > _MAX_WHOLE_ROW or unequal) and kernel.streamed and not kernel.sequences:
        axis = kernel.streamed[-1]
        whole = [extent_of(kernel, a) for a in kernel.extents if a not in {*kernel.grid, *kernel.streamed}]
        step = max(_COALESCED, _ROW_TILE // least // math.prod(whole))
        blocks[axis] = min(1 << (step.bit_length() - 1), _power_of_two(extent_of(kernel, axis)))
        held = blocks[axis] * math.prod(whole)
    if row is not None:
        others = math.prod(extent_of(kernel, axis) for axis in kernel.grid if axis is not row)
        fair = max(1, extent_of(kernel, row) * others // (2 * multiprocessors(target)))
        wanted = max(least, min(_ROW_TILE // max(held, 1), fair))
        blocks[row] = min(_power_of_two(extent_of(kernel, row)), 1 << (wanted.bit_length() - 1))
        held *= blocks[row]
    each = _ROW_TILE // _THREADS if any(axis in blocks for axis in kernel.streamed) else _MAX_ELEMENTS_PER_THREAD
    threads = _THREADS * min(4, max(1, _power_of_two(-(-held // (each * _THREADS)))))
    return Tiling(blocks, threads, 2)


def _is_contiguous(kernel: FusedKernel, axis: Var) -> bool:
    """Whether the largest array that is reduced has neighboring elements along an axis."""
    reduced = [
        load
        for reduction in kernel.reductions
        for load in loads_of(reduction.body)
        if not variables_of(load).isdisjoint(reduction.reduced)
        if load.buffer not in kernel.by_array and load.indices
    ]

    def size(load: Load) -> int:
        return math.prod(extent_of(kernel, each) for each in variables_of(load) if each in kernel.extents)

    largest = max(map(size, reduced), default=0)
    return any(load.indices[-1] is axis for load in reduced if size(load) == largest)


# -- matrix products -----------------------------------------------------------------------------------------------
def _gemm_axes(kernel: FusedKernel, reduction: FusedReduction) -> tuple[Var, Var] | None:
    """The axes of rows and columns that are divided among blocks; None if one side has other axes."""
    product, grid = contraction(reduction), set(kernel.grid)
    if product is None or not {*product.rows, *product.columns} <= grid:
        return None
    rows, columns = product.rows[-1], product.columns[-1]
    return rows, columns


def _gemm_tilings(kernel: FusedKernel, target: Target, *, alone: bool) -> list[Tiling]:
    (reduction,) = kernel.reductions
    product, divided = contraction(reduction), _gemm_axes(kernel, reduction)
    if product is None or divided is None:
        return []
    row, column = divided
    m, n = extent_of(kernel, row), extent_of(kernel, column)
    k = math.prod(extent_of(kernel, axis) for axis in reduction.reduced)
    batch = math.prod(extent_of(kernel, axis) for axis in kernel.grid if axis is not row and axis is not column)
    plain = all(isinstance(without_widening(operand), Load) for operand in (product.a, product.b))
    known: dict[str, Any] = {"M": m * batch, "N": n, "K": k} if _UNKNOWN > max(m, n, k) else {}
    configs = gemm_configs(target=target, **known)
    switchable, most = alone and plain, 2 * max(m, _MMA_ROWS)
    configs = [c for c in configs if _has_whole_clusters(c, kernel, row, column, alone=batch == 1)]
    wanted = [c for c in configs if c["block_M"] < most and (switchable or PASS_CONFIGS not in c)]
    wanted = wanted or [min(configs, key=lambda c: (PASS_CONFIGS in c, c["block_M"] * c["block_N"]))]
    last = reduction.reduced[-1]
    depth = extent_of(kernel, last)
    if not target.is_gpu:
        config = configs[0]
        tiles = cpu_tiles(m, n, depth, [(c["block_M"], c["block_N"], c["block_K"]) for c in configs], known=bool(known))
        sizes = [{row: tile.rows, column: tile.columns, last: tile.depth} for tile in tiles]
        return [Tiling(each, config["threads"], config["num_stages"]) for each in sizes]
    most_deep = max(_MMA_ROWS, _power_of_two(depth))
    tilings = [
        Tiling(
            {row: config["block_M"], column: config["block_N"], last: min(config["block_K"], most_deep)},
            config["threads"],
            config["num_stages"],
            config.get(PASS_CONFIGS, {}) if switchable else {},
        )
        for config in wanted
    ]
    distinct = list({str(tiling): tiling for tiling in tilings}.values())
    return _fitting(distinct, kernel, target)


def _has_whole_clusters(config: Mapping[str, Any], kernel: FusedKernel, row: Var, column: Var, *, alone: bool) -> bool:
    """Whether the tiles of a product, if it is `alone` in a launch, surely form whole clusters of a configuration."""
    along_n, along_m = config.get(PASS_CONFIGS, {}).get(PassConfigKey.TL_CLUSTER.value, (1, 1))
    sides = ((along_n, column, config["block_N"]), (along_m, row, config["block_M"]))
    counts = [(count, int_const(kernel.extents[axis]), block) for count, axis, block in sides if count > 1]
    return all(alone and size is not None and -(-size // block) % count == 0 for count, size, block in counts)


def _fitting(tilings: list[Tiling], kernel: FusedKernel, target: Target) -> list[Tiling]:
    """Those tilings of a product whose operands fit in shared memory; less deep ones if there are none."""
    (reduction,) = kernel.reductions
    factor, shared = _element_bytes(reduction) // _TUNED_ELEMENT_BYTES, target.machine.shared_bytes
    if not shared or factor <= 1:
        return tilings
    last = reduction.reduced[-1]
    return [tiling for tiling in tilings if _operand_bytes(kernel, tiling, target) <= shared] or [
        dataclasses.replace(tiling, blocks={**tiling.blocks, last: max(_MMA_ROWS, tiling.blocks[last] // factor)})
        for tiling in tilings
    ]


def tiled_gemm(kernel: FusedKernel, tiling: Tiling) -> TiledGemm | None:
    """The sizes of a kernel that is one matrix product; None for others."""
    product = contraction(kernel.reductions[0]) if len(kernel.reductions) == 1 else None
    divided = _gemm_axes(kernel, kernel.reductions[0]) if product is not None else None
    if product is None or divided is None:
        return None
    row, column = divided
    last = kernel.reductions[0].reduced[-1]
    if not {row, column, last} <= set(tiling.blocks):
        return None
    m, n = extent_of(kernel, row), extent_of(kernel, column)
    k = math.prod(extent_of(kernel, axis) for axis in kernel.reductions[0].reduced)
    batch = math.prod(extent_of(kernel, axis) for axis in kernel.grid if axis is not row and axis is not column)
    tile = (tiling.blocks[row], tiling.blocks[column], tiling.blocks[last])
    return TiledGemm(m * batch, n, k, *tile, operand_bytes(product))


def operand_bytes(product: Contraction) -> float:
    """Bytes of an element of the operands as they lie in shared memory; of the wider ones if they differ."""
    return max(without_widening(operand).dtype.bits for operand in (product.a, product.b)) / 8


def fits_on_chip(kernel: FusedKernel, target: Target) -> bool:
    """Whether blocks can hold what a kernel of several products, or of rows that are sorted or scanned, keeps there."""
    shared = target.machine.shared_bytes
    if not shared or _gemm_chains_that_fit(kernel, target):
        return True
    return not kernel.sequences and _operand_bytes(kernel, _small_chain_tiling(kernel, target), target) <= shared


def _gemm_chain_tilings(kernel: FusedKernel, target: Target) -> list[Tiling]:
    return [*_gemm_chains_that_fit(kernel, target)] or [_small_chain_tiling(kernel, target)]


@functools.lru_cache(maxsize=16)  # several steps of lowering ask for those of a kernel
def _gemm_chains_that_fit(kernel: FusedKernel, target: Target) -> tuple[Tiling, ...]:
    """Tilings whose tiles stay in registers and in shared memory, that which is predicted to be fastest first."""
    shapes = [(128, 128, 256), (128, 64, 256), (64, 128, 128), (64, 64, 128), (64, 32, 128)]
    machine, rates = target.machine, target.machine.rates
    if rates is not None and rates.warps_per_group > 1 and _has_few_values_beside_products(kernel):
        shapes += [(192, depth, 384) for depth in (128, 96, 64)]  # three warp groups
    candidates = [
        (_gemm_chain_tiling(kernel, rows, depth, threads, stages), rows)
        for stages in (2, 1)
        for rows, depth, threads in shapes
    ]
    busy, shared = multiprocessors(target), machine.shared_bytes
    fitting = [
        (tiling, rows)
        for tiling, rows in candidates
        if _values_per_thread(kernel, tiling) <= _MAX_VALUES_PER_THREAD[tiling.threads]
        if not shared or _operand_bytes(kernel, tiling, target) <= shared
    ]
    fitting = [each for each in fitting if each[0].stages == fitting[0][0].stages]
    chain = ChainWork(kernel, {axis: min(extent_of(kernel, axis), _LONG_AXIS) for axis in kernel.extents})

    def cost(candidate: tuple[Tiling, int]) -> float:
        tiling, rows = candidate
        waves = -(-blocks_of(kernel, tiling) // busy)
        if rates is None:
            return waves * (rows + 32)  # a tile of few rows loads as much as one of many
        return waves * chain.block_cycles(tiling, machine, rates)

    return tuple(tiling for tiling, _ in sorted(fitting, key=cost))


def _small_chain_tiling(kernel: FusedKernel, target: Target) -> Tiling:
    """The largest of a few small tiles that fits in shared memory, or else the smallest."""
    warp, shared = target.machine.warp_size, target.machine.shared_bytes
    small = [_gemm_chain_tiling(kernel, rows, depth, warps * warp, 1) for rows, depth, warps in _SMALL_CHAINS]
    return next((tiling for tiling in small if _operand_bytes(kernel, tiling, target) <= shared), small[-1])


def _has_few_values_beside_products(kernel: FusedKernel) -> bool:
    """Whether a loop accumulates a product, and what it computes beside products reads nothing from memory."""
    if all(contraction(reduction) is None for reduction in kernel.accumulated):
        return False
    others = [reduction.body for reduction in kernel.reductions if contraction(reduction) is None]
    return all(load.buffer in kernel.by_array for body in others for load in loads_of(body))


def _operand_bytes(kernel: FusedKernel, tiling: Tiling, target: Target) -> int:
    """Shared memory of rows that are sorted, and of operands of gemms, of which those that a loop loads have stages."""
    grid = set(kernel.grid)
    looped = set(tiling.blocks) - grid
    products = [reduction for reduction in kernel.reductions if contraction(reduction) is not None]

    def size(axes: Iterable[Var], *, is_loaded: bool) -> int:
        own = [axis for axis in axes if axis in kernel.extents]
        tile = math.prod(tiling.blocks.get(axis, 1 if axis in grid else extent_of(kernel, axis)) for axis in own)
        return tile * (tiling.stages if is_loaded and not looped.isdisjoint(own) else 1)

    loaded = {
        (load.buffer, frozenset(variables_of(load)))
        for reduction in products
        for load in loads_of(reduction.body)
        if load.buffer not in kernel.by_array
    }
    total = sum(size(axes, is_loaded=True) * buffer.dtype.storage_bytes for buffer, axes in loaded)
    for reduction in products:
        element = _element_bytes(reduction)
        for operand in _operands(reduction):
            if _is_written(operand, element, kernel, target):
                is_loaded = all(load.buffer not in kernel.by_array for load in loads_of(operand))
                total += size(variables_of(operand), is_loaded=is_loaded) * element
    return total + _sorted_bytes(kernel, tiling)


def _sorted_bytes(kernel: FusedKernel, tiling: Tiling) -> int:
    """Shared memory in which rows are sorted: their keys and positions, as many as a power of two."""
    total, grid, seen = 0, set(kernel.grid), set[object]()
    for output in kernel.outputs:
        along = output.along
        if along is None or not isinstance(output.definition, Sort) or expr_key(output.body) in seen:
            continue
        seen.add(expr_key(output.body))
        rows = math.prod(tiling.blocks.get(axis, 1) for axis in output.axes if axis in grid)
        total += rows * _power_of_two(extent_of(kernel, along)) * (output.body.dtype.storage_bytes + _POSITION_BYTES)
    return total


def _is_written(operand: Expr, element: int, kernel: FusedKernel, target: Target) -> bool:
    """Whether threads write an operand to shared memory, by the size of an element as the gemm takes it."""
    if isinstance(operand, Load) and operand.dtype.storage_bytes == element:
        return False
    if element > _TUNED_ELEMENT_BYTES:
        return True
    rates = target.machine.rates
    read = list(kernel.reads(operand))
    if rates is not None and rates.warps_per_group > 1 or any(contraction(each) is None for each in read):
        return False  # it stays in registers
    return bool(read)


def _operands(reduction: FusedReduction) -> tuple[Expr, ...]:
    """The operands of a matrix product, as they are before they are converted to its dtype."""
    product = contraction(reduction)
    return () if product is None else (without_widening(product.a), without_widening(product.b))


def _element_bytes(reduction: FusedReduction) -> int:
    """The size of an element of the operands, as the gemm of a matrix product takes them."""
    dtypes = [operand.dtype for operand in _operands(reduction) if isinstance(operand, Load | Cast)]
    widest = max(dtypes, key=lambda dtype: dtype.bits, default=FLOAT32)
    return (widest if can_accumulate(widest, reduction.array.dtype) else reduction.array.dtype).storage_bytes


def _gemm_chain_tiling(kernel: FusedKernel, rows: int, depth: int, threads: int, stages: int) -> Tiling:
    blocks: dict[Var, int] = {}
    grid = set(kernel.grid)
    others = [reduction for reduction in kernel.reductions if contraction(reduction) is None]
    for reduction in kernel.reductions:
        product = contraction(reduction)
        for side in (product.rows, product.columns) if product is not None else ():
            if not set(side) <= grid or any(axis in blocks for axis in side):
                continue
            by_rows = any(side[-1] in set(r.axes) for r in others)
            least = threads // 32 * _MMA_ROWS if by_rows else _MMA_ROWS
            blocks[side[-1]] = min(rows, max(least, _power_of_two(extent_of(kernel, side[-1]))))
    for reduction in kernel.reductions:
        last = reduction.reduced[-1]
        streamed = reduction in kernel.accumulated
        whole = _is_held_whole(kernel, depth) if streamed else extent_of(kernel, last) <= _MAX_WHOLE_SUM
        if not whole:
            blocks[last] = min(depth, max(_MMA_ROWS, _power_of_two(extent_of(kernel, last))))
    return Tiling(blocks, threads, stages)


def _is_held_whole(kernel: FusedKernel, depth: int) -> bool:
    """Whether blocks hold whole rows: to sort them, or where one tile of products serves several passes."""
    if kernel.sequences:
        return True
    sizes = [int_const(kernel.extents[axis]) for axis in kernel.streamed]
    one_tile = len(sizes) == 1 and sizes[0] is not None and sizes[0] <= depth and sizes[0] % _MMA_ROWS == 0
    return one_tile and len(data_passes(kernel)) > 1


def _values_per_thread(kernel: FusedKernel, tiling: Tiling) -> float:
    """The registers that elements take of a thread: accumulators, and a copy of the largest result of an iteration.

    The copy is an operand of the product that the loop accumulates, if there is one, and as wide as that takes it.
    """
    grid = set(kernel.grid)

    def size(axis: Var) -> int:
        return tiling.blocks.get(axis, 1 if axis in grid else extent_of(kernel, axis))

    held = [math.prod(map(size, reduction.axes)) for reduction in kernel.reductions]
    per_step = max((h for h, r in zip(held, kernel.reductions, strict=True) if r not in kernel.accumulated), default=0)
    bytes_of_copies = [_element_bytes(r) for r in kernel.accumulated if contraction(r) is not None] or [_REGISTER_BYTES]
    return (sum(held) + per_step * min(1.0, max(bytes_of_copies) / _REGISTER_BYTES)) / tiling.threads
