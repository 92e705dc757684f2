"""The work of a block: of each unit of a multiprocessor, in bytes, and how long it takes alone."""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import field
from typing import Any

from tilelang.ir.buffer import Buffer
from tilelang.records import record


class Unit(enum.Enum):
    """The units of a multiprocessor, to which the work of all its blocks adds up; the value is the name for users."""

    ISSUE = "instructions"
    SPECIAL = "special functions"
    CONVERSION = "conversions"
    SHARED = "shared memory"
    MATRIX = "matrix units"
    LOAD = "loads from the cache"
    STORE = "stores to the cache"


def _zeros() -> defaultdict[Any, float]:
    return defaultdict(float)


@record(frozen=False, eq=False)
class BlockWork:
    """The work of one block.

    Attributes:
        cycles: Of each unit of the multiprocessor.
        duration: Cycles that it takes if no other block delays it.
        max_duration: The same of the block that takes longest.
        memory_stalls: Cycles of `duration` in which it waits for device memory.
        loaded: Bytes that it loads of each buffer in global memory.
        stored: Bytes that it stores to each.
        matrix_cycles: Those of matrix units at their full rate.
    """

    cycles: defaultdict[Unit, float] = field(default_factory=_zeros)
    duration: float = 0.0
    max_duration: float = 0.0
    memory_stalls: float = 0.0
    loaded: defaultdict[Buffer, float] = field(default_factory=_zeros)
    stored: defaultdict[Buffer, float] = field(default_factory=_zeros)
    matrix_cycles: float = 0.0

    def add(self, other: BlockWork, share: float) -> None:
        """Adds a share of another block's work."""
        for unit, cycles in other.cycles.items():
            self.cycles[unit] += cycles * share
        for mine, others in ((self.loaded, other.loaded), (self.stored, other.stored)):
            for buffer, size in others.items():
                mine[buffer] += size * share
        self.matrix_cycles += other.matrix_cycles * share
        self.duration += other.duration * share
        self.memory_stalls += other.memory_stalls * share
        self.max_duration = max(self.max_duration, other.max_duration)


@record
class LaunchWork:
    """The work of a launch.

    Attributes:
        block: The average of its blocks.
        blocks: How many there are.
        threads: Of a block.
        shared_bytes: Shared memory of a block.
        registers: Of a thread.
        cluster: Blocks of a cluster.
    """

    block: BlockWork
    blocks: int
    threads: int
    shared_bytes: int
    registers: int
    cluster: int = 1
