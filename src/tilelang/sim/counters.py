"""Counters of a simulated kernel, as the hardware's profiler has them: instructions, bytes, transactions, conflicts.

Takes what warps execute, gives sums and a table. Invariant: one warp executing one instruction counts once, however
many of its lanes are active; counting never changes a run.

The rules of memory, per request of a warp:
- global memory moves in sectors of 32 bytes; a request costs as many as its lanes touch
  (Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory");
- shared memory serves wavefronts, as `layout.shared_memory` counts them for the banks of the machine.
"""

from __future__ import annotations

import collections
from dataclasses import field

import numpy as np

from tilelang.errors import Loc
from tilelang.layout.shared_memory import INACTIVE, least_wavefronts, wavefronts
from tilelang.records import record
from tilelang.targets.machine import SECTOR_BYTES, Machine


@record(frozen=False)
class Traffic:
    """Accesses of one kind, in sum or of one line.

    Attributes:
        requests: Instructions of a warp.
        bytes: Of all active lanes.
        transactions: Sectors of global memory, or wavefronts of shared memory.
        ideal: The least transactions that could serve the requests: every byte once, no conflict.
    """

    requests: int = 0
    bytes: int = 0
    transactions: int = 0
    ideal: int = 0

    @property
    def extra(self) -> int:
        """Transactions beyond the ideal."""
        return self.transactions - self.ideal


@record(frozen=False)
class Counters:
    """The counts of a run.

    Attributes:
        instructions: Executions by a warp, per kind: "load global 16", "mma.sync ...", "float op", ...
        traffic: Per "global load", "global store", "shared load", "shared store", "global atomic", "shared atomic".
        lines: The same per line of the user's program.
        launches: How many kernels ran.
        blocks: How many blocks.
        warps: How many warps.
        barriers: Barriers of a whole block.
    """

    instructions: collections.Counter[str] = field(default_factory=collections.Counter)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    lines: dict[tuple[str, Loc], Traffic] = field(default_factory=dict)
    launches: int = 0
    blocks: int = 0
    warps: int = 0
    barriers: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory beyond those that the accesses need."""
        return sum(traffic.extra for kind, traffic in self.traffic.items() if kind.startswith("shared"))

    def count(self, kind: str, times: int = 1) -> None:
        """A warp executes an instruction."""
        self.instructions[kind] += times

    def global_access(self, kind: str, addresses: np.ndarray, width: int, loc: Loc) -> None:
        """A warp touches global memory.

        Args:
            kind: "load", "store" or "atomic".
            addresses: Per active lane, in bytes from the beginning of a buffer that is aligned to a sector.
            width: Bytes per lane.
            loc: The user's line.
        """
        sectors = distinct_sectors(addresses, width)
        ideal = len(np.unique(addresses)) * width
        self._enter(f"global {kind}", loc, len(addresses) * width, sectors, -(-ideal // SECTOR_BYTES))

    def shared_access(
        self, kind: str, addresses: np.ndarray, lanes: np.ndarray, width: int, loc: Loc, machine: Machine
    ) -> None:
        """A warp touches shared memory.

        Args:
            kind: "load", "store" or "atomic".
            addresses: Per active lane, in bytes.
            lanes: The numbers of these lanes.
            width: Bytes per lane.
            loc: The user's line.
            machine: Its warp size and banks.
        """
        of_lane = np.full(machine.warp_size, INACTIVE)
        of_lane[lanes] = addresses
        phases = "load" if kind == "load" else "store"
        count = wavefronts(of_lane, width, machine, phases)
        ideal = least_wavefronts(of_lane, width, machine, phases)
        self._enter(f"shared {kind}", loc, len(addresses) * width, int(count), int(ideal))

    def bulk_access(self, kind: str, size: int, loc: Loc) -> None:
        """A bulk copy of contiguous bytes.

        Args:
            kind: "bulk load" or "bulk store".
            size: In bytes.
            loc: The user's line.
        """
        sectors = -(-size // SECTOR_BYTES)
        self._enter(kind, loc, size, sectors, sectors)

    def _enter(self, kind: str, loc: Loc, size: int, transactions: int, ideal: int) -> None:
        for traffic in (self.traffic.setdefault(kind, Traffic()), self.lines.setdefault((kind, loc), Traffic())):
            traffic.requests += 1
            traffic.bytes += size
            traffic.transactions += transactions
            traffic.ideal += ideal

    # -- for people -----------------------------------------------------------------------------------------
    def table(self) -> str:
        """The counts as text, and the lines of the program that cost transactions they need not."""
        lines = [
            f"launches {self.launches}   blocks {self.blocks}   warps {self.warps}   block barriers {self.barriers}",
            "",
            f"{'memory':<16}{'requests':>12}{'bytes':>16}{'transactions':>14}{'ideal':>12}{'extra':>12}",
        ]
        lines += [f"{kind:<16}{_row(traffic)}" for kind, traffic in sorted(self.traffic.items())]
        lines += ["", f"{'instruction':<44}{'warps':>12}"]
        order = sorted(self.instructions.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{kind:<44}{times:>12}" for kind, times in order]
        costly = sorted(
            ((kind, loc, traffic) for (kind, loc), traffic in self.lines.items() if traffic.extra > 0),
            key=lambda row: (-row[2].extra, row[0], str(row[1])),
        )
        if costly:
            lines += ["", f"{'costly lines':<44}{'requests':>12}{'transactions':>14}{'extra':>12}"]
            for kind, loc, traffic in costly[:_COSTLY]:
                label = f"{kind} {str(loc).rsplit('/', 1)[-1]}"
                lines.append(f"{label:<44}{traffic.requests:>12}{traffic.transactions:>14}{traffic.extra:>12}")
        return "\n".join(lines)


_COSTLY = 10  # lines of the table


def _row(traffic: Traffic) -> str:
    return (
        f"{traffic.requests:>12}{traffic.bytes:>16}{traffic.transactions:>14}{traffic.ideal:>12}{traffic.extra:>12}"
    )


def distinct_sectors(addresses: np.ndarray, width: int) -> int:
    """Count the sectors that accesses of `width` bytes at these addresses touch."""
    first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
    reach = int((last - first).max(initial=0)) + 1
    touched = first[:, None] + np.arange(reach)
    return len(np.unique(touched[touched <= last[:, None]]))
