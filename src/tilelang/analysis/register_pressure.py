"""The largest number of registers that fragments which are live at the same time take.

Takes a tile-level body and the registers of each fragment; gives the peak. A fragment is live where a later statement
may read what it holds. The elements of an operand die one by one as a parallel loop converts them to others, but a gemm
holds its operands and its accumulator all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tilelang.analysis.accesses import storages
from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, For, ParallelLoop, Seq, Stmt, While
from tilelang.ir.visit import sub_statements
from tilelang.ops.gemm import Gemm

Live = frozenset[Buffer]


def peak_registers(
    body: Stmt, registers: Callable[[Buffer], int], temporaries: Callable[[Stmt], int] = lambda _: 0
) -> int:
    """The most registers of a thread that live fragments take at any statement.

    Args:
        body: The body of a launch.
        registers: Those of a thread for a fragment.
        temporaries: Those that a statement needs for itself while it runs.
    """
    pressure = _Pressure(registers, temporaries)
    pressure.before(body, frozenset())
    return pressure.peak


class _Pressure:
    """Backward liveness over structured statements.

    Attributes:
        peak: The most registers so far.
    """

    def __init__(self, registers: Callable[[Buffer], int], temporaries: Callable[[Stmt], int]) -> None:
        self._registers, self._temporaries = registers, temporaries
        self.peak = 0

    def before(self, stmt: Stmt, after: Live) -> Live:
        """The values that are live before a statement, given those that are live after it."""
        match stmt:
            case Seq(body=body):
                for each in reversed(body):
                    after = self.before(each, after)
                return after
            case Alloc(buffer=buffer):
                return after - {buffer.storage}
            case For() | While():
                # what an iteration reads is live at the end of the one before
                return self._repeated(stmt.body, self._repeated(stmt.body, after))
        parts = () if isinstance(stmt, ParallelLoop) else sub_statements(stmt)
        if parts:  # a branch, which may not run
            return after.union(*(self.before(part, after) for part in parts))
        return self._leaf(stmt, after)

    def _repeated(self, body: Stmt, after: Live) -> Live:
        return after | self.before(body, after)

    def _leaf(self, stmt: Stmt, after: Live) -> Live:
        used = storages(stmt)
        touched, read = (frozenset(s for s in part if s.scope is Scope.FRAGMENT) for part in (used.all, used.read))
        before = (after - overwritten(stmt)) | read
        sets = (before | after | touched,) if isinstance(stmt, Gemm) else (before, after)
        self.peak = max(self.peak, max(map(self._total, sets)) + self._temporaries(stmt))
        return before

    def _total(self, live: Set[Buffer]) -> int:
        return sum(map(self._registers, live))
