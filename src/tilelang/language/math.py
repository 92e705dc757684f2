"""Arithmetic on scalars beyond Python's operators: `T.max`, `T.exp`, `T.cast`, `T.ceildiv` and the rest.

Takes numbers and expressions, gives expressions. Invariant: on Python numbers alone each function gives a Python
number, so that it also serves to compute tile sizes; nothing here emits a statement.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL, FLOAT64, INT32, INT64, DType, promote
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, StagingTypeError
from tilelang.ir.callee import Callee
from tilelang.ir.expr import (
    Call,
    Const,
    Expr,
    ExprLike,
    Number,
    Var,
    as_expr,
    binary,
    const,
    select,
    unify,
)
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.vector import by_lane
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.api import api
from tilelang.language.types import DTypeLike, plain_dtype

__all__ = [
    "Select",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceildiv",
    "clamp",
    "floordiv",
    "floormod",
    "fmax",
    "fmin",
    "if_then_else",
    "infinity",
    "max",
    "max_value",
    "min",
    "min_value",
    "round",
    "shift_left",
    "shift_right",
    "truncdiv",
    "truncmod",
]

Scalar = Any  # an Expr, or a Python number where all operands are Python numbers


def is_number(value: object) -> bool:
    """Whether a value is a plain number of Python or NumPy."""
    return isinstance(value, bool | int | float | np.number | np.bool_)


def _all_numbers(*values: object) -> bool:
    return all(is_number(v) for v in values)


# -- intrinsics ------------------------------------------------------------------------------------------------
def apply(callee: Callee, *args: ExprLike) -> Scalar:
    """A call of an intrinsic, lane by lane on vectors; folded when all operands are constant.

    Raises:
        ProgramTypeError: The number of operands is wrong.
    """
    what = f"T.{callee.name}"
    if len(args) != callee.arity:
        raise ProgramTypeError(f"{what}: takes {callee.arity} operand{'s' * (callee.arity > 1)}, got {len(args)}")
    if _all_numbers(*args):
        return _fold_numbers(callee, args)  # type: ignore[arg-type]
    given = [as_expr(a) for a in args]
    if any(operand.dtype.lanes > 1 for operand in given):
        return by_lane(lambda *lanes: apply(callee, *lanes), *given)
    operands = _in_one_family(given)
    dtypes = tuple(o.dtype for o in operands)
    result = callee.result(dtypes)
    if all(isinstance(o, Const) for o in operands):
        return _fold(callee, operands, dtypes, result)
    return Call(callee, operands, result)


def _in_one_family(operands: list[Expr]) -> tuple[Expr, ...]:
    """Bare literals take the dtype of the other operands."""
    strong = [o.dtype for o in operands if not (isinstance(o, Const) and o.weak)]
    if not strong:
        return tuple(operands)
    partner = Var("partner", reduce(promote, strong))
    return tuple(unify(o, partner)[0] if isinstance(o, Const) and o.weak else o for o in operands)


def _fold(callee: Callee, operands: tuple[Expr, ...], dtypes: tuple[DType, ...], result: DType) -> Const:
    compute = callee.compute(dtypes)
    values = [convert(o.value, compute) for o in operands]  # type: ignore[attr-defined]
    return const(_python_number(convert(callee.meaning(*values), result)), result)


def _fold_numbers(callee: Callee, args: tuple[Number, ...]) -> Number:
    """The value on Python numbers: floats in double precision."""
    numbers = [_python_number(a) for a in args]
    dtypes = tuple(_number_dtype(n) for n in numbers)
    if callee.result(dtypes).is_float:
        dtypes = (FLOAT64,) * len(numbers)
    compute = callee.compute(dtypes)
    return _python_number(callee.meaning(*[convert(n, compute) for n in numbers]))


def _number_dtype(number: Number) -> DType:
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, float):
        return FLOAT64
    return INT32 if -(2**31) <= number < 2**31 else INT64


def _python_number(value: Any) -> Number:
    return value.item() if hasattr(value, "item") else value  # type: ignore[no-any-return]


_ABOUT = {
    "exp": "e to the power x.", "exp2": "2 to the power x.", "exp10": "10 to the power x.",
    "log": "The natural logarithm.", "log2": "The logarithm to base 2.", "log10": "The logarithm to base 10.",
    "log1p": "The natural logarithm of 1 + x.", "sqrt": "The square root.", "rsqrt": "1 over the square root.",
    "pow": "The first operand to the power of the second.", "tanh": "The hyperbolic tangent.",
    "sigmoid": "1 / (1 + exp(-x)).", "erf": "The error function.", "sin": "The sine.", "cos": "The cosine.",
    "tan": "The tangent.", "floor": "The largest integer not above x.", "ceil": "The smallest integer not below x.",
    "trunc": "x without its fraction.", "round": "The nearest integer.", "fma": "a * b + c, rounded once.",
    "isnan": "Whether x is not a number.", "isinf": "Whether x is infinite.",
    "isfinite": "Whether x is neither infinite nor NaN.", "popcount": "The number of set bits of an integer.",
    "abs": "The magnitude; NaN stays NaN.",
}  # fmt: skip


def _function(callee: Callee) -> Callable[..., Scalar]:
    name = callee.name
    places = ("x", "y", "z")[: callee.arity]

    def intrinsic(*args: ExprLike, span: object = None, dtype: object = None, **named: ExprLike) -> Scalar:
        del span
        args += tuple(named.pop(place) for place in places[len(args) :] if place in named)
        if named:
            raise StagingTypeError(f"T.{name}: unexpected keyword argument {next(iter(named))!r}")
        if name.startswith("__"):
            _check_floats(name, args)
        return _of_dtype(f"T.{name}", apply(callee, *args), dtype)

    intrinsic.__name__ = intrinsic.__qualname__ = name
    intrinsic.__signature__ = _signature_of(places)  # type: ignore[attr-defined]
    operands = ", ".join(places)
    about = _ABOUT.get(name) or _fast_about(name) or f"The function {name} of mathematics."
    intrinsic.__doc__ = (
        f"{about}\n\n    `T.{name}({operands})` works on scalars, elementwise in loops. Floats narrower than 32 bits "
        "are\n    computed in float32 and rounded once; functions of floats convert integers to float32.\n    "
    )
    return api(intrinsic)


def _signature_of(places: Sequence[str]) -> inspect.Signature:
    """The signature of an intrinsic as users read it, an operand for each place."""
    operands = [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="ExprLike") for p in places]
    return inspect.Signature([*operands, *_NAMED], return_annotation="Any")


_NAMED = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="object")
    for name in ("span", "dtype")
]


def _check_floats(name: str, operands: tuple[ExprLike, ...]) -> None:
    """Fast functions are of floats of 16 bits or more."""
    for operand in operands:
        dtype = None if is_number(operand) else as_expr(operand).dtype
        if dtype is not None and not (dtype.is_float and dtype.bits >= 16):
            raise ProgramTypeError(
                f"T.{name} only supports floating-point inputs, but got {dtype!s}", hint=f"write {_exact(name)}"
            )


def _fast_about(name: str) -> str:
    if not name.startswith("__"):
        return ""
    return f"The fast variant of `{_exact(name)}`: a GPU may use a less exact instruction; elsewhere it is the same."


def _exact(name: str) -> str:
    """What a fast function is the variant of, as users write it."""
    return "x / y" if name == "__fdividef" else f"T.{name[2:]}"


_OWN = ("dp4a", "fns", "round")  # names whose functions take more than operands

FUNCTIONS: Mapping[str, Callable[..., Scalar]] = MappingProxyType(
    {name: _function(callee) for name, callee in INTRINSICS.items() if name not in _OWN}
)


@api
def round(x: ExprLike, rounding_mode: str = "ties-to-even", *, span: object = None) -> Scalar:
    """The nearest integer, as a value of the operand's dtype.

    Args:
        x: A scalar; integers stay as they are.
        rounding_mode: Where half an integer goes: "ties-to-even" or "ties-away-from-zero".
        span: Accepted for older programs.

    Raises:
        ProgramValueError: It is another mode.
    """
    del span
    if rounding_mode not in ("ties-to-even", "ties-away-from-zero"):
        raise ProgramValueError(
            f"T.round: Invalid rounding mode {rounding_mode!r:.40}",
            hint="write 'ties-to-even' or 'ties-away-from-zero'",
        )
    if rounding_mode == "ties-to-even" or not is_number(x) and not as_expr(x).dtype.is_float:
        return apply(INTRINSICS["round"], x)
    whole = apply(INTRINSICS["trunc"], x)
    away = if_then_else(apply(INTRINSICS["abs"], x - whole) >= 0.5, apply(INTRINSICS["copysign"], 1.0, x), 0.0)
    return whole + away


# -- choosing ----------------------------------------------------------------------------------------------------
_OF_A_TILE = "write T.max(a, b) of two elements, and T.reduce_max(src, dst, dim) of a tile; likewise for minima"


def _extreme(what: str, op: BinaryOp, values: tuple[ExprLike, ...]) -> Scalar:
    if len(values) < 2:
        raise ProgramTypeError(f"{what}: takes at least two operands, got {len(values)}", hint=_OF_A_TILE)
    if _all_numbers(*values):
        numbers = [_python_number(v) for v in values]
        nan = [n for n in numbers if isinstance(n, float) and math.isnan(n)]
        if op in (BinaryOp.FMIN, BinaryOp.FMAX) and len(nan) < len(numbers):
            numbers = [n for n in numbers if not (isinstance(n, float) and math.isnan(n))]
        elif nan:
            return nan[0]
        return builtins.max(numbers) if op in (BinaryOp.MAX, BinaryOp.FMAX) else builtins.min(numbers)
    return reduce(lambda a, b: binary(op, a, b), values)


def _pair(what: str, values: tuple[ExprLike, ...], named: dict[str, ExprLike]) -> tuple[ExprLike, ...]:
    """The operands that are given as `a=` and `b=`."""
    found = tuple(named.pop(name) for name in ("a", "b")[len(values) :] if name in named)
    if named:
        raise StagingTypeError(f"{what}: unexpected keyword argument {next(iter(named))!r}", hint=_OF_A_TILE)
    return found


@api
def max(*values: ExprLike, span: object = None, **named: ExprLike) -> Scalar:
    """The largest of two or more values; NaN if one of them is NaN.

    Example:
        `output[i, j] = T.max(input[i, j], 0)`
    """
    return _extreme("T.max", BinaryOp.MAX, values + _pair("T.max", values, named))


@api
def min(*values: ExprLike, span: object = None, **named: ExprLike) -> Scalar:
    """The smallest of two or more values; NaN if one of them is NaN."""
    return _extreme("T.min", BinaryOp.MIN, values + _pair("T.min", values, named))


@api
def fmax(*values: ExprLike) -> Scalar:
    """The largest of two or more values that are not NaN; NaN if all are."""
    return _extreme("T.fmax", BinaryOp.FMAX, values)


@api
def fmin(*values: ExprLike) -> Scalar:
    """The smallest of two or more values that are not NaN; NaN if all are."""
    return _extreme("T.fmin", BinaryOp.FMIN, values)


@api
def clamp(dst: ExprLike, min_val: ExprLike, max_val: ExprLike) -> Scalar:
    """`dst` held between two bounds; NaN stays NaN."""
    return min(max(dst, min_val), max_val)


@api
def if_then_else(
    cond: ExprLike, t: ExprLike, f: ExprLike, span: object = None, dtype: DTypeLike | None = None
) -> Scalar:
    """`t` if the condition holds, else `f`; only the chosen side is evaluated, so it may guard a load.

    Args:
        cond: The condition.
        t: The value where it holds.
        f: The value where it does not.
        span: Accepted for older programs.
        dtype: That of the value.

    Raises:
        ProgramValueError: `dtype` is another one.

    Example:
        `T.if_then_else(i < N, A[i], 0)`
    """
    del span
    chosen = (t if cond else f) if is_number(cond) else select(cond, t, f)
    return _of_dtype("T.if_then_else", chosen, dtype)


@api
def Select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike, span: object = None) -> Scalar:
    """The same as `T.if_then_else`."""
    del span
    return if_then_else(condition, true_value, false_value)


def _of_dtype(what: str, value: Scalar, dtype: DTypeLike | None) -> Scalar:
    """The value, if it is of a dtype; a bare number is of any.

    Raises:
        ProgramValueError: It is of another one.
    """
    wanted = None if dtype is None else plain_dtype(dtype, what)
    if wanted is not None and not is_number(value) and as_expr(value).dtype != wanted:
        raise ProgramValueError(f"{what}: dtype={dtype!s}, but the value is {as_expr(value).dtype!s}")
    return value


# -- dtypes --------------------------------------------------------------------------------------------------------
@api
def infinity(dtype: DTypeLike) -> Expr:
    """Positive infinity of a float dtype; write `-T.infinity(dtype)` for the negative one.

    Raises:
        ProgramError: The dtype has no infinity.
    """
    row = plain_dtype(dtype, "T.infinity")
    if not row.is_float or not math.isinf(float(convert(math.inf, row))):
        raise ProgramError(f"T.infinity: {row!s} has no infinity", hint=f"write T.max_value({str(row)!r})")
    return const(math.inf, row)


@api
def max_value(dtype: DTypeLike) -> Expr:
    """The largest finite value of a dtype, as a constant of it."""
    row = plain_dtype(dtype, "T.max_value")
    return const(row.limits[1], row)


@api
def min_value(dtype: DTypeLike) -> Expr:
    """The smallest finite value of a dtype."""
    row = plain_dtype(dtype, "T.min_value")
    return const(row.limits[0], row)


# -- integers ------------------------------------------------------------------------------------------------------
def _integers(what: str, op: BinaryOp, a: ExprLike, b: ExprLike) -> Scalar:
    if is_number(b) and not b and op in _DIVISIONS:
        raise ProgramError(f"{what}: division by zero")
    result = binary(op, a, b)
    return result.value if _all_numbers(a, b) and isinstance(result, Const) else result


_DIVISIONS = (BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD)


@api
def ceildiv(lhs: ExprLike, rhs: ExprLike, span: object = None) -> Scalar:
    """`lhs / rhs` rounded up, for integers: how many tiles of `rhs` cover `lhs`.

    Raises:
        ProgramError: An operand is no integer, or `rhs` is the constant 0.

    Example:
        `with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):`
    """
    if is_number(rhs) and not rhs:
        raise ProgramError("T.ceildiv: division by zero")
    divisor = as_expr(rhs)
    rounded_up = binary(BinaryOp.FLOORDIV, as_expr(lhs) + divisor - 1, divisor)
    if not rounded_up.dtype.is_int:
        raise ProgramError(
            f"T.ceildiv: needs integers, got {rounded_up.dtype!s}", hint="for floats write T.ceil(a / b)"
        )
    return -(-lhs // rhs) if _all_numbers(lhs, rhs) else rounded_up


@api
def floordiv(a: ExprLike, b: ExprLike, span: object = None) -> Scalar:
    """`a // b`, rounded towards minus infinity; 0 where `b` is 0."""
    return _integers("T.floordiv", BinaryOp.FLOORDIV, a, b)


@api
def floormod(a: ExprLike, b: ExprLike, span: object = None) -> Scalar:
    """`a % b` with the sign of `b`; 0 where `b` is 0."""
    return _integers("T.floormod", BinaryOp.FLOORMOD, a, b)


@api
def truncdiv(a: ExprLike, b: ExprLike, span: object = None) -> Scalar:
    """`a / b` for integers, rounded towards zero as in C; 0 where `b` is 0."""
    return _integers("T.truncdiv", BinaryOp.TRUNCDIV, a, b)


@api
def truncmod(a: ExprLike, b: ExprLike, span: object = None) -> Scalar:
    """The remainder of `T.truncdiv`, with the sign of `a`; 0 where `b` is 0."""
    return _integers("T.truncmod", BinaryOp.TRUNCMOD, a, b)


@api
def shift_left(x: ExprLike, y: ExprLike, span: object = None, dtype: DTypeLike | None = None) -> Scalar:
    """`x << y`; `dtype` has to be that of the value."""
    return _of_dtype("T.shift_left", _integers("T.shift_left", BinaryOp.SHL, x, y), dtype)


@api
def shift_right(x: ExprLike, y: ExprLike, span: object = None) -> Scalar:
    """`x >> y`; keeps the sign of signed integers."""
    return _integers("T.shift_right", BinaryOp.SHR, x, y)


@api
def bitwise_and(x: ExprLike, y: ExprLike, span: object = None) -> Scalar:
    """`x & y`."""
    return _integers("T.bitwise_and", BinaryOp.BITAND, x, y)


@api
def bitwise_or(x: ExprLike, y: ExprLike, span: object = None) -> Scalar:
    """`x | y`."""
    return _integers("T.bitwise_or", BinaryOp.BITOR, x, y)


@api
def bitwise_xor(x: ExprLike, y: ExprLike, span: object = None) -> Scalar:
    """`x ^ y`."""
    return _integers("T.bitwise_xor", BinaryOp.BITXOR, x, y)


@api
def bitwise_not(x: ExprLike, span: object = None) -> Scalar:
    """`~x`."""
    result = ~as_expr(x)
    return result.value if is_number(x) and isinstance(result, Const) else result
