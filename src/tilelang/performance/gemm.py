"""The time of a tiled gemm on a machine, from the sizes of its tiles alone: to compare many tilings at once.

Blocks load operands in steps of a pipeline, multiply, and store. Several blocks may split the reduction of a tile:
those of a cluster exchange their sums, others store them to a workspace, where a second launch adds them up. The
constants of the model are in the machine's record (`GemmRates`).
"""

from __future__ import annotations

import math

from tilelang.records import record
from tilelang.targets.machine import GemmRates, Machine, MeasuredRates


@record
class TiledGemm:
    """A gemm, and how it is divided.

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        block_m: Rows of a tile of the result.
        block_n: Columns of a tile of the result.
        block_k: Elements along K of a step.
        operand_bytes: Bytes of an element of the operands.
        result_bytes: Bytes of an element of the result.
        multicast_a: Blocks of a cluster along N, which load the same rows of A, by multicast.
        multicast_b: Blocks of a cluster along M, which load the same columns of B.
        cluster_splits: Blocks of a cluster that split the reduction of a tile.
        workspace_splits: Blocks that split it and store their sums to a workspace, for a second launch.
        operand_cycles: Cycles of a step in which threads compute operands, such as dequantized weights.
        tiles_per_block: Tiles along N that a block computes one after another.
        stages: Steps whose operands are on the way at once; 0 for as many as fit.
    """

    m: int
    n: int
    k: int
    block_m: int
    block_n: int
    block_k: int
    operand_bytes: float = 2.0
    result_bytes: float = 2.0
    multicast_a: int = 1
    multicast_b: int = 1
    cluster_splits: int = 1
    workspace_splits: int = 1
    operand_cycles: float = 0.0
    tiles_per_block: int = 1
    stages: int = 0

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along M and along N."""
        return math.ceil(self.m / self.block_m), math.ceil(self.n / self.block_n)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        along_m, along_n = self.tiles
        return along_m * math.ceil(along_n / self.tiles_per_block) * self.cluster_splits * self.workspace_splits

    @property
    def steps(self) -> int:
        """Steps of a block."""
        along_k = math.ceil(math.ceil(self.k / self.block_k) / (self.cluster_splits * self.workspace_splits))
        return along_k * self.tiles_per_block

    @property
    def loaded_bytes(self) -> float:
        """Bytes that a block loads in a step."""
        return (min(self.block_m, self.m) + self.block_n) * self.block_k * self.operand_bytes


def gemm_seconds(gemm: TiledGemm, machine: Machine, rates: MeasuredRates) -> float:
    """The expected time, with nothing in the caches."""
    start = rates.block + rates.gemm.start_latencies * rates.memory_latency + gemm.loaded_bytes / rates.loaded_bytes
    start += rates.gemm.multicast_start if gemm.multicast_b * gemm.multicast_a > 1 else 0
    store = gemm.block_m * gemm.block_n * gemm.result_bytes / rates.stored_bytes / gemm.cluster_splits
    store *= gemm.tiles_per_block
    store *= 2 if gemm.workspace_splits > 1 else 1
    waves = math.ceil(gemm.blocks / machine.multiprocessors)
    exchange = _exchange_cycles(gemm, rates.gemm)
    cycles = waves * (gemm.steps * _step_cycles(gemm, machine, rates) + store) + start + exchange
    chip = cycles / rates.clock
    memory = _memory_bytes(gemm, rates.gemm) / (machine.memory_bandwidth * rates.memory_share) + start / rates.clock
    power = rates.gemm.total_norm
    both = (chip**power + memory**power) ** (1 / power)
    return float(rates.launch + both + _second_launch_cycles(gemm, machine, rates) / rates.clock)


def _step_cycles(gemm: TiledGemm, machine: Machine, rates: MeasuredRates) -> float:
    fit = rates.gemm
    rows, columns, depth = max(gemm.block_m, fit.min_rows), gemm.block_n, gemm.block_k
    width = max(gemm.operand_bytes, 1) / 2  # matrix units compute as many as go into the same bits
    matrix = 2 * rows * columns * depth * width / (rates.matrix * _matrix_share(gemm, machine, rates))
    size = depth * gemm.operand_bytes
    from_cache = gemm.loaded_bytes
    if gemm.multicast_a * gemm.multicast_b > 1:
        from_cache = (gemm.block_m / gemm.multicast_a + columns / gemm.multicast_b) * size
    together = min(gemm.blocks, machine.multiprocessors) * from_cache / (rates.cache_rate * fit.cache_share)
    results = gemm.block_m * columns
    received = 4 * results * (gemm.cluster_splits - 1) / gemm.cluster_splits
    free = machine.shared_bytes - results * gemm.result_bytes / gemm.cluster_splits - received
    fitting = int(free // ((gemm.block_m + columns) * size))
    others = max(1, min(gemm.steps, fitting, gemm.stages or fitting) - 1)
    latency = (fit.exposed_latency * rates.memory_latency + gemm.loaded_bytes / rates.loaded_bytes) / others
    load, overhead = gemm.loaded_bytes / rates.loaded_bytes, fit.step_overhead
    bounds = (matrix, load + overhead, together + overhead, latency)
    step = float(math.fsum(bound**fit.step_norm for bound in bounds) ** (1 / fit.step_norm)) + gemm.operand_cycles
    step *= fit.cluster_step if gemm.cluster_splits > 1 else 1
    return step * (fit.multicast_step if gemm.multicast_a * gemm.multicast_b > 1 else 1)


def _matrix_share(gemm: TiledGemm, machine: Machine, rates: MeasuredRates) -> float:
    """The share of their rate that matrix units reach: less where they work long, since power is limited."""
    full = machine.multiprocessors * rates.matrix * rates.clock
    seconds = 2 * gemm.m * gemm.n * gemm.k * max(gemm.operand_bytes, 1) / 2 / full
    short, long = rates.gemm.power_seconds
    hot = min(1.0, max(0.0, math.log(seconds / short) / math.log(long / short)))
    return float(rates.matrix_by_group * (rates.matrix_sustained / rates.matrix_by_group) ** hot)


def _exchange_cycles(gemm: TiledGemm, fit: GemmRates) -> float:
    """Blocks of a cluster synchronize, and send each other all sums but their own."""
    if gemm.cluster_splits == 1:
        return 0.0
    sent = gemm.block_m * gemm.block_n * 4 * (gemm.cluster_splits - 1) / gemm.cluster_splits
    start = fit.cluster_exchange + fit.cluster_exchange_per_block * gemm.cluster_splits
    return start + sent / fit.cluster_bytes_per_cycle


def _second_launch_cycles(gemm: TiledGemm, machine: Machine, rates: MeasuredRates) -> float:
    """A launch reads the sums that others stored before."""
    if gemm.workspace_splits == 1:
        return 0.0
    size = math.prod(gemm.tiles) * gemm.workspace_splits * gemm.block_m * gemm.block_n * 4
    start = rates.gemm.second_launch + rates.gemm.second_launch_per_split * gemm.workspace_splits
    return start + 2 * size / (machine.multiprocessors * rates.stored_bytes)


def _memory_bytes(gemm: TiledGemm, fit: GemmRates) -> float:
    """Bytes between memory and its cache; those that several blocks read at about the same time come more slowly."""
    along_m, along_n = gemm.tiles
    loaded = 0.0
    for elements, readers in (
        (gemm.m * gemm.k, math.ceil(along_n / gemm.multicast_a)),
        (gemm.k * gemm.n, math.ceil(along_m / gemm.multicast_b)),
    ):
        size = elements * gemm.operand_bytes
        loaded += size * (1 + fit.reread_slowdown if readers > 1 and size > fit.cached_bytes else 1)
    return loaded + gemm.m * gemm.n * gemm.result_bytes
