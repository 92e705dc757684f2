"""`T.cumsum` and `T.cummax`: running totals along one dimension."""

from __future__ import annotations

import enum

import numpy as np

from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.ops.accumulate import accumulator
from tilelang.ops.describe import check_dim, check_extents, check_memory, check_scalars
from tilelang.records import record


class ScanOp(enum.Enum):
    """The running operators; the value is the suffix of `T.cum`."""

    SUM = "sum"
    MAX = "max"


_RUNNING = {ScanOp.SUM: np.add, ScanOp.MAX: np.maximum}  # NaN wins in max


@record(eq=False)
class Scan(TileOp):
    """`dst[..., i, ...] = fold(op, src[..., 0..i, ...])`; from the end if `reverse`. src and dst may be one buffer.

    The running value has the dtype `accumulate.accumulator` of both (float32 for narrower floats); every element is
    converted to dst's dtype once.
    """

    op: ScanOp
    src: Region
    dst: Region
    dim: int
    reverse: bool = False

    @property
    def name(self) -> str:
        """The user's name for it."""
        return f"T.cum{self.op.value}"

    @property
    def accumulator(self) -> DType:
        """The dtype of the running value."""
        dtype = accumulator(self.src.dtype, self.dst.dtype)
        return DType("int32") if dtype.is_bool and self.op is ScanOp.SUM else dtype

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    def check(self) -> None:
        """The dimension exists and both sides have the same extents."""
        check_memory(self.name, self.src, self.dst)
        check_scalars(self.name, self.src, self.dst)
        check_dim(self.name, self.src, self.dim)
        check_extents(self.name, self.src, self.dst)

    def reference(self, memory: TileMemory) -> None:
        """The running fold along one axis."""
        values = np.asarray(convert(memory.read(self.src), self.accumulator))
        if self.reverse:
            values = np.flip(values, self.dim)
        running = _RUNNING[self.op].accumulate(values, axis=self.dim, dtype=values.dtype)
        if self.reverse:
            running = np.flip(running, self.dim)
        memory.write(self.dst, np.asarray(convert(running, self.dst.dtype)))
