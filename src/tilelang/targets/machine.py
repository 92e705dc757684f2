"""The compiler's description of a machine: one record of figures, the same for all vendors.

Takes nothing; gives `Machine`. Invariant: code outside of a vendor's folder asks this record, and no vendor's names.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from tilelang.records import record


class CommonFeature(enum.Flag):
    """Capabilities that machines of several vendors have, and that code which belongs to no vendor uses."""

    NONE = 0
    REDUCE_LANES = enum.auto()  # one instruction folds an integer over the lanes of a warp
    FILLED_BY_WARPS = enum.auto()  # a warp copies to contiguous shared memory only, which tiles without padding are
    ASYNC_GEMMS = enum.auto()  # threads compute while matrix units multiply tiles
    VOTES_AT_BARRIERS = enum.auto()  # a barrier tells whether a predicate holds in some thread, at no further cost


NOTHING: enum.Flag = CommonFeature.NONE
"""The capabilities of every machine."""


SECTOR_BYTES = 32
"""Bytes of a sector, the least that global memory transfers to a cache; traffic on every machine is counted in it.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
"""


@record(slots=True)
class SharedPhases:
    """The phases in which shared memory serves accesses of one kind and width: only lanes of one phase can conflict.

    Attributes:
        kind: "load" or "store".
        width: Bytes of a lane.
        lanes: The lanes that are served together, per phase; each lane of a warp in one of them.
        banks: The banks that serve them; 0 for all banks of the machine.
    """

    kind: str
    width: int
    lanes: tuple[tuple[int, ...], ...]
    banks: int = 0


@record(slots=True, eq=False)
class GemmRates:
    """Constants of the model of tiled gemms (`performance/gemm.py`), fitted to measured gemms.

    Attributes:
        min_rows: Rows of the smallest matrix instruction of a warp group.
        step_norm: Exponent of the p-norm that combines the bounds of a step along K.
        total_norm: Exponent of the p-norm that combines the time of all steps with that of device memory.
        step_overhead: Cycles of a step beside its loads.
        power_seconds: Seconds of matrix work up to which the highest clock rate holds, and from which on only
            `Rates.matrix_sustained`.
        start_latencies: Latencies of device memory until the first step computes.
        cache_share: Factor on `Rates.cache_rate` for loads of all blocks together.
        exposed_latency: Share of the latency of device memory that the stages of a pipeline have to hide.
        reread_slowdown: By how much longer an operand takes from device memory where several blocks read it.
        cached_bytes: Largest operand that stays in the cache.
        multicast_step: Factor on the time of a step with multicast: blocks of a cluster wait for one another.
        multicast_start: Cycles until a cluster with multicast starts.
        cluster_step: Factor on the time of a step where blocks of a cluster split the reduction.
        cluster_exchange: Cycles of their exchange of sums.
        cluster_exchange_per_block: Cycles of it per block of the cluster.
        cluster_bytes_per_cycle: Bytes that a block sends per cycle in it.
        second_launch: Cycles of the launch that adds up the sums which blocks stored in a workspace.
        second_launch_per_split: Cycles of it per block of a tile.
    """

    min_rows: int
    step_norm: float
    total_norm: float
    step_overhead: float
    power_seconds: tuple[float, float]
    start_latencies: float
    cache_share: float
    exposed_latency: float
    reread_slowdown: float
    cached_bytes: int
    multicast_step: float
    multicast_start: float
    cluster_step: float
    cluster_exchange: float
    cluster_exchange_per_block: float
    cluster_bytes_per_cycle: float
    second_launch: float
    second_launch_per_split: float


@record(slots=True, eq=False)
class Rates:
    """The speed of a machine: rates for the performance model, in cycles at the highest clock rate.

    What data sheets say, and shares of it that programs reach; latencies are measured, but for those of a `DataSheet`.

    Attributes:
        clock: Cycles per second.
        matrix: Products and sums of 16-bit operands that matrix units compute per cycle and multiprocessor; operands of
            other widths as many as go into the same bits.
        matrix_by_group: The share of them that instructions of warp groups reach.
        matrix_by_warp: The share of them that instructions of warps reach.
        matrix_sustained: The share of them that all multiprocessors together sustain on random data within the power
            that a device may draw.
        lanes: Results of ordinary instructions per cycle and multiprocessor.
        lanes_by_group: The share of them that one warp group reaches alone.
        special: Results of special functions.
        conversions: Conversions between floats of 32 bits and narrower ones.
        shared_bytes: Bytes of shared memory that a multiprocessor reads or writes per cycle.
        loaded_bytes: Bytes that a multiprocessor loads from the cache of the device per cycle.
        stored_bytes: Bytes that a multiprocessor stores to it per cycle.
        cache_rate: Bytes that all multiprocessors together load from it per cycle.
        cache_bytes: Size of the cache of the device.
        memory_share: The share of the bandwidth of device memory that programs reach.
        store_weight: Time of a byte that is stored to device memory, relative to one that is loaded.
        memory_latency: Cycles of a load from device memory.
        shared_latency: Cycles of a load from shared memory.
        arithmetic_latency: Cycles from an instruction to the next one that needs its result.
        matrix_latency: Cycles by which a group of asynchronous matrix instructions outlasts its work.
        matrix_restart: Cycles from there until the next group of the same warps computes, if these wait in between.
        barrier: Cycles of a barrier of a block.
        launch: Seconds of a launch in which nothing is done.
        block: Cycles from the start of a block to its first instruction, and from its last one to the next block.
        least_registers: Registers of a thread up to which the vendor's compiler does not try to save any.
        most_registers: Registers that a thread can have.
        schedulers: Warps of which a multiprocessor issues an instruction in the same cycle.
        warps_per_group: Warps of a warp group, which share a matrix instruction.
        shuffle_latency: Cycles from a shuffle to its value.
        box_copy_issue: Cycles of the thread that issues an asynchronous copy of a box.
        first_box_copy: Latencies of device memory until the first copy of a box is complete, whose tensor map is loaded
            before.
        unit_norm: Exponent of the p-norm that combines the times of units, which are never busy without pause.
        launch_norm: Exponent of the p-norm that combines these with the time of blocks alone and of device memory.
        queueing: By how much loads take longer when memory is busy all the time, relative to one when it is idle.
        dirty_share: Share of the cache that holds results which are not in memory yet.
        written_back: Bytes of them that are written back for each byte that comes into the cache.
        functions: Ordinary instructions and special functions of a call, by the name of the function; those that fast
            mathematics has instead begin with two underscores; "divide" is a division of floats.
    """

    clock: float
    matrix: int
    matrix_by_group: float
    matrix_by_warp: float
    matrix_sustained: float
    lanes: int
    lanes_by_group: float
    special: int
    conversions: int
    shared_bytes: int
    loaded_bytes: float
    stored_bytes: float
    cache_rate: float
    cache_bytes: int
    memory_share: float
    store_weight: float
    memory_latency: float
    shared_latency: float
    arithmetic_latency: float
    matrix_latency: float
    matrix_restart: float
    barrier: float
    launch: float
    block: float
    least_registers: int
    most_registers: int
    schedulers: int
    warps_per_group: int
    shuffle_latency: float
    box_copy_issue: float
    first_box_copy: float
    unit_norm: float
    launch_norm: float
    queueing: float
    dirty_share: float
    written_back: float
    functions: Mapping[str, tuple[int, int]]


@record(slots=True, eq=False)
class MeasuredRates(Rates):
    """The rates of a machine on which programs were measured, by which tiles are chosen.

    Attributes:
        gemm: Constants of the model of tiled gemms.
    """

    gemm: GemmRates


@record(slots=True)
class Machine:
    """One machine of a vendor, as code is compiled for it.

    Where a figure has no meaning, as clusters on a machine without them, or threads on a CPU, it has its default.

    Attributes:
        name: As the vendor's compilers spell it.
        features: What it can do beyond what all machines of the vendor can; a flag of the vendor's own.
        common: What it can do that other vendors' machines can, too.
        warp_size: Threads that execute an instruction together: 32 or 64 on a GPU (the width of a wave), 1 on a CPU.
        max_threads: Threads of a block.
        max_grid: Blocks of a grid along x, y and z.
        max_grid_threads: Threads of a grid along each of them; 0 for any number.
        registers_per_multiprocessor: Registers of all threads that a multiprocessor holds.
        register_files: Parts of a multiprocessor that have an equal share of them each, and of a block's warps.
        array_registers: Registers that an array of a thread may take; larger ones lie in local memory.
        shared_bytes: Shared memory that a block may have.
        shared_per_multiprocessor: Shared memory of a multiprocessor, for all of its blocks.
        reserved_shared: Bytes of it that the system takes for each block.
        threads_per_multiprocessor: Threads of all blocks that a multiprocessor holds.
        blocks_per_multiprocessor: Blocks that a multiprocessor holds.
        shared_banks: Banks of shared memory, among which successive words are spread.
        bank_bytes: Bytes of a word, which a bank serves in a cycle.
        shared_phases: The accesses whose phases are not those of other accesses: successive lanes, as many as need one
            word of every bank.
        max_cluster: Blocks of a cluster; 1 without clusters.
        groups: How many multiprocessors a device has that programs are scheduled for, in each group that holds whole
            clusters; empty where no schedule asks. Devices with fewer or more of them run the same programs.
        matrix_flops: Floating-point operations per second of dense products of 16-bit floats; 0 where unknown.
        memory_bandwidth: Bytes per second of device memory, by the data sheet; 0 where unknown.
        rates: The rates of the performance model; None if they have not been measured.
        data_sheet: A device with this machine code, for predictions where there are no such rates.
    """

    name: str
    features: enum.Flag = NOTHING
    common: CommonFeature = CommonFeature.NONE
    warp_size: int = 1
    max_threads: int = 1
    max_grid: tuple[int, int, int] = (1, 1, 1)
    max_grid_threads: int = 0
    registers_per_multiprocessor: int = 0
    register_files: int = 1
    array_registers: int = 0
    shared_bytes: int = 0
    shared_per_multiprocessor: int = 0
    reserved_shared: int = 0
    threads_per_multiprocessor: int = 0
    blocks_per_multiprocessor: int = 0
    shared_banks: int = 0
    bank_bytes: int = 0
    shared_phases: tuple[SharedPhases, ...] = ()
    max_cluster: int = 1
    groups: tuple[int, ...] = ()
    matrix_flops: float = 0.0
    memory_bandwidth: float = 0.0
    rates: MeasuredRates | None = None
    data_sheet: DataSheet | None = None

    def has(self, features: enum.Flag) -> bool:
        """Whether it can do all of these, of its vendor's features or of the common ones; it has none of another's."""
        own = (self.features, self.common)
        return not features or any(type(features) is type(each) and features in each for each in own)

    def phases(self, kind: str, width: int) -> SharedPhases:
        """Return the phases of shared memory for accesses of a kind ("load" or "store") with `width` bytes a lane."""
        for row in self.shared_phases:
            if (row.kind, row.width) == (kind, width):
                return row
        together = min(self.warp_size, self.shared_banks * self.bank_bytes // max(self.bank_bytes, width))
        firsts = range(0, self.warp_size, together)
        # the last phase is shorter where elements are no power of two wide, such as vectors of three
        lanes = tuple(tuple(range(first, min(first + together, self.warp_size))) for first in firsts)
        return SharedPhases(kind, width, lanes)

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors of a device that programs are scheduled for; 0 where no schedule asks."""
        return sum(self.groups)

    def shared_of_block(self, blocks: int) -> int:
        """Shared memory that each of so many blocks may have that a multiprocessor holds at once."""
        return min(self.shared_bytes, self.shared_per_multiprocessor // blocks - self.reserved_shared)

    def blocks_at_once(self, cluster: int) -> int:
        """Blocks that run at the same time, one on a multiprocessor, in clusters of `cluster` blocks."""
        return sum(group // cluster for group in self.groups) * cluster


@record(slots=True, eq=False)
class DataSheet:
    """A device as its vendor describes it: what predictions are made from, and nothing that code depends on.

    Attributes:
        device: Its name.
        machine: The record of the machine with its figures filled in.
        rates: Its rates.
    """

    device: str
    machine: Machine
    rates: Rates
