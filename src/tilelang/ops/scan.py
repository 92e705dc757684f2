"""`T.cumsum`, `T.cummax` and `T.associative_scan`: running totals along one dimension."""

from __future__ import annotations

import enum

import numpy as np

from tilelang.dtypes import DType
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulate import accumulator
from tilelang.ops.describe import check_extents
from tilelang.ops.lines import LineOp, operator_of_lines
from tilelang.records import record


class ScanOp(enum.Enum):
    """The running operators with names of their own; the value is the suffix of `T.cum`."""

    SUM = "sum"
    MAX = "max"


_OPERATORS = {ScanOp.SUM: BinaryOp.ADD, ScanOp.MAX: BinaryOp.MAX}  # NaN wins in max


@record(eq=False)
class Scan(LineOp):
    """`dst[..., i, ...] = fold(function, src[..., 0..i, ...])`; from the end if `reverse`.

    A destination may be its source. The function is associative. Without `init` the first value is the first element;
    with it, place i has what `init` and the elements before it make, so that the element itself is left out.

    Attributes:
        reverse: Whether the line is run along from its end.
        init: What stands in front of the first element in a scan that is exclusive.
    """

    reverse: bool = False
    init: tuple[Expr, ...] = ()

    @property
    def exclusive(self) -> bool:
        """Whether an element does not take part in what is written to its place."""
        return bool(self.init)

    def check(self) -> None:
        """Both sides have the same extents."""
        super().check()
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_extents(self.name, src, dst)

    def reference(self, memory: TileMemory) -> None:
        """Element after element."""
        lines = self.lines(memory)
        results = [np.empty_like(line) for line in lines]
        order = range(len(lines[0]))
        running: list[np.ndarray] | None = None
        if self.exclusive:
            running = [
                np.broadcast_to(memory.value(e), line.shape[1:]) for e, line in zip(self.init, lines, strict=True)
            ]
        for k in reversed(order) if self.reverse else order:
            here = [line[k] for line in lines]
            after = here if running is None else self.combine_arrays(memory, running, here)
            for result, value in zip(results, running if self.exclusive and running else after, strict=True):
                result[k] = value
            running = after
        for dst, result in zip(self.dsts, results, strict=True):
            memory.write(dst, np.asarray(convert(np.moveaxis(result, 0, self.dim), dst.dtype)))


def running_dtype(op: ScanOp, src: DType, dst: DType) -> DType:
    """The dtype of the running value of a named operator: that of any fold, and int32 for sums of truth values."""
    dtype = accumulator(src, dst)
    return DType("int32") if dtype.is_bool and op is ScanOp.SUM else dtype


def named_scan(
    op: ScanOp, src: Region, dst: Region, dim: int, *, reverse: bool = False, init: Expr | None = None
) -> Scan:
    """The scan of a named operator."""
    variables, body = operator_of_lines(_OPERATORS[op], running_dtype(op, src.dtype, dst.dtype))
    first = () if init is None else (init,)
    return Scan(f"T.cum{op.value}", variables, body, (src,), (dst,), dim, reverse, first)
