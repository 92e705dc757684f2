"""Order barriers of gemms: consumer warpgroups that share a tile issue theirs one after another.

Takes the number of warpgroups; gives the statements around the gemms that a warpgroup issues together. While one
warpgroup issues, which takes about as long as the tensor cores need, the others compute on what theirs have given.
Each warpgroup has a named barrier, at which it waits for the one before it. Invariant: all warpgroups pass as many
order barriers, so that each arrival is waited for; these are numbered below those that `NamedBarriers` assigns.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.dtypes import INT32
from tilelang.ir.expr import Expr, const, select
from tilelang.ir.stmt import CallStmt, If, Stmt
from tilelang.records import record
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS

_FIRST = 1  # barrier 0 is that of all threads
_THREADS = const(2 * WARPGROUP_THREADS, INT32)  # of a barrier: a warpgroup waits, the one before it arrives


@record(slots=True, eq=False)
class IssueOrder:
    """The order in which warpgroups issue gemms.

    Attributes:
        warpgroups: How many there are; they are the first of the block.
        thread: The index of the executing thread in the block.
    """

    warpgroups: int
    thread: Expr

    def begin(self) -> list[Stmt]:
        """Before the first gemm: the last warpgroup lets the first one issue."""
        arrive = CallStmt(BAR_ARRIVE, (const(_FIRST, INT32), _THREADS))
        return [If(self.thread >= (self.warpgroups - 1) * WARPGROUP_THREADS, arrive)]

    def wait(self) -> Stmt:
        """Waits until the warpgroup before has issued its gemms."""
        return CallStmt(BAR_SYNC, (_FIRST + self.thread // WARPGROUP_THREADS, _THREADS))

    def arrive(self) -> Stmt:
        """Lets the next warpgroup issue its gemms."""
        is_last = self.thread >= (self.warpgroups - 1) * WARPGROUP_THREADS
        following = select(is_last, const(_FIRST, INT32), _FIRST + 1 + self.thread // WARPGROUP_THREADS)
        return CallStmt(BAR_ARRIVE, (following, _THREADS))

    @staticmethod
    def steps(statements: Iterable[Stmt]) -> list[Stmt]:
        """The waits and arrivals among statements, which warpgroups that do not execute these execute all the same."""
        return [s for s in statements if isinstance(s, CallStmt) and s.routine in (BAR_SYNC, BAR_ARRIVE)]

    def end(self) -> list[Stmt]:
        """Behind the last gemm: the first warpgroup waits for the last arrival."""
        return [If(self.thread < WARPGROUP_THREADS, CallStmt(BAR_SYNC, (const(_FIRST, INT32), _THREADS)))]
