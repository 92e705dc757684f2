"""The threads of a block that execute a statement together, and which memory their accesses touch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.scalar import Value
from tilelang.ir.stmt import CallStmt, For, Group, If, Stmt
from tilelang.isa.instruction import Instruction
from tilelang.layout.shared_memory import INACTIVE, wavefronts
from tilelang.performance.values import Values
from tilelang.powers import next_power_of_two
from tilelang.records import record
from tilelang.sim.counters import distinct_sectors
from tilelang.targets.machine import SECTOR_BYTES, Machine

_WIDEST_ACCESS = 16  # bytes of a lane


@record(slots=True, eq=False)
class _Warp:
    """What index arithmetic asks of a warp: its number in the block, its size and the numbers of its lanes."""

    index: int
    size: int
    lane: np.ndarray


class Threads:
    """Some threads of a block.

    Attributes:
        values: Of index expressions, per thread.
        mask: Which threads they are.
        warps: How many warps have some of them.
    """

    mask: np.ndarray
    warps: int

    def __init__(self, count: int, machine: Machine, known: dict[Var, Value]) -> None:
        self._machine = machine
        self.values = Values(known)
        self.select(np.ones(count, bool))

    def select(self, mask: np.ndarray) -> None:
        """Which threads execute what follows."""
        self.mask = mask
        self.warps = int(self._by_warp(mask).any(axis=1).sum())

    def of_group(self, group: Group) -> np.ndarray:
        """Which threads of the block make a group; one that may be any of several is the first of these."""
        inside = np.zeros(len(self.mask), bool)
        first = group.first if self.mask[group.first : group.first + 1].any() else int(np.argmax(self.mask))
        inside[first : first + group.count] = True
        return inside

    def iterate(self, loop: For) -> bool:
        """Selects those of these threads that have an iteration of a loop, as far as is known; says whether any has."""
        start, stop = self.values.of(loop.start), self.values.of(loop.stop)
        if start is not None and stop is not None:
            runs = np.less(start, stop) if loop.step > 0 else np.greater(start, stop)
            if not runs.all():
                self.select(self.mask & runs)
        return self.warps > 0

    def bodies(self, stmt: If) -> list[tuple[Stmt | None, np.ndarray]]:
        """The bodies of a branch and which of these threads run them."""
        if stmt.group is not None:
            truth = self.of_group(stmt.group)
        else:
            condition = self.values.of(stmt.condition)
            if condition is None:  # warps diverge, so that they run both
                return [(stmt.then_body, self.mask), (stmt.else_body, self.mask)]
            truth = np.broadcast_to(np.asarray(condition, bool), self.mask.shape)
        return [(stmt.then_body, self.mask & truth), (stmt.else_body, self.mask & ~truth)]

    def mean(self, expr: Expr) -> int | None:
        """The value of an integer, the mean of these threads; None if it is not known."""
        value = self.values.of(expr)
        if value is None:
            return None
        return round(float(np.broadcast_to(np.asarray(value), self.mask.shape)[self.mask].mean()))

    def of_warps(self, expr: Expr) -> Value | None:
        """The value of an expression that all lanes of each warp share; None if they do not."""
        value = self.values.of(expr)
        if value is None:
            return None
        lanes = self._by_warp(np.broadcast_to(np.asarray(value), self.mask.shape))
        return value if (lanes == lanes[:, :1]).all() else None

    def result_of(self, call: CallStmt, instruction: Instruction) -> Value | None:
        """The result of an instruction, if it follows from the index of a thread and known arguments."""
        if instruction.dialect_key[:1] == ("shuffle",):
            return self.of_warps(call.args[1]) if isinstance(call.args[1], Expr) else None
        values = [self.values.of(arg) for arg in call.args if isinstance(arg, Expr)]
        known = [np.broadcast_to(np.asarray(value), self.mask.shape) for value in values if value is not None]
        if not instruction.is_index_arithmetic or len(known) < len(call.args):
            return None
        rows, lanes = [*map(self._by_warp, known)], np.arange(self._machine.warp_size)
        warps = [_Warp(index, len(lanes), lanes) for index in range(len(self._by_warp(self.mask)))]
        results = [instruction.simulate(warp, *(row[warp.index] for row in rows)) for warp in warps]
        return np.concatenate(results)[: len(self.mask)].astype(np.int64)

    def _by_warp(self, values: np.ndarray) -> np.ndarray:
        size = self._machine.warp_size
        missing = -len(values) % size
        return (np.pad(values, (0, missing)) if missing else values).reshape(-1, size)

    # -- accesses -------------------------------------------------------------------------------------------
    def addresses(self, buffer: Buffer, indices: Sequence[Expr]) -> np.ndarray | None:
        """The addresses of the first warp, `INACTIVE` in lanes that are not among these threads; None if not known."""
        place = self.values.offset(buffer, indices)
        if place is None or not self.warps:
            return None
        addresses = np.broadcast_to(np.asarray(place, np.int64) * buffer.dtype.storage_bytes, self.mask.shape)
        rows = self._by_warp(np.where(self.mask, addresses, INACTIVE) + 1) - 1  # padding is inactive
        return np.asarray(rows[int(np.argmax((rows >= 0).any(axis=1)))])

    def sector_bytes(self, buffer: Buffer, indices: Sequence[Expr], width: int) -> float:
        """Bytes of the sectors of global memory that an access of all these threads touches."""
        addresses = self.addresses(buffer, indices)
        if addresses is None:  # each lane has a place of its own
            return float(self._machine.warp_size * max(width, SECTOR_BYTES) * self.warps)
        return float(distinct_sectors(addresses[addresses >= 0], width) * SECTOR_BYTES * self.warps)

    def shared_cycles(self, kind: str, addresses: np.ndarray | None, width: int) -> float:
        """Cycles of shared memory for an access of a warp, with bank conflicts where addresses are known.

        Args:
            kind: "load" or "store".
            addresses: Per lane, in bytes.
            width: Bytes of a lane.
        """
        if addresses is None:
            machine = self._machine
            return max(1.0, machine.warp_size * width / (machine.shared_banks * machine.bank_bytes))
        power = next_power_of_two(min(width, _WIDEST_ACCESS))
        return float(wavefronts(addresses, power, self._machine, kind)) * max(1.0, width / _WIDEST_ACCESS)
