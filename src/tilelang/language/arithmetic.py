"""Scalar functions of CUDA and C beside the common ones of `math`, and arithmetic on pairs: `T.add2`, `T.fma2`.

Takes expressions, gives expressions. Invariant: nothing here emits a statement; on Python numbers alone the functions
of one number give a Python number.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.vector import lanes_of, pack
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.api import api
from tilelang.language.math import Scalar, apply, ceildiv, is_number
from tilelang.language.proxy import TileProxy

__all__ = [
    "__ffs",
    "__fns",
    "__ldg",
    "abs2",
    "add2",
    "align_up",
    "cdiv",
    "fabs",
    "fast_rcp",
    "fma2",
    "fmul",
    "max2",
    "min2",
    "mul2",
    "sub2",
]


@api
def cdiv(lhs: ExprLike, rhs: ExprLike, span: object = None) -> Scalar:
    """The same as `T.ceildiv`."""
    del span
    return ceildiv(lhs, rhs)


@api
def align_up(x: ExprLike, y: ExprLike) -> Scalar:
    """The smallest multiple of `y` that is not below `x`, for integers."""
    return ceildiv(x, y) * y


@api
def fabs(x: ExprLike) -> Scalar:
    """The magnitude of a float; integers are converted to float32."""
    given = as_expr(x)
    return apply(INTRINSICS["abs"], x if is_number(x) or given.dtype.is_float else cast(given, FLOAT32))


@api
def fmul(x: ExprLike, y: ExprLike) -> Expr:
    """The product of two floats, rounded once."""
    return as_expr(x) * as_expr(y)


@api
def fast_rcp(x: ExprLike) -> Scalar:
    """1 / x, approximately: a GPU may use a less exact instruction."""
    return apply(INTRINSICS["__fdividef"], 1.0, x)


@api
def __ffs(x: ExprLike) -> Expr:
    """The position of the lowest set bit of an integer, counted from 1; 0 where no bit is set.

    Raises:
        ProgramTypeError: The operand is no integer.
    """
    given = as_expr(x)
    if not given.dtype.is_int:
        hint = "write T.reinterpret(x, 'uint32')"
        raise ProgramTypeError(f"T.__ffs: needs an integer, got {given.dtype!s}", hint=hint)
    below = binary(BinaryOp.BITAND, ~given, given - 1)
    return select(given == 0, const(0, INT32), apply(INTRINSICS["popcount"], below) + 1)


@api
def __fns(mask: ExprLike, base: ExprLike, offset: ExprLike) -> Expr:
    """The position of a set bit of a 32-bit mask, as uint32; 0xFFFFFFFF where there is none.

    Args:
        mask: The bits.
        base: Where the search begins, 0 to 31.
        offset: Which set bit: the n-th one from `base` upwards for n above 0, downwards for n below 0, each time with
            that at `base`; 0 asks for the bit at `base` itself.

    Raises:
        ProgramError: An operand is no integer of at most 32 bits.

    Example:
        `T.__fns(T.ballot(x > 0), 0, 2)` is the second lane with a positive x.
    """
    return as_expr(apply(INTRINSICS["fns"], as_expr(mask), base, offset))


@api
def __ldg(element: Expr | TileProxy, index: ExprLike | None = None) -> Expr:
    """An element of a global tensor that nothing writes while the kernel runs.

    The compiler loads such elements through the read-only cache by itself.

    Args:
        element: `A[i, j]`, or a tensor of one dimension with `index`.
        index: Which element of it.

    Raises:
        ProgramTypeError: It is no element.
    """
    place = element[index] if isinstance(element, TileProxy) and index is not None else element
    if not isinstance(place, Load):
        raise ProgramTypeError(f"T.__ldg: expected an element, got {element!r:.40}", hint="write T.__ldg(A[i])")
    return place


# -- pairs ---------------------------------------------------------------------------------------------------------
_PAIRS = ("float32x2", "float16x2", "bfloat16x2")


@api
def add2(x: Expr, y: Expr) -> Expr:
    """The sums of two pairs, lane by lane.

    Args:
        x: A float32x2, float16x2 or bfloat16x2.
        y: Another one of the same dtype.

    Raises:
        ProgramTypeError: An operand is no vector.
        ProgramValueError: The operands have another dtype, or different ones.
    """
    return _by_lane("T.add2", lambda a, b: a + b, x, y)


@api
def sub2(x: Expr, y: Expr) -> Expr:
    """The differences of two pairs. As `T.add2` otherwise."""
    return _by_lane("T.sub2", lambda a, b: a - b, x, y)


@api
def mul2(x: Expr, y: Expr) -> Expr:
    """The products of two pairs. As `T.add2` otherwise."""
    return _by_lane("T.mul2", lambda a, b: a * b, x, y)


@api
def max2(x: Expr, y: Expr) -> Expr:
    """The larger lanes of two pairs; NaN wins. As `T.add2` otherwise."""
    return _by_lane("T.max2", lambda a, b: binary(BinaryOp.MAX, a, b), x, y)


@api
def min2(x: Expr, y: Expr) -> Expr:
    """The smaller lanes of two pairs; NaN wins. As `T.add2` otherwise."""
    return _by_lane("T.min2", lambda a, b: binary(BinaryOp.MIN, a, b), x, y)


@api
def fma2(x: Expr, y: Expr, z: Expr) -> Expr:
    """`x * y + z` of three pairs, each lane rounded once. As `T.add2` otherwise."""
    return _by_lane("T.fma2", lambda a, b, c: apply(INTRINSICS["fma"], a, b, c), x, y, z)


@api
def abs2(x: Expr) -> Expr:
    """The magnitudes of a pair. As `T.add2` otherwise."""
    return _by_lane("T.abs2", lambda a: apply(INTRINSICS["abs"], a), x)


def _by_lane(what: str, function: Callable[..., Expr], *operands: Expr) -> Expr:
    given = [as_expr(operand) for operand in operands]
    for operand in given:
        if operand.dtype.lanes < 2:
            hint = "write T.float32x2(a, b)"
            raise ProgramTypeError(f"{what}: needs vectors of two, got {operand.dtype!s}", hint=hint)
        if str(operand.dtype) not in _PAIRS:
            raise ProgramValueError(f"{what}: needs one of {', '.join(_PAIRS)}, got {operand.dtype!s}")
    if len({operand.dtype for operand in given}) > 1:
        found = " and ".join(str(operand.dtype) for operand in given)
        raise ProgramValueError(f"{what}: the operands must have the same dtype, got {found}")
    return pack([function(*lanes) for lanes in zip(*map(lanes_of, given), strict=True)])
