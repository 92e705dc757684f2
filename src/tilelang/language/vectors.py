"""Vectors of scalars: `T.Ramp`, `T.Broadcast`, `T.Shuffle`, and what takes vectors apart.

Takes expressions, gives expressions of a vector dtype, on which operators work lane by lane. As an index of a buffer a
vector stands for as many elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramLaneError, ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast, int_const
from tilelang.ir.vector import lane as lane_of
from tilelang.ir.vector import lanes_of, pack
from tilelang.language.api import api
from tilelang.language.types import DTypeLike

__all__ = [
    "Broadcast",
    "Ramp",
    "Shuffle",
    "broadcast",
    "extract_lane",
    "ramp",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
]


@api
def Ramp(base: ExprLike, stride: ExprLike, lanes: int, span: object = None) -> Expr:
    """The vector of `base + i * stride` for i from 0 to `lanes` - 1.

    As an index it names as many elements: they are loaded or stored together. A lane of such an index that is
    negative counts from the end of its dimension.

    Args:
        base: The first lane.
        stride: What each lane is more than the one before.
        lanes: How many there are, a constant.
        span: Accepted for older programs.

    Raises:
        ProgramError: `lanes` is no positive constant, or `base` or `stride` is a vector.

    Example:
        `B[T.Ramp(0, 1, 4)] = A[T.Ramp(4 * tx, 1, 4)]`
    """
    del span
    what = "T.Ramp"
    first, step = _scalar(what, base), _scalar(what, stride)
    exact = first.dtype.is_int and step.dtype.is_int  # then all lanes are written alike; floats may be -0.0
    return pack([first + step * i if i or exact else first for i in range(_count(what, lanes))])


@api
def Broadcast(value: ExprLike, lanes: int, span: object = None) -> Expr:
    """The vector whose `lanes` lanes are all `value`.

    Raises:
        ProgramError: `lanes` is no positive constant, or `value` is a vector.
    """
    del span
    return pack([_scalar("T.Broadcast", value)] * _count("T.Broadcast", lanes))


@api
def Shuffle(vectors: Sequence[ExprLike], indices: Sequence[int], span: object = None) -> Expr:
    """Lanes picked out of vectors that stand one after another.

    Args:
        vectors: Vectors or scalars of one dtype.
        indices: For each lane of the result, which lane of all of them it is; constants.
        span: Accepted for older programs.

    Raises:
        ProgramError: There are no vectors or indices, or an index is no constant or out of range.

    Example:
        `T.Shuffle([low, high], [0, 2, 1, 3])`
    """
    del span
    what = "T.Shuffle"
    source = [scalar for vector in vectors for scalar in lanes_of(as_expr(vector))]
    picked = [int_const(as_expr(index)) for index in indices]
    if not source or not picked:
        raise ProgramValueError(f"{what}: needs at least one vector and one index")
    for given, index in zip(indices, picked, strict=True):
        if index is None or not 0 <= index < len(source):
            raise ProgramLaneError(
                f"{what}: the index {given!r:.40} names no lane", hint=f"write constants from 0 to {len(source) - 1}"
            )
    return pack([source[index] for index in picked if index is not None])


@api
def extract_lane(vector: Expr, lane: int, span: object = None) -> Expr:
    """One lane of a vector.

    Args:
        vector: An expression of a vector dtype.
        lane: Which one, a constant from 0.
        span: Accepted for older programs.

    Raises:
        ProgramTypeError: `vector` is no expression, or `lane` no constant.
        ProgramValueError: `vector` is a scalar.
        ProgramLaneError: It has no such lane.

    Example:
        `low = T.extract_lane(pair, 0)`
    """
    del span
    what = "T.extract_lane"
    if not isinstance(vector, Expr):
        raise ProgramTypeError(f"{what}: expects a PrimExpr, got {vector!r:.40}", hint="pass an expression of a vector")
    index = int_const(lane)
    if index is None:
        raise ProgramTypeError(f"{what}: the lane must be a compile-time integer, got {lane!r:.40}")
    count = vector.dtype.lanes
    if count == 1:
        raise ProgramValueError(
            f"{what}: expects a vector expression, got {vector.dtype!s}", hint="a scalar is its only lane"
        )
    if not 0 <= index < count:
        raise ProgramLaneError(
            f"{what}: lane {index} is out of bounds of {vector.dtype!s}", hint=f"lanes are 0 to {count - 1}"
        )
    return lane_of(vector, index)


@api
def vectorlow(dtype: DTypeLike, vec: Expr, span: object = None) -> Expr:
    """The first half of a vector, as a vector of `dtype`.

    Raises:
        ProgramError: `dtype` has not half as many lanes as the vector.
    """
    del span
    return _half("T.vectorlow", dtype, vec, high=False)


@api
def vectorhigh(dtype: DTypeLike, vec: Expr, span: object = None) -> Expr:
    """The second half of a vector, as a vector of `dtype`.

    Raises:
        ProgramError: `dtype` has not half as many lanes as the vector.
    """
    del span
    return _half("T.vectorhigh", dtype, vec, high=True)


@api
def vectorcombine(dtype: DTypeLike, vec1: Expr, vec2: Expr, span: object = None) -> Expr:
    """Two vectors one after the other, as a vector of `dtype`.

    Raises:
        ProgramError: `dtype` has not as many lanes as both together.
    """
    del span
    return _as_vector("T.vectorcombine", dtype, [*lanes_of(as_expr(vec1)), *lanes_of(as_expr(vec2))])


def _half(what: str, dtype: DTypeLike, vec: Expr, *, high: bool) -> Expr:
    lanes = lanes_of(as_expr(vec))
    middle = len(lanes) // 2
    if len(lanes) % 2:
        raise ProgramValueError(f"{what}: a vector of {len(lanes)} lanes has no halves")
    return _as_vector(what, dtype, lanes[middle:] if high else lanes[:middle])


def _as_vector(what: str, dtype: DTypeLike, lanes: Sequence[Expr]) -> Expr:
    row = as_dtype(str(as_dtype(dtype)))
    if row.lanes != len(lanes):
        raise ProgramValueError(
            f"{what}: {row!s} has {row.lanes} lanes, but the result has {len(lanes)}",
            hint="name the dtype of the result, as in 'float32x2' for the half of a float32x4",
        )
    return cast(pack(lanes), row)


def _scalar(what: str, value: ExprLike) -> Expr:
    expr = as_expr(value)
    if expr.dtype.lanes > 1:
        raise ProgramTypeError(f"{what}: expects scalars, got {expr.dtype!s}")
    return expr


def _count(what: str, lanes: object) -> int:
    count = int_const(as_expr(lanes)) if not isinstance(lanes, bool) else None  # type: ignore[arg-type]
    if count is None or count < 1:
        raise ProgramValueError(f"{what}: the number of lanes must be a positive constant, got {lanes!r:.40}")
    return count


broadcast = Broadcast
ramp = Ramp
