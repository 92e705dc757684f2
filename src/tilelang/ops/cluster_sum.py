"""Reduction of an accumulator over the blocks of a cluster, emitted by the compiler for split-K within a cluster."""

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
    """`own = sum over blocks of sums[:, own columns]` in the first `owners` blocks of a cluster.

    The block of rank r owns the columns from `r * columns of own` on; partial sums are added in the order of ranks.
    Blocks that own no columns hold undefined values afterwards and do not wait. A program has at most one such
    operator, preceded by a cluster barrier.

    Attributes:
        sums: A whole fragment, with the same layout in all blocks.
        own: A whole fragment with the rows of `sums`; `sums` itself if one block owns all columns.
        parts: Shared memory for the partial sums of the other blocks: `blocks - 1` times the elements of `own`.
        barrier: A transaction barrier: one arrival, and the received bytes.
        rank: Rank of the executing block in the cluster.
        blocks: Blocks of the cluster.
    """

    sums: Region
    own: Region
    parts: Region
    barrier: Region
    rank: Expr
    blocks: int

    @property
    def name(self) -> str:
        """Name in messages."""
        return "sum over a cluster"

    @property
    def owners(self) -> int:
        """Number of blocks that own a part of the sum."""
        return math.prod(self.sums.static_extent or (0,)) // math.prod(self.own.static_extent or (1,))

    def reads(self) -> tuple[Region, ...]:
        """The block's sums, and the received partial sums."""
        return (self.sums, self.parts)

    def writes(self) -> tuple[Region, ...]:
        """The result, and the received partial sums. The barrier is not data."""
        return (self.own, self.parts)

    def check(self) -> None:
        """`own` is a part of `sums`, and `parts` has the needed size."""
        check_memory(self.name, self.sums, self.own, self.parts)
        check_scalars(self.name, self.sums)
        rows, columns = self.sums.static_extent or (0, 0)
        own_rows, own_columns = self.own.static_extent or (0, 0)
        if own_rows != rows or not own_columns or columns % own_columns or columns // own_columns > self.blocks:
            raise ProgramError(f"{self.name}: '{self.own.buffer.name}' is no part of '{self.sums.buffer.name}'")
        needed = rows * own_columns * (self.blocks - 1)
        size = math.prod(self.parts.static_extent or (0,))
        if self.parts.buffer.scope is not Scope.SHARED or self.parts.dtype != self.sums.dtype or size != needed:
            raise ProgramError(f"{self.name}: '{self.parts.buffer.name}' does not hold {needed} sums")

    def reference(self, memory: TileMemory) -> None:
        """Not interpreted: the interpreter runs one block at a time, and users cannot write this operator."""
        raise CompilerBug(f"{self.name}: the program of a block is interpreted without the others of its cluster")
