"""What a machine is to the compiler: one record of figures, the same for all vendors.

Takes nothing; gives `Machine`. Invariant: code outside of a vendor's folder asks this record, and no vendor's names.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from tilelang.records import record


class CommonFeature(enum.Flag):
    """What machines of several vendors can do, and code that belongs to none of them makes use of."""

    NONE = 0
    REDUCE_LANES = enum.auto()  # one instruction folds an integer over the lanes of a warp
    FILLED_BY_WARPS = enum.auto()  # a warp copies to contiguous shared memory only, which tiles without padding are


NOTHING: enum.Flag = CommonFeature.NONE
"""What every machine can do."""


SECTOR_BYTES = 32
"""Bytes of a sector, the least that global memory transfers to a cache; traffic on every machine is counted in it.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
"""


@record(slots=True)
class SharedPhases:
    """How shared memory serves accesses of one kind and width: only lanes of one phase can have bank conflicts.

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
class Rates:
    """How fast a machine is: what the performance model computes with, in cycles at the highest clock rate.

    What data sheets say, and shares of it that programs reach; latencies are measured.

    Attributes:
        clock: Cycles per second.
        matrix: Products and sums of 16-bit operands that matrix units compute per cycle and multiprocessor; operands of
            other widths as many as go into the same bits.
        matrix_by_group: The share of them that instructions of warp groups reach.
        matrix_by_warp: The share of them that instructions of warps reach.
        matrix_sustained: The share of them that all multiprocessors together sustain on random data within the power
            that a device may draw.
        lanes: Results of ordinary instructions per cycle and multiprocessor.
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
        barrier: Cycles of a barrier of a block.
        launch: Seconds of a launch in which nothing is done.
        block: Cycles from the start of a block to its first instruction, and from its last one to the next block.
        functions: Ordinary instructions and special functions of a call, by the name of the function; those that fast
            mathematics has instead begin with two underscores; "divide" is a division of floats.
    """

    clock: float
    matrix: int
    matrix_by_group: float
    matrix_by_warp: float
    matrix_sustained: float
    lanes: int
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
    barrier: float
    launch: float
    block: float
    functions: Mapping[str, tuple[int, int]]


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
        shared_bytes: Shared memory that a block may have.
        shared_per_multiprocessor: Shared memory of a multiprocessor, for all of its blocks.
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
        rates: What the performance model needs; None where nobody has measured it.
    """

    name: str
    features: enum.Flag = NOTHING
    common: CommonFeature = CommonFeature.NONE
    warp_size: int = 1
    max_threads: int = 1
    max_grid: tuple[int, int, int] = (1, 1, 1)
    max_grid_threads: int = 0
    registers_per_multiprocessor: int = 0
    shared_bytes: int = 0
    shared_per_multiprocessor: int = 0
    threads_per_multiprocessor: int = 0
    blocks_per_multiprocessor: int = 0
    shared_banks: int = 0
    bank_bytes: int = 0
    shared_phases: tuple[SharedPhases, ...] = ()
    max_cluster: int = 1
    groups: tuple[int, ...] = ()
    matrix_flops: float = 0.0
    memory_bandwidth: float = 0.0
    rates: Rates | None = None

    def has(self, features: enum.Flag) -> bool:
        """Whether it can do all of these, of its vendor's features or of the common ones; it has none of another's."""
        own = (self.features, self.common)
        return not features or any(type(features) is type(each) and features in each for each in own)

    def phases(self, kind: str, width: int) -> SharedPhases:
        """How shared memory serves accesses of a kind ("load" or "store"), with `width` bytes of each lane."""
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
        """How many a device has that programs are scheduled for; 0 where no schedule asks."""
        return sum(self.groups)

    def blocks_at_once(self, cluster: int) -> int:
        """Blocks that run at the same time, one on a multiprocessor, where so many make a cluster."""
        return sum(group // cluster for group in self.groups) * cluster
