"""What a machine is to the compiler: one record of figures, the same for all vendors.

Takes nothing; gives `Machine`. Invariant: code outside of a vendor's folder asks this record, and no vendor's names.
"""

from __future__ import annotations

import enum

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
        registers_per_multiprocessor: Registers of all threads that a multiprocessor holds.
        shared_bytes: Shared memory that a block may have.
        shared_banks: Banks of shared memory, among which successive words are spread.
        bank_bytes: Bytes of a word, which a bank serves in a cycle.
        shared_phases: The accesses whose phases are not those of other accesses: successive lanes, as many as need one
            word of every bank.
        max_cluster: Blocks of a cluster; 1 without clusters.
        groups: How many multiprocessors a device has that programs are scheduled for, in each group that holds whole
            clusters; empty where no schedule asks. Devices with fewer or more of them run the same programs.
    """

    name: str
    features: enum.Flag = NOTHING
    common: CommonFeature = CommonFeature.NONE
    warp_size: int = 1
    max_threads: int = 1
    max_grid: tuple[int, int, int] = (1, 1, 1)
    registers_per_multiprocessor: int = 0
    shared_bytes: int = 0
    shared_banks: int = 0
    bank_bytes: int = 0
    shared_phases: tuple[SharedPhases, ...] = ()
    max_cluster: int = 1
    groups: tuple[int, ...] = ()

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
