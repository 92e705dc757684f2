"""Short vectors: pack_callee of scalars, and extraction of lanes.

Operators on vectors are expanded lane by lane, and the lanes of a packed vector are the packed expressions. Thus a
vector only reaches a target if it is in memory or an operand of an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from tilelang.dtypes import DType, as_dtype, lane_dtype, promote
from tilelang.errors import ProgramValueError
from tilelang.ir.callee import Callee
from tilelang.ir.expr import Call, Const, Expr, as_expr, cast


@cache
def pack_callee(count: int) -> Callee:
    """The callee that packs `count` scalars of one dtype into a vector."""

    def stack(*lanes: Any) -> Any:
        return np.stack(np.broadcast_arrays(*lanes), axis=-1)

    return Callee(f"pack{count}", count, lambda dtypes: vector_dtype(dtypes[0], count), stack, lambda dtypes: dtypes[0])


@cache
def lane_callee(index: int) -> Callee:
    """The callee that extracts one lane of a vector."""

    def take(vector: Any) -> Any:
        return vector[..., index]

    return Callee(f"lane{index}", 1, lambda dtypes: lane_dtype(dtypes[0]), take, lambda dtypes: dtypes[0])


def packed_lanes(expr: Expr) -> tuple[Expr, ...] | None:
    """The lanes of a packed vector; None for any other expression."""
    return expr.args if isinstance(expr, Call) and expr.callee is pack_callee(len(expr.args)) else None


def extracted_lane(expr: Call) -> int | None:
    """The lane that a call extracts; None for any other call."""
    index = expr.callee.name.removeprefix("lane")
    return int(index) if index.isdecimal() and expr.callee is lane_callee(int(index)) else None


def vector_dtype(dtype: DType, count: int) -> DType:
    """The vector dtype of `count` lanes of `dtype`."""
    return as_dtype(f"{dtype!s}x{count}")


def pack(lanes: Sequence[Expr]) -> Expr:
    """The vector of some scalars, converted to their common dtype; a single scalar as it is."""
    if len(lanes) == 1:
        return lanes[0]
    dtype = reduce(promote, [lane.dtype for lane in _leading(lanes)])
    one = [lane if lane.is_index else _in_dtype(lane, dtype) for lane in lanes]
    return Call(pack_callee(len(lanes)), tuple(one), vector_dtype(dtype, len(lanes)))


def _leading(lanes: Sequence[Expr]) -> Sequence[Expr]:
    """The lanes that determine the dtype: all that are not bare literals, if any."""
    return [lane for lane in lanes if not (isinstance(lane, Const) and lane.weak)] or lanes


def _in_dtype(lane: Expr, dtype: DType) -> Expr:
    return lane if lane.dtype == dtype else cast(lane, dtype)


def lane(vector: Expr, index: int) -> Expr:
    """One lane of a vector."""
    lanes = packed_lanes(vector)
    if lanes is not None:
        return lanes[index]
    scalar = lane_dtype(vector.dtype)
    if isinstance(vector, Const):
        return Const(vector.value, scalar)
    return Call(lane_callee(index), (vector,), scalar)


def lanes_of(vector: Expr) -> tuple[Expr, ...]:
    """All lanes of a vector; a scalar has one."""
    return tuple(lane(vector, i) for i in range(vector.dtype.lanes)) if vector.dtype.lanes > 1 else (vector,)


def by_lane(function: Callable[..., Expr], *operands: Expr) -> Expr:
    """Applies a function of scalars lane by lane; scalar operands are broadcast.

    Raises:
        ProgramValueError: Two vectors have different numbers of lanes.
    """
    vectors = [operand for operand in operands if operand.dtype.lanes > 1]
    count = vectors[0].dtype.lanes
    for other in vectors[1:]:
        if other.dtype.lanes != count:
            raise ProgramValueError(f"vectors of {vectors[0].dtype!s} and {other.dtype!s} differ in lanes")
    parts = [lanes_of(x) if x.dtype.lanes > 1 else (x,) * count for x in map(as_expr, operands)]
    return pack([function(*scalars) for scalars in zip(*parts, strict=True)])
