"""Ping-pong: two groups of consumers each compute every other tile, one stores its results while the other computes.

Takes the consumers' program of a persistent block, gives that of one of the two groups. Invariant: the gemms of a tile
are issued only when those of the previous tile have been, so that the matrix units serve one group at a time and stages
are released in the order in which they were filled.

Where only run time tells which tiles there are, and how many fills they have, both groups go through all tiles: each
counts the main loops, computes those of its turns, and of the others counts the fills alone.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, binary, const
from tilelang.ir.pipeline import OrderArrive, OrderBarrier, OrderWait, barriers
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, For, If, Stmt, Store
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
        main_loop: The number of the next main loop of both groups: that of the tile, where each has one.
        main_loops: Counts them at run time, where that is not known.
    """

    order: OrderBarrier
    tiles: For
    number: int
    main_loop: Var
    main_loops: Buffer | None

    def wait(self) -> Stmt:
        """Waits until the other group has issued the gemms of the previous tile; the first tile has none."""
        own = self.main_loop // GROUPS  # the main loops before, of this group
        return OrderWait(self.order, self.number, phase=own % 2 if self.number else (own + 1) % 2)

    def arrive(self) -> Stmt:
        """Lets the other group issue its gemms."""
        return OrderArrive(self.order, self.number)

    def counters(self) -> list[Stmt]:
        """Allocates what this group counts at run time."""
        return [] if self.main_loops is None else [Alloc(self.main_loops, const(0, INT32))]

    def after_loop(self) -> list[Stmt]:
        """Counts a main loop, of either group."""
        if self.main_loops is None:
            return []
        return [Store(self.main_loops, (), Load(self.main_loops, (), INT32) + 1)]

    def in_turn(self, own: Stmt, other: Stmt) -> list[Stmt]:
        """What this group does in a tile whose main loop is the next of its own, and in one of the other group."""
        assert self.main_loops is not None
        number = binary(BinaryOp.BITAND, Load(self.main_loops, (), INT32), const(2**31 - 1, INT32))  # not negative
        return [Bind(self.main_loop, number), If(self.main_loop % GROUPS == self.number, own, other)]

    def group_program(self, program: Stmt) -> Stmt:
        """The program for the tiles of this group, with variables and buffers of its own."""
        own = program if self.main_loops is not None else _EveryOtherTile(self).visit(program)
        assert own is not None
        return own if self.number == 0 else with_fresh_names(own)


def alternate_tiles(tiles: For, threads: int, *, counted: bool) -> tuple[AlternateTiles, ...]:
    """Both groups, of so many threads each, which count main loops at run time or know them by the tiles."""
    order = OrderBarrier("tiles", GROUPS, threads, barriers("order", GROUPS))
    main_loops = Buffer("main_loops", (), INT32, Scope.VAR) if counted else None
    main_loop = Var("main_loop", INT32, index=True) if counted else tiles.var
    return tuple(AlternateTiles(order, tiles, number, main_loop, main_loops) for number in range(GROUPS))


class _EveryOtherTile(Rewriter):
    def __init__(self, group: AlternateTiles) -> None:
        self._group = group

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var is self._group.tiles.var:
            return dataclasses.replace(node, start=const(self._group.number, INT32), step=GROUPS)
        return self.rebuild_stmt(node)
