"""The resources that one kernel of a GPU program uses, as its compiler reports them."""

from __future__ import annotations

from typing import NamedTuple


class Resources(NamedTuple):
    """The resources of one kernel.

    Attributes:
        registers: Of 32 bits, per thread.
        shared_bytes: Shared memory of a block: what the kernel declares, and what its launch adds.
        spill_bytes: Bytes that the code stores and loads for registers that were spilled; 0 without spills.
        local_bytes: Local memory of a thread: spilled registers, and arrays that could not be kept in registers.
        serialized: Whether asynchronous matrix instructions wait where the program does not: each for the previous one,
            or some of them; see the warnings.
        accumulators: How many of the registers only matrix instructions use, on machines that have such.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    local_bytes: int
    serialized: bool = False
    accumulators: int = 0
