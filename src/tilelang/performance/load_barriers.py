"""When copies to shared memory that barriers count are complete, by the clock of the threads that wait for them.

A pipeline of `n` stages bounds the time of an iteration by the latency of a copy over `n - 1`. With one stage nothing
hides it: the next copy begins when the threads release the tile.
"""

from __future__ import annotations

import math

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import walk
from tilelang.isa.instruction import Completion, Instruction
from tilelang.targets.machine import Rates


class LoadBarriers:
    """The barriers of a body that count the bytes of copies.

    Attributes:
        releases: For each of them the barrier that is waited for before its copies begin; itself if there is none.
    """

    def __init__(self, body: Stmt, rates: Rates) -> None:
        self._rates = rates
        self.releases = _releases(body)
        self._waited: set[Buffer] = set()  # those whose first wait is done
        self._released: dict[Buffer, float] = {}  # when threads arrived at each barrier last

    def arrive(self, barrier: Buffer, now: float) -> None:
        """Threads arrive at a barrier, of these or another one."""
        self._released[barrier] = now

    def ready(self, barrier: Buffer, now: float) -> float:
        """When a wait for copies ends that begins now."""
        latency = self._rates.memory_latency
        if barrier not in self._waited:
            self._waited.add(barrier)
            return self._rates.block + self._rates.first_box_copy * latency
        released = self._released.get(self.releases[barrier])
        return now if _stages(barrier) > 1 or released is None else released + latency

    def least_iteration(self, barrier: Buffer) -> float:
        """The fewest cycles of an iteration that waits for copies."""
        stages = _stages(barrier)
        return self._rates.memory_latency / (stages - 1) if stages > 1 else 0.0

    def advance(self, cycles: float) -> None:
        """The clock advances by iterations that are not followed one by one."""
        for barrier in self._released:
            self._released[barrier] += cycles


def _stages(barrier: Buffer) -> int:
    return math.prod(barrier.static_shape or (1,))


def _releases(body: Stmt) -> dict[Buffer, Buffer]:
    found: dict[Buffer, Buffer] = {}
    waited: Buffer | None = None
    for stmt in walk(body):
        if not isinstance(stmt, CallStmt) or not isinstance(stmt.routine, Instruction):
            continue
        unit = stmt.routine.async_unit
        for arg in stmt.args:
            if not isinstance(arg, Region) or arg.buffer.scope is not Scope.BARRIER:
                continue
            if unit is not None and unit.completion is Completion.BARRIER:
                barrier = arg.buffer.storage  # the first copies of a block may wait for nothing
                found[barrier] = waited or barrier
            elif stmt.routine.waits:
                waited = arg.buffer.storage
    return found
