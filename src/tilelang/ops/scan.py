"""`T.cumsum`, `T.cummax` and `T.associative_scan`: scans along one dimension of tiles."""

from __future__ import annotations

import enum

import numpy as np

from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.combine import CombineOp, binary_combine
from tilelang.ops.describe import check_extents
from tilelang.records import record


class ScanOp(enum.Enum):
    """Scan operators with a function of their own; the value is the suffix of `T.cum`."""

    SUM = "sum"
    MAX = "max"


_OPERATORS = {ScanOp.SUM: BinaryOp.ADD, ScanOp.MAX: BinaryOp.MAX}  # max propagates NaN


@record(eq=False)
class Scan(CombineOp):
    """`dst[..., i, ...] = reduce(combine, src[..., 0..i, ...])`; from the end if `reverse`.

    A destination may be its source. The function is associative. With `init` the scan is exclusive: position i gets
    `init` combined with the elements before i. Without it, the scan is inclusive.

    Attributes:
        reverse: Whether the scan starts at the last position.
        init: Initial values of an exclusive scan, one per tile; empty for an inclusive scan.
    """

    reverse: bool = False
    init: tuple[Expr, ...] = ()

    @property
    def exclusive(self) -> bool:
        """Whether position i excludes element i."""
        return bool(self.init)

    def check(self) -> None:
        """Each destination has the extents of its source."""
        super().check()
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_extents(self.name, src, dst)

    def reference(self, memory: TileMemory) -> None:
        """Combines positions in order."""
        arrays = self.source_arrays(memory)
        results = [np.empty_like(array) for array in arrays]
        order = range(len(arrays[0]))
        running: list[np.ndarray] | None = None
        if self.exclusive:
            running = [
                np.broadcast_to(memory.value(e), array.shape[1:]) for e, array in zip(self.init, arrays, strict=True)
            ]
        for k in reversed(order) if self.reverse else order:
            here = [array[k] for array in arrays]
            after = here if running is None else self.combine_arrays(memory, running, here)
            for result, value in zip(results, running if self.exclusive and running else after, strict=True):
                result[k] = value
            running = after
        for dst, result in zip(self.dsts, results, strict=True):
            memory.write(dst, np.asarray(convert(np.moveaxis(result, 0, self.dim), dst.dtype)))


def running_dtype(op: ScanOp, src: DType, dst: DType) -> DType:
    """The accumulator dtype of a named scan: `accumulator_dtype`, but int32 for sums of bool."""
    dtype = accumulator_dtype(src, dst)
    return DType("int32") if dtype.is_bool and op is ScanOp.SUM else dtype


def named_scan(op: ScanOp, src: Region, dst: Region, dim: int, *, reverse: bool = False) -> Scan:
    """A `Scan` by a named operator."""
    variables, body = binary_combine(_OPERATORS[op], running_dtype(op, src.dtype, dst.dtype))
    return Scan(f"T.cum{op.value}", variables, body, (src,), (dst,), dim, reverse)
