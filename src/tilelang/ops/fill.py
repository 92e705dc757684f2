"""`T.fill` and `T.clear`."""

from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.ops.describe import check_memory, check_scalars
from tilelang.records import record


@record(eq=False)
class Fill(TileOp):
    """Stores `value`, converted to the dtype of `dst`, to every element of `dst`."""

    dst: Region
    value: Expr

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.fill"

    def reads(self) -> tuple[Region, ...]:
        """Nothing."""
        return ()

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    def check(self) -> None:
        """The destination holds scalars."""
        check_memory(self.name, self.dst)
        check_scalars(self.name, self.dst)

    def reference(self, memory: TileMemory) -> None:
        """Writes the value to the region."""
        memory.write(self.dst, np.asarray(convert(memory.value(self.value), self.dst.dtype)))
