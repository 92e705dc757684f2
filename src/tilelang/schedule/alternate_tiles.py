"""Ping-pong: two groups of consumers each compute every other tile, one stores its results while the other computes.

Takes the consumers' program of a persistent block, gives that of one of the two groups. Invariant: the gemms of a tile
are issued only when those of the previous tile have been, so that the matrix units serve one group at a time and stages
are released in the order in which they were filled.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.expr import const
from tilelang.ir.pipeline import OrderArrive, OrderBarrier, OrderWait, barriers
from tilelang.ir.stmt import For, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.records import record
from tilelang.transforms.fresh_names import with_fresh_names

GROUPS = 2


@record(slots=True, eq=False)
class AlternateTiles:
    """One of the two groups, and its turns.

    Attributes:
        order: Orders the main loops of both groups.
        tiles: The loop over the tiles of a block.
        number: Which of the two this is.
    """

    order: OrderBarrier
    tiles: For
    number: int

    def wait(self) -> Stmt:
        """Waits until the other group has issued the gemms of the previous tile; the first tile has none."""
        own = self.tiles.var // GROUPS  # the tiles before, of this group
        return OrderWait(self.order, self.number, phase=own % 2 if self.number else (own + 1) % 2)

    def arrive(self) -> Stmt:
        """Lets the other group issue its gemms."""
        return OrderArrive(self.order, self.number)

    def group_program(self, program: Stmt) -> Stmt:
        """The program for the tiles of this group, with variables and buffers of its own."""
        every_other = _EveryOtherTile(self).visit(program)
        assert every_other is not None
        return every_other if self.number == 0 else with_fresh_names(every_other)


def alternate_tiles(tiles: For, threads: int) -> tuple[AlternateTiles, ...]:
    """Both groups, of so many threads each."""
    order = OrderBarrier("tiles", GROUPS, threads, barriers("order", GROUPS))
    return tuple(AlternateTiles(order, tiles, number) for number in range(GROUPS))


class _EveryOtherTile(Rewriter):
    def __init__(self, group: AlternateTiles) -> None:
        self._group = group

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var is self._group.tiles.var:
            return dataclasses.replace(node, start=const(self._group.number, INT32), step=GROUPS)
        return self.rebuild_stmt(node)
