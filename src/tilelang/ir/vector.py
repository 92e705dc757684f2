"""Short vectors: made of scalars, and taken apart.

Takes scalar expressions, gives expressions of a vector dtype and their lanes. Invariant: operators on vectors are done
lane by lane, and lanes of a packed vector are the expressions that it was packed of; so a vector only reaches a target
where it is kept in memory or handed to an instruction.
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
def packing(count: int) -> Callee:
    """The function that makes a vector of `count` scalars of one dtype."""

    def stack(*lanes: Any) -> Any:
        return np.stack(np.broadcast_arrays(*lanes), axis=-1)

    return Callee(f"pack{count}", count, lambda dtypes: vector_dtype(dtypes[0], count), stack, lambda dtypes: dtypes[0])


@cache
def taking(index: int) -> Callee:
    """The function that gives one lane of a vector."""

    def take(vector: Any) -> Any:
        return vector[..., index]

    return Callee(f"lane{index}", 1, lambda dtypes: lane_dtype(dtypes[0]), take, lambda dtypes: dtypes[0])


def packed_lanes(expr: Expr) -> tuple[Expr, ...] | None:
    """The lanes of a vector that is packed, None of any other expression."""
    return expr.args if isinstance(expr, Call) and expr.callee is packing(len(expr.args)) else None


def taken_lane(expr: Call) -> int | None:
    """Which lane of its operand a call gives, None of any other call."""
    index = expr.callee.name.removeprefix("lane")
    return int(index) if index.isdecimal() and expr.callee is taking(int(index)) else None


def vector_dtype(dtype: DType, count: int) -> DType:
    """The dtype of `count` scalars of a dtype."""
    return as_dtype(f"{dtype!s}x{count}")


def pack(lanes: Sequence[Expr]) -> Expr:
    """The vector of some scalars, which are brought to one dtype; one scalar is itself."""
    if len(lanes) == 1:
        return lanes[0]
    dtype = reduce(promote, [lane.dtype for lane in _leading(lanes)])
    one = [lane if lane.is_index else _in_dtype(lane, dtype) for lane in lanes]
    return Call(packing(len(lanes)), tuple(one), vector_dtype(dtype, len(lanes)))


def _leading(lanes: Sequence[Expr]) -> Sequence[Expr]:
    """The lanes that choose the dtype: bare literals follow the others."""
    return [lane for lane in lanes if not (isinstance(lane, Const) and lane.weak)] or lanes


def _in_dtype(lane: Expr, dtype: DType) -> Expr:
    return lane if lane.dtype == dtype else cast(lane, dtype)


def lane(vector: Expr, index: int) -> Expr:
    """One lane of a vector."""
    known = packed_lanes(vector)
    if known is not None:
        return known[index]
    scalar = lane_dtype(vector.dtype)
    if isinstance(vector, Const):
        return Const(vector.value, scalar)
    return Call(taking(index), (vector,), scalar)


def lanes_of(vector: Expr) -> tuple[Expr, ...]:
    """The lanes of a vector in order; a scalar is one."""
    return tuple(lane(vector, i) for i in range(vector.dtype.lanes)) if vector.dtype.lanes > 1 else (vector,)


def by_lane(function: Callable[..., Expr], *operands: Expr) -> Expr:
    """The vector of what a function of scalars gives for each lane; a scalar operand serves all lanes.

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
