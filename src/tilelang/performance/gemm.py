"""The time of a tiled gemm on a machine, from the sizes of its tiles alone: to compare many ways to divide it at once.

Blocks load operands in steps of a pipeline, multiply, and store. Several blocks may split the reduction of a tile:
those of a cluster exchange their sums, others store them to memory, where a second launch adds them up.

What is not in the machine's record is a fit to 744 gemms of 45 shapes on an H200, from 256^3 to 3072^3, with 1 to 512
rows, and with K up to 32768. Fitted to half of the shapes only, it is as close to the others.
"""

from __future__ import annotations

import math

from tilelang.records import record
from tilelang.targets.machine import Machine, Rates

_LEAST_ROWS = 64  # that matrix instructions of warp groups have
_SHARPNESS = 3.6  # of the maximum of what bounds a step
_SHARPNESS_OF_MEMORY = 2.5  # of the maximum of all steps, and of device memory
_STEP = 20  # cycles of a step beside its loads
_POWER_SECONDS = (30e-6, 300e-6)  # of matrix units: until then at the highest clock rate, and from when on sustained
_START = 1.5  # latencies until the first step computes
_CACHE_SHARE = 1.18  # of the rate of the cache at which blocks load that come from it together
_LATENCY = 0.45  # of memory, of which the stages of a pipeline hide all but their share
_REREAD = 0.31  # by how much an operand takes longer to come from memory where several blocks read it
_CACHED_BYTES = 8 << 20  # of an operand that stays in the cache
_MULTICAST = 1.12  # of the time of a step: blocks of a cluster wait for one another
_MULTICAST_START = 100  # cycles
# Blocks of a cluster that split a reduction
_CLUSTER_STEP = 1.1  # of the time of a step
_MEETING, _MEETING_OF_A_BLOCK = 950, 385  # cycles
_SENT = 22.5  # bytes per cycle
# Blocks that store their sums
_SECOND_LAUNCH, _READ_OF_A_PART = 4000, 40  # cycles


@record
class TiledGemm:
    """A gemm, and how it is divided.

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        rows: Of a tile.
        columns: Of a tile.
        depth: Elements along K of a step.
        operand_bytes: Bytes of an element of the operands.
        result_bytes: Bytes of an element of the result.
        along_n: Blocks of a cluster that load the same rows of A, by multicast.
        along_m: Blocks of a cluster that load the same columns of B.
        cluster: Blocks of a cluster that split the reduction of a tile.
        parts: Blocks that split it and store their sums, for a second launch.
        computed: Cycles of a step in which threads compute operands.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    depth: int
    operand_bytes: float = 2.0
    result_bytes: float = 2.0
    along_n: int = 1
    along_m: int = 1
    cluster: int = 1
    parts: int = 1
    computed: float = 0.0

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along M and along N."""
        return math.ceil(self.m / self.rows), math.ceil(self.n / self.columns)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.tiles) * self.cluster * self.parts

    @property
    def steps(self) -> int:
        """Steps of a block."""
        return math.ceil(math.ceil(self.k / self.depth) / (self.cluster * self.parts))

    @property
    def loaded(self) -> float:
        """Bytes that a block loads in a step."""
        return (min(self.rows, self.m) + self.columns) * self.depth * self.operand_bytes


def gemm_seconds(gemm: TiledGemm, machine: Machine, rates: Rates) -> float:
    """The expected time, with nothing in the caches."""
    start = rates.block + _START * rates.memory_latency + gemm.loaded / rates.loaded_bytes
    start += _MULTICAST_START if gemm.along_m * gemm.along_n > 1 else 0
    store = gemm.rows * gemm.columns * gemm.result_bytes / rates.stored_bytes / gemm.cluster
    store *= 2 if gemm.parts > 1 else 1
    waves = math.ceil(gemm.blocks / machine.multiprocessors)
    cycles = waves * (gemm.steps * _step_cycles(gemm, machine, rates) + store) + start + _exchange_cycles(gemm)
    chip = cycles / rates.clock
    memory = _memory_bytes(gemm) / (machine.memory_bandwidth * rates.memory_share) + start / rates.clock
    power = _SHARPNESS_OF_MEMORY
    both = (chip**power + memory**power) ** (1 / power)
    return float(rates.launch + both + _second_launch_cycles(gemm, machine, rates) / rates.clock)


def _step_cycles(gemm: TiledGemm, machine: Machine, rates: Rates) -> float:
    rows, columns, depth = max(gemm.rows, _LEAST_ROWS), gemm.columns, gemm.depth
    width = max(gemm.operand_bytes, 1) / 2  # matrix units compute as many as go into the same bits
    matrix = 2 * rows * columns * depth * width / (rates.matrix * _matrix_share(gemm, machine, rates))
    size = depth * gemm.operand_bytes
    from_cache = gemm.loaded
    if gemm.along_n * gemm.along_m > 1:
        from_cache = (gemm.rows / gemm.along_n + columns / gemm.along_m) * size
    together = min(gemm.blocks, machine.multiprocessors) * from_cache / (rates.cache_rate * _CACHE_SHARE)
    results = gemm.rows * columns
    received = 4 * results * (gemm.cluster - 1) / gemm.cluster
    free = machine.shared_bytes - results * gemm.result_bytes / gemm.cluster - received
    others = max(1, min(gemm.steps, int(free // ((gemm.rows + columns) * size))) - 1)
    latency = (_LATENCY * rates.memory_latency + gemm.loaded / rates.loaded_bytes) / others
    bounds = (matrix, gemm.loaded / rates.loaded_bytes + _STEP, together + _STEP, latency)
    step = float(math.fsum(bound**_SHARPNESS for bound in bounds) ** (1 / _SHARPNESS)) + gemm.computed
    step *= _CLUSTER_STEP if gemm.cluster > 1 else 1
    return step * (_MULTICAST if gemm.along_n * gemm.along_m > 1 else 1)


def _matrix_share(gemm: TiledGemm, machine: Machine, rates: Rates) -> float:
    """The share of their rate that matrix units reach: less where they work long, since power is limited."""
    full = machine.multiprocessors * rates.matrix * rates.clock
    seconds = 2 * gemm.m * gemm.n * gemm.k * max(gemm.operand_bytes, 1) / 2 / full
    short, long = _POWER_SECONDS
    hot = min(1.0, max(0.0, math.log(seconds / short) / math.log(long / short)))
    return float(rates.matrix_by_group * (rates.matrix_sustained / rates.matrix_by_group) ** hot)


def _exchange_cycles(gemm: TiledGemm) -> float:
    """Blocks of a cluster meet, and send each other all sums but their own."""
    if gemm.cluster == 1:
        return 0.0
    sent = gemm.rows * gemm.columns * 4 * (gemm.cluster - 1) / gemm.cluster
    return _MEETING + _MEETING_OF_A_BLOCK * gemm.cluster + sent / _SENT


def _second_launch_cycles(gemm: TiledGemm, machine: Machine, rates: Rates) -> float:
    """A launch reads the sums that others stored before."""
    if gemm.parts == 1:
        return 0.0
    size = math.prod(gemm.tiles) * gemm.parts * gemm.rows * gemm.columns * 4
    return _SECOND_LAUNCH + _READ_OF_A_PART * gemm.parts + 2 * size / (machine.multiprocessors * rates.stored_bytes)


def _memory_bytes(gemm: TiledGemm) -> float:
    """Bytes between memory and its cache; those that several blocks read at about the same time come more slowly."""
    along_m, along_n = gemm.tiles
    loaded = 0.0
    for elements, readers in (
        (gemm.m * gemm.k, math.ceil(along_n / gemm.along_n)),
        (gemm.k * gemm.n, math.ceil(along_m / gemm.along_m)),
    ):
        size = elements * gemm.operand_bytes
        loaded += size * (1 + _REREAD if readers > 1 and size > _CACHED_BYTES else 1)
    return loaded + gemm.m * gemm.n * gemm.result_bytes
