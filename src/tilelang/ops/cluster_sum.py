"""Sums of a tile over the blocks of a cluster: what the compiler writes where blocks share the work on one tile."""

from __future__ import annotations

import math

from tilelang.errors import CompilerBug, ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.ops.describe import check_memory, check_scalars
from tilelang.records import record


@record(eq=False)
class ClusterSum(TileOp):
    """In the first blocks of a cluster, `own` becomes a part of the sum of all blocks' `sums`, in the order of ranks.

    The owners have as many neighboring columns each, the block of rank r from `r * columns of own` on. What the others
    hold is of no use behind it, and they need not wait for anything. It stands once in a program, and the blocks have
    met before it.

    Attributes:
        sums: A whole fragment, which lies alike in all blocks.
        own: A whole fragment, of as many rows; the same as `sums` where one block owns all.
        parts: Shared memory for what comes from the others: as many elements as a block less than all of them has for
            `own`.
        barrier: Counts one arrival and the bytes that come.
        rank: The number of the executing block in its cluster.
        blocks: How many there are.
    """

    sums: Region
    own: Region
    parts: Region
    barrier: Region
    rank: Expr
    blocks: int

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "sum over a cluster"

    @property
    def owners(self) -> int:
        """How many of the blocks own a part of the sum."""
        return math.prod(self.sums.static_extent or (0,)) // math.prod(self.own.static_extent or (1,))

    def reads(self) -> tuple[Region, ...]:
        """The block's own sums, and what has come."""
        return (self.sums, self.parts)

    def writes(self) -> tuple[Region, ...]:
        """The result, and what comes. A barrier only counts: its contents are nobody's business."""
        return (self.own, self.parts)

    def check(self) -> None:
        """The parts are parts of the tile, and there is room for what comes."""
        check_memory(self.name, self.sums, self.own, self.parts)
        check_scalars(self.name, self.sums)
        rows, columns = self.sums.static_extent or (0, 0)
        own_rows, own_columns = self.own.static_extent or (0, 0)
        if own_rows != rows or not own_columns or columns % own_columns or columns // own_columns > self.blocks:
            raise ProgramError(f"{self.name}: '{self.own.buffer.name}' is no part of '{self.sums.buffer.name}'")
        needed = rows * own_columns * (self.blocks - 1)
        room = math.prod(self.parts.static_extent or (0,))
        if self.parts.buffer.scope is not Scope.SHARED or self.parts.dtype != self.sums.dtype or room != needed:
            raise ProgramError(f"{self.name}: '{self.parts.buffer.name}' is no room for {needed} sums")

    def reference(self, memory: TileMemory) -> None:
        """Never asked: the program of the user has no such operator, and one block alone cannot do it."""
        raise CompilerBug(f"{self.name}: the program of a block is interpreted without the others of its cluster")
