"""Whether an element of a tile exceeds a limit, which the compiler asks where it may have to compute a tile again."""

from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.records import record


@record(eq=False)
class AnyExceeds(TileOp):
    """`result = any(not tile <= limit)`, so that NaN exceeds every limit.

    Threads that compute gemms together may have an answer of their own, about the elements that they hold. What depends
    on the answer must be about these alone, and right whatever it is for others.

    Attributes:
        tile: A fragment.
        limit: The limit.
        result: The scalar that receives the answer.
        complete: Tiles that are computed before, since threads wait for each other.
    """

    tile: Region
    limit: float
    result: Region
    complete: tuple[Region, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operator in messages."""
        return "vote on a limit"

    def reads(self) -> tuple[Region, ...]:
        """The tile, and what is computed before."""
        return (self.tile, *self.complete)

    def writes(self) -> tuple[Region, ...]:
        """The answer."""
        return (self.result,)

    def check(self) -> None:
        """Nothing: no user writes it."""

    def reference(self, memory: TileMemory) -> None:
        """One answer for the whole tile."""
        memory.write(self.result, np.asarray(not np.all(memory.read(self.tile) <= self.limit)))
