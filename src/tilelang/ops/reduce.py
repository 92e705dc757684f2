"""`T.reduce_*`: reductions along one dimension of a tile by a named operator."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ProgramValueError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.scalar import DROPS_NAN, BinaryOp, convert
from tilelang.ir.stmt import TileMemory
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.along import AlongDimension
from tilelang.ops.describe import check_dim, check_memory, check_reduced_extents, check_scalars
from tilelang.records import record


class ReduceOp(enum.Enum):
    """Reduction operators; the value is the suffix of `T.reduce_`."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ABSSUM = "abssum"
    ABSMAX = "absmax"
    BITAND = "bitand"
    BITOR = "bitor"
    BITXOR = "bitxor"

    @property
    def takes_absolute(self) -> bool:
        """Whether it reduces absolute values."""
        return self in (ReduceOp.ABSSUM, ReduceOp.ABSMAX)

    @property
    def is_bitwise(self) -> bool:
        """Whether it is bitwise, and thus defined for integers and bool only."""
        return self in (ReduceOp.BITAND, ReduceOp.BITOR, ReduceOp.BITXOR)


_UFUNCS = {
    ReduceOp.SUM: np.add,
    ReduceOp.MAX: np.maximum,  # propagates NaN
    ReduceOp.MIN: np.minimum,
    ReduceOp.ABSSUM: np.add,
    ReduceOp.ABSMAX: np.maximum,
    ReduceOp.BITAND: np.bitwise_and,
    ReduceOp.BITOR: np.bitwise_or,
    ReduceOp.BITXOR: np.bitwise_xor,
}
_UFUNCS_WITHOUT_NAN = {ReduceOp.MAX: np.fmax, ReduceOp.MIN: np.fmin, ReduceOp.ABSMAX: np.fmax}


OPERATORS: Mapping[ReduceOp, BinaryOp] = MappingProxyType(
    {
        ReduceOp.SUM: BinaryOp.ADD,
        ReduceOp.ABSSUM: BinaryOp.ADD,
        ReduceOp.MAX: BinaryOp.MAX,
        ReduceOp.ABSMAX: BinaryOp.MAX,
        ReduceOp.MIN: BinaryOp.MIN,
        ReduceOp.BITAND: BinaryOp.BITAND,
        ReduceOp.BITOR: BinaryOp.BITOR,
        ReduceOp.BITXOR: BinaryOp.BITXOR,
    }
)
"""The binary operator of each reduction."""


def neutral(op: ReduceOp, dtype: DType) -> int | float:
    """The neutral element of a reduction, which is also the result over an empty dimension.

    In dtypes without infinities the largest or smallest finite value takes their place.
    """
    low, high = dtype.limits
    if dtype.is_float and math.isinf(float(convert(math.inf, dtype))):
        low, high = -math.inf, math.inf
    match op:
        case ReduceOp.MAX:
            return low
        case ReduceOp.MIN:
            return high
        case ReduceOp.BITAND:
            return 1 if dtype.is_bool else -1 if low < 0 else high
    return 0


@record(eq=False)
class Reduce(AlongDimension):
    """`dst = reduce(op, src, dim)`, or `dst = op(dst, reduce(op, src, dim))` if not `clear`.

    Shapes: dst is src without `dim`, or with extent 1 there; a tile of one dimension reduces to one element. Max and
    min propagate NaN if `nan_propagate`; otherwise they ignore NaN, and NaN alone reduce to the neutral element.
    Accumulates in `accumulator_dtype` of both dtypes and converts to dst's dtype once. An empty dimension gives the
    operator's neutral element.

    Attributes:
        op: The operator.
        src: What is reduced.
        dst: Where it goes.
        dim: The dimension.
        clear: Whether the value before does not count.
        nan_propagate: Whether NaN propagates.
        seldom_updates: Whether most elements of dst stay as they are.
        step: The operands of the `OnlineSoftmax` of which it is the search for the largest scores; none elsewhere.
    """

    op: ReduceOp
    src: Region
    dst: Region
    dim: int
    clear: bool = True
    nan_propagate: bool = True
    seldom_updates: bool = False
    step: tuple[Region | Expr | None, ...] = ()

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"T.reduce_{self.op.value}"

    @property
    def accumulator_dtype(self) -> DType:
        """The dtype of the running value."""
        dtype = accumulator_dtype(self.src.dtype, self.dst.dtype)
        adds_truths = dtype.is_bool and self.op in (ReduceOp.SUM, ReduceOp.ABSSUM)
        return DType("int32") if adds_truths else dtype

    @property
    def operator(self) -> BinaryOp:
        """The binary operator that combines two values."""
        operator = OPERATORS[self.op]
        return operator if self.nan_propagate else DROPS_NAN.get(operator, operator)

    @property
    def dim_operand(self) -> Region:
        """The source."""
        return self.src

    def reads(self) -> tuple[Region, ...]:
        """The source, and the destination unless it is cleared."""
        return (self.src,) if self.clear else (self.src, self.dst)

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    def check(self) -> None:
        """The dimension exists, the destination has the remaining extents, and bitwise operators have integers."""
        check_memory(self.name, self.src, self.dst)
        check_scalars(self.name, self.src, self.dst)
        check_dim(self.name, self.src, self.dim)
        check_reduced_extents(self.name, self.src, self.dst, self.dim)
        for region in (self.src, self.dst):
            if self.op.is_bitwise and region.dtype.is_float:
                raise ProgramValueError(
                    f"{self.name}: '{region.buffer.name}' holds {region.dtype!s}, but only integers and bool have bits "
                    "to combine",
                    hint="name the bits as integers with T.view",
                )

    def reference(self, memory: TileMemory) -> None:
        """NumPy's reduction along the axis."""
        running = self.accumulator_dtype
        values = np.asarray(convert(memory.read(self.src), running))
        if self.op.takes_absolute and not running.is_bool:
            values = np.abs(values)
        drops_nan = not self.nan_propagate and self.op in _UFUNCS_WITHOUT_NAN and running.is_float
        ufunc = _UFUNCS_WITHOUT_NAN[self.op] if drops_nan else _UFUNCS[self.op]
        if values.shape[self.dim] == 0:
            empty = np.delete(values.shape, self.dim)
            result = np.full(empty, convert(neutral(self.op, self.dst.dtype), self.dst.dtype))
        elif drops_nan or self.op is ReduceOp.ABSMAX:  # the magnitude of the least integer wraps to below 0
            result = ufunc.reduce(values, axis=self.dim, dtype=running.numpy, initial=neutral(self.op, running))
        else:
            result = ufunc.reduce(values, axis=self.dim, dtype=running.numpy)
        if not self.clear:
            old = convert(memory.read(self.dst), running)
            result = ufunc(old, np.asarray(convert(result, running)).reshape(old.shape))
        memory.write(self.dst, np.asarray(convert(result, self.dst.dtype)))
