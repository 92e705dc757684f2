"""`T.atomic_add`, `T.atomic_max` and `T.atomic_min` on tiles."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import convert, data_binary
from tilelang.ir.stmt import AtomicOp, MemoryOrder, MemoryScope, TileMemory, TileOp
from tilelang.ops.describe import check_extents, check_memory, check_scalars
from tilelang.records import record

_ON_TILES = (AtomicOp.ADD, AtomicOp.MAX, AtomicOp.MIN)


@record(eq=False)
class AtomicTile(TileOp):
    """`dst[...] = op(dst[...], src[...])`, atomic per element; `src` is a region or a scalar.

    If it is asynchronous, it may still be in flight after the statement; the program waits explicitly.
    """

    op: AtomicOp  # ADD, MAX or MIN
    src: Region | Expr
    dst: Region
    order: MemoryOrder = MemoryOrder.RELAXED
    scope: MemoryScope = MemoryScope.GPU
    is_async: bool = field(default=False, kw_only=True)

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"T.atomic_{self.op.value}"

    def reads(self) -> tuple[Region, ...]:
        """The source, if it is a tile, and the destination."""
        return (self.src, self.dst) if isinstance(self.src, Region) else (self.dst,)

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    def check(self) -> None:
        """The operator is defined on tiles, and the extents are equal."""
        if self.op not in _ON_TILES:
            raise ProgramError(
                f"{self.name}: works on one element, not on tiles", hint="name one element: C[i, j] instead of C[i, :]"
            )
        check_memory(self.name, *self.reads())
        check_scalars(self.name, *self.reads())
        if isinstance(self.src, Region):
            check_extents(self.name, self.src, self.dst)

    def reference(self, memory: TileMemory) -> None:
        """The operator, elementwise, in the destination's dtype."""
        dtype, operator = self.dst.dtype, self.op.operator
        assert operator is not None  # by `check`
        raw = memory.read(self.src) if isinstance(self.src, Region) else memory.value(self.src)
        values = np.asarray(convert(raw, dtype))

        def change(old: np.ndarray) -> np.ndarray:
            operand = values.reshape(old.shape) if isinstance(self.src, Region) else values
            return np.asarray(data_binary(operator, old, operand, dtype))

        memory.update(self.dst, change, self.order)
