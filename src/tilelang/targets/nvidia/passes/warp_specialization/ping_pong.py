"""Ping-pong: two consumer warpgroups each compute every other tile, one runs its epilogue during the other's main loop.

Takes the consumers' program of a persistent block, gives that of one of the two warpgroups. Invariant: the gemms of a
tile are issued only when those of the previous tile have been, so that the tensor cores serve one warpgroup at a time
and stages are released in the order in which they were filled.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import CallStmt, For, If, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.records import record
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS
from tilelang.transforms.fresh_names import with_fresh_names

GROUPS = 2


@record(slots=True, eq=False)
class OrderBarrier:
    """Orders the main loops of the two warpgroups.

    Attributes:
        barriers: One for each warpgroup; the other one arrives when it has issued the gemms of a tile.
        tiles: The loop over the tiles of a block.
        number: Which of the two this is.
    """

    barriers: Buffer
    tiles: For
    number: int

    def barrier_inits(self) -> list[Stmt]:
        """Initializes the barriers."""
        return [CallStmt(MBARRIER_INIT, (self._at(n), const(1, INT32))) for n in range(GROUPS)]

    def wait(self) -> list[Stmt]:
        """Waits until the other warpgroup has issued the gemms of the previous tile; the first tile has none."""
        own = self.tiles.var // GROUPS  # the tiles before, of this warpgroup
        phase = own % 2 if self.number else (own + 1) % 2
        return [CallStmt(MBARRIER_WAIT, (self._at(self.number), phase))]

    def arrive(self, thread: Expr) -> list[Stmt]:
        """Lets the other warpgroup issue its gemms."""
        arrive = CallStmt(MBARRIER_ARRIVE, (self._at(GROUPS - 1 - self.number),))
        return [If(thread % WARPGROUP_THREADS == 0, arrive)]

    def warpgroup_program(self, program: Stmt) -> Stmt:
        """The program for the tiles of this warpgroup, with variables and buffers of its own."""
        every_other = _EveryOtherTile(self).visit(program)
        assert every_other is not None
        return every_other if self.number == 0 else with_fresh_names(every_other)

    def _at(self, number: int) -> Region:
        return Region(self.barriers, (const(number, INT32),), (const(1, INT32),))


def order_barriers(tiles: For) -> tuple[OrderBarrier, ...]:
    """The order barriers of both warpgroups."""
    barriers = Buffer("order", (const(GROUPS, INT32),), SCALARS["uint64"], Scope.BARRIER)
    return tuple(OrderBarrier(barriers, tiles, number) for number in range(GROUPS))


class _EveryOtherTile(Rewriter):
    def __init__(self, order: OrderBarrier) -> None:
        self._order_barriers = order

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var is self._order_barriers.tiles.var:
            return dataclasses.replace(node, start=const(self._order_barriers.number, INT32), step=GROUPS)
        return self.rebuild_stmt(node)
