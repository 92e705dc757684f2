"""Predicts the time of a tiled kernel from its graph, without lowering it, to compare many tilings.

The counts go into the same record and model as those of lowered programs (`performance/prediction.py`); they are
coarser, and take microseconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilelang.arith.interval import bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.visit import loads_of, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Array
from tilelang.level1.placement import Tiling
from tilelang.performance.arithmetic import instructions_of
from tilelang.performance.prediction import predicted
from tilelang.performance.work import BlockWork, LaunchWork, Unit
from tilelang.targets.machine import SECTOR_BYTES, Machine, Rates

_CLEARLY_FASTER = 0.95  # of a time; smaller differences are within the error of the model
_ADDRESS_REGISTERS = 30  # of a thread, beside its elements
_COMBINING = 250  # cycles to combine the threads' parts of a reduction
_MERGED_STEPS = 4  # iterations whose loads the vendor's compiler issues together, by unrolling
_MIN_MMA_ROWS = 64  # of matrix instructions of warp groups
_ACCESS_ISSUE = 2  # instructions of an access and its address


def sorted_by_predicted_time(kernel: FusedKernel, tilings: Sequence[Tiling], machine: Machine) -> list[Tiling]:
    """Tilings by predicted time; the first one stays first unless another is clearly faster.

    The order stays where the machine has no rates, or a size is symbolic.
    """
    sizes = {axis: bounds(extent, kernel.domain).high for axis, extent in kernel.extents.items()}
    known = {axis: size for axis, size in sizes.items() if size is not None}
    if machine.rates is None or not machine.multiprocessors or len(known) < len(sizes):
        return list(tilings)
    times = predicted_seconds(kernel, tilings, machine, machine.rates, known)
    order = sorted(range(len(tilings)), key=lambda number: times[number])
    if times[order[0]] > _CLEARLY_FASTER * times[0]:
        order.remove(0)
        order.insert(0, 0)
    return [tilings[number] for number in order]


def predicted_seconds(
    kernel: FusedKernel, tilings: Sequence[Tiling], machine: Machine, rates: Rates, extents: Mapping[Var, int]
) -> list[float]:
    """The predicted times of tilings."""
    passes = len(data_passes(kernel))
    counts = [_Counts(kernel, tiling, rates, extents, passes) for tiling in tilings]
    return [predicted([each.launch()], machine, rates).seconds for each in counts]


class _Counts:
    """The counts of one block."""

    def __init__(
        self, kernel: FusedKernel, tiling: Tiling, rates: Rates, extents: Mapping[Var, int], passes: int
    ) -> None:
        self._kernel, self._tiling, self._rates, self._extents = kernel, tiling, rates, extents
        self._passes = passes
        self._grid = frozenset(kernel.grid)
        divided = [each.reduced for each in kernel.reductions if any(axis in tiling.blocks for axis in each.reduced)]
        self._stepped = dict.fromkeys(axis for reduced in divided for axis in reduced)

    def launch(self) -> LaunchWork:
        """The work of all blocks."""
        block = BlockWork()
        instructions = special = conversions = 0.0
        for body, axes in self._bodies():
            count = self._elements(axes)
            needed = instructions_of(body, self._rates, fast_math=False)
            instructions += needed.ordinary * count
            special += needed.special * count
            conversions += needed.conversions * count
        accesses = 0.0
        for load in self._loads():
            accesses += self._count_access(block.loaded, load, load.buffer.dtype.storage_bytes)
        for output in self._kernel.outputs:
            accesses += self._count_access(block.stored, output.target, output.array.stored_dtype.storage_bytes)
        issued = instructions + special + conversions + accesses * _ACCESS_ISSUE
        rates = self._rates
        block.cycles[Unit.ISSUE] = issued / rates.lanes
        block.cycles[Unit.SPECIAL] = special / rates.special
        block.cycles[Unit.CONVERSION] = conversions / rates.conversions
        block.cycles[Unit.LOAD] = sum(block.loaded.values()) / rates.loaded_bytes
        block.cycles[Unit.STORE] = sum(block.stored.values()) / rates.stored_bytes
        block.matrix_cycles = self._matrix_cycles()
        block.cycles[Unit.MATRIX] = block.matrix_cycles / rates.matrix_by_group
        live = int(self._live_elements() / self._tiling.threads)
        registers = min(rates.most_registers, max(rates.least_registers, live + _ADDRESS_REGISTERS))
        self._time(block, issued, accesses, registers)
        blocks = math.prod(-(-self._extents[axis] // self._tile_extent(axis)) for axis in self._kernel.grid)
        return LaunchWork(block, blocks, self._tiling.threads, self._shared_bytes(), registers)

    # -- sizes ----------------------------------------------------------------------------------------------
    def _tile_extent(self, axis: Var) -> int:
        """Elements of a tile along an axis."""
        whole = 1 if axis in self._grid or axis in self._stepped else self._extents[axis]
        return self._tiling.blocks.get(axis, whole)

    def _block_extent(self, axis: Var) -> int:
        """Elements that a block computes along an axis."""
        return self._tile_extent(axis) if axis in self._grid else self._extents[axis]

    def _elements(self, axes: Iterable[Var]) -> float:
        return float(math.prod(map(self._block_extent, axes)))

    @property
    def _steps(self) -> int:
        steps = math.prod(-(-self._extents[axis] // self._tile_extent(axis)) for axis in self._stepped)
        return steps * self._passes if self._stepped else 1

    # -- work -----------------------------------------------------------------------------------------------
    def _bodies(self) -> Iterator[tuple[Expr, tuple[Var, ...]]]:
        """The bodies that threads compute, and their axes."""
        for reduction in self._kernel.reductions:
            if contraction(reduction) is None:
                yield reduction.body, (*reduction.axes, *reduction.reduced)
        for output in self._kernel.outputs:
            yield output.body, output.axes

    def _loads(self) -> list[Load]:
        """The reads of arrays in memory; those of one pass are shared by all bodies."""
        found: dict[tuple[object, ...], Load] = {}
        bodies = [reduction.body for reduction in self._kernel.reductions]
        bodies += [output.body for output in self._kernel.outputs]
        for number, body in enumerate(bodies):
            part = number if self._stepped and self._passes > 1 else 0
            for load in loads_of(body):
                if isinstance(load.buffer, Array) and load.buffer not in self._kernel.by_array:
                    found.setdefault((part, load.buffer, variables_of(load)), load)
        return list(found.values())

    def _count_access(self, bytes_of: defaultdict[Buffer, float], load: Load, size: int) -> float:
        """Counts the bytes of an access; gives how many accesses of 16 bytes it takes."""
        amount = self._elements(variables_of(load)) * size
        last = load.indices[-1] if load.indices else None
        run = (self._tile_extent(last) if isinstance(last, Var) else 1) * size if variables_of(load) else SECTOR_BYTES
        amount *= max(1.0, SECTOR_BYTES / run)
        bytes_of[load.buffer] += amount
        return amount / min(16, max(size, run))

    def _matrix_cycles(self) -> float:
        cycles = 0.0
        for reduction in self._kernel.reductions:
            product = contraction(reduction)
            if product is not None:
                rows = math.prod(map(self._block_extent, product.rows))
                pad = max(1.0, _MIN_MMA_ROWS / rows)
                count = self._elements((*reduction.axes, *reduction.reduced))
                bits = min(operand.dtype.bits for operand in (product.a, product.b))
                cycles += 2 * count * pad * max(bits, 8) / 16 / self._rates.matrix
        return cycles

    # -- resources and time ---------------------------------------------------------------------------------
    def _live_elements(self) -> float:
        """Elements that the threads of a block hold at once."""
        tiles = [math.prod(map(self._tile_extent, (*each.axes, *each.reduced))) for each in self._kernel.reductions
                 if contraction(each) is None]  # fmt: skip
        results = [math.prod(map(self._tile_extent, each.axes)) for each in self._kernel.reductions]
        return float(max(tiles, default=0) + sum(results)) if self._kernel.reductions else 0.0

    def _shared_bytes(self) -> int:
        """Shared memory of the operands of matrix products."""
        size = 0
        for reduction in self._kernel.reductions:
            if contraction(reduction) is not None:
                for load in loads_of(reduction.body):
                    if isinstance(load.buffer, Array) and load.buffer not in self._kernel.by_array:
                        tile = math.prod(map(self._tile_extent, variables_of(load)))
                        size += tile * load.buffer.dtype.storage_bytes * max(1, self._tiling.stages)
        return size

    def _time(self, block: BlockWork, issued: float, accesses: float, registers: int) -> None:
        """Cycles of one block alone: its steps wait for loads, or for the stages of a pipeline."""
        rates, stages, steps, threads = self._rates, self._tiling.stages, self._steps, self._tiling.threads
        pipelined = bool(self._stepped) and stages > 1 and block.matrix_cycles > 0
        computing = block.cycles[Unit.MATRIX] + issued / threads
        if pipelined:
            waiting = rates.memory_latency * (1 + steps / (stages - 1))
        else:  # registers for the loaded elements limit the loads of a thread in flight
            rounds = accesses / threads / steps / max(1, (registers - _ADDRESS_REGISTERS // 2) // 4)
            waiting = rates.memory_latency * max(1.0, steps * max(1 / _MERGED_STEPS, rounds))
        combining = _COMBINING * len(self._kernel.reductions) * (0 if block.matrix_cycles else 1)
        alone = max(computing, waiting) if pipelined else computing + waiting
        block.duration = block.max_duration = rates.block + alone + combining + rates.memory_latency
        block.memory_stalls = min(waiting, alone)
