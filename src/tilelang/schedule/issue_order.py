"""The order in which groups of consumers that share a tile issue gemms: one after another.

Takes the number of groups and of their threads; gives the statements around the gemms that a group issues together.
While one group issues, which takes about as long as the matrix units need, the others compute on what theirs have
given. Invariant: all groups pass as many order barriers, so that each arrival is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.expr import Expr
from tilelang.ir.pipeline import OrderArrive, OrderBarrier, OrderWait
from tilelang.ir.stmt import If, Stmt
from tilelang.records import record


@record(slots=True, eq=False)
class IssueOrder:
    """The order in which groups issue gemms.

    Attributes:
        order: The order barrier of the groups, which are the first threads of the block.
        thread: The index of the executing thread in the block.
    """

    order: OrderBarrier
    thread: Expr

    def begin(self) -> list[Stmt]:
        """Before the first gemm: the last group lets the first one issue."""
        last = self.order.groups - 1
        return [If(self.thread >= last * self.order.threads, OrderArrive(self.order, last))]

    def wait(self) -> Stmt:
        """Waits until the group before has issued its gemms."""
        return OrderWait(self.order)

    def arrive(self) -> Stmt:
        """Lets the next group issue its gemms."""
        return OrderArrive(self.order)

    @staticmethod
    def steps(statements: Iterable[Stmt]) -> list[Stmt]:
        """The waits and arrivals among statements, which groups that do not execute these execute all the same."""
        return [s for s in statements if isinstance(s, OrderWait | OrderArrive)]

    def end(self) -> list[Stmt]:
        """Behind the last gemm: the first group waits for the last arrival."""
        return [If(self.thread < self.order.threads, OrderWait(self.order, 0))]


def issue_order(groups: int, threads: int, thread: Expr) -> IssueOrder:
    """The order of `groups` groups of `threads` threads each."""
    return IssueOrder(OrderBarrier("gemms", groups, threads), thread)
