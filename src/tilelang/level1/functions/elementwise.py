"""Functions of `tilelang.numpy` that are applied element by element, by the names of the array API standard.

Invariant: operands of floats narrower than 32 bits are converted to float32, and results stay float32 until they are
stored or converted by `astype`.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import BOOL, FLOAT32, DType, as_dtype
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Const, Expr, as_bool, as_expr, binary, cast, const, int_const, select, unary
from tilelang.ir.power import power
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.math import apply
from tilelang.level1.api import api
from tilelang.level1.elements import as_operand, map_elements
from tilelang.level1.promotion import OperandDType, as_float, compute_dtype, promote
from tilelang.level1.values import Operand, Scalar

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "gelu",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

Accepts = Callable[[DType], bool]


def _numeric(dtype: DType) -> bool:
    return not dtype.is_bool


def _integral(dtype: DType) -> bool:
    return dtype.is_int or dtype.is_bool


def _integer(dtype: DType) -> bool:
    return dtype.is_int


def _any(dtype: DType) -> bool:
    return True


_NEEDED: dict[Accepts, str] = {_numeric: "numbers", _integral: "integers and bools", _integer: "integers"}


def elementwise(
    name: str,
    function: Callable[..., Expr],
    *values: object,
    accepts: Accepts = _numeric,
    floats: bool = False,
    result: DType | None = None,
) -> Operand:
    """`function` of the elements of values that are promoted to one dtype and broadcast.

    Args:
        name: The function of `tilelang.numpy`.
        function: From elements in the dtype of computation to an element in that dtype, or in `result`.
        values: Arrays and numbers.
        accepts: Which dtypes it takes, once they are promoted.
        floats: Whether integers are converted to float32 first.
        result: The dtype of the result, if it is not that of the operands.

    Raises:
        ProgramTypeError: The dtypes do not fit the function, or each other.
    """
    what = f"tnp.{name}"
    operands = [as_operand(value, what) for value in values]
    common = promote(what, [operand.operand_dtype for operand in operands])
    if floats:
        common = OperandDType(as_float(what, common.dtype) if not common.weak else FLOAT32, common.weak)
    if not accepts(common.dtype):
        raise ProgramTypeError(
            f"{what}: takes {_NEEDED[accepts]}, not {common.dtype!s}", hint='convert first: x.astype("int32")'
        )
    for operand in operands:
        _check_fits(what, operand, common.dtype)
    computed = compute_dtype(common.dtype)
    operand_dtype = OperandDType(result or common.dtype, common.weak)
    return map_elements(name, lambda *xs: function(*[cast(x, computed) for x in xs]), operands, operand_dtype, what)


def _check_fits(what: str, operand: Operand, dtype: DType) -> None:
    """Raises for a literal that an integer dtype does not have."""
    number = int_const(operand.expr) if isinstance(operand, Scalar) else None
    if number is None or not dtype.is_int:
        return
    low, high = dtype.limits
    if not low <= number <= high:
        raise ProgramValueError(
            f"{what}: the number {number} is no {dtype!s}, which goes from {low} to {high}",
            hint='convert the array to a wider dtype: x.astype("int32")',
        )


# -- functions by table --------------------------------------------------------------------------------------
_ONE, _TWO = ("x",), ("x1", "x2")


def _define(
    name: str, about: str, function: Callable[..., Expr], places: tuple[str, ...], **options: Any
) -> Callable[..., Any]:
    """A public function of the operands named `places`; see `elementwise` for the options."""

    def call(*operands: object) -> Any:
        return elementwise(name, function, *operands, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{about}\n\n    Shapes: operands are broadcast to one shape, that of the result.\n    "
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(place, kind, annotation="object") for place in places]
    call.__signature__ = inspect.Signature(parameters, return_annotation="Any")  # type: ignore[attr-defined]
    return api(call)


def _intrinsic(name: str, about: str, intrinsic: str = "") -> Callable[..., Any]:
    """A function of floats that is one intrinsic."""
    callee = INTRINSICS[intrinsic or name]
    places = _ONE if callee.arity == 1 else _TWO
    return _define(name, about, lambda *xs: apply(callee, *xs), places, floats=True)


def _predicate(name: str, about: str) -> Callable[..., Any]:
    """A predicate on floats that is one intrinsic; constant for integers, which are not converted."""
    callee = INTRINSICS[name]

    def test(x: Expr) -> Expr:
        return as_expr(apply(callee, x)) if x.dtype.is_float else Const(name == "isfinite", BOOL)

    return _define(name, about, test, _ONE, result=BOOL)


def _rounding(name: str, about: str) -> Callable[..., Any]:
    """Rounds floats to integral values; integers stay as they are."""
    return _define(name, about, lambda x: as_expr(apply(INTRINSICS[name], x)) if x.dtype.is_float else x, _ONE)


def _binary_op(op: BinaryOp, name: str, about: str, **options: Any) -> Callable[..., Any]:
    return _define(name, about, lambda x, y: binary(op, x, y), _TWO, **options)


acos, acosh = _intrinsic("acos", "The inverse cosine."), _intrinsic("acosh", "The inverse hyperbolic cosine.")
asin, asinh = _intrinsic("asin", "The inverse sine."), _intrinsic("asinh", "The inverse hyperbolic sine.")
atan, atanh = _intrinsic("atan", "The inverse tangent."), _intrinsic("atanh", "The inverse hyperbolic tangent.")
atan2 = _intrinsic("atan2", "The angle of the point (x2, x1), in radians.")
cos, cosh = _intrinsic("cos", "The cosine."), _intrinsic("cosh", "The hyperbolic cosine.")
copysign = _intrinsic("copysign", "The magnitude of x1 with the sign of x2.")
erf = _intrinsic("erf", "The error function.")
exp, exp2 = _intrinsic("exp", "e to the power x."), _intrinsic("exp2", "2 to the power x.")
hypot = _intrinsic("hypot", "The square root of x1**2 + x2**2.")
log, log10 = _intrinsic("log", "The natural logarithm."), _intrinsic("log10", "The logarithm to base 10.")
log1p, log2 = _intrinsic("log1p", "The natural logarithm of 1 + x."), _intrinsic("log2", "The logarithm to base 2.")
nextafter = _intrinsic("nextafter", "The next float after x1 towards x2.")
rsqrt, sqrt = _intrinsic("rsqrt", "1 over the square root."), _intrinsic("sqrt", "The square root.")
sigmoid = _intrinsic("sigmoid", "1 / (1 + exp(-x)).")
sin, sinh = _intrinsic("sin", "The sine."), _intrinsic("sinh", "The hyperbolic sine.")
tan, tanh = _intrinsic("tan", "The tangent."), _intrinsic("tanh", "The hyperbolic tangent.")

isfinite = _predicate("isfinite", "Whether x is neither infinite nor NaN.")
isinf, isnan = _predicate("isinf", "Whether x is infinite."), _predicate("isnan", "Whether x is not a number.")

ceil = _rounding("ceil", "The smallest integral value not below x.")
floor = _rounding("floor", "The largest integral value not above x.")
round = _rounding("round", "The nearest integral value; of two, the even one.")
trunc = _rounding("trunc", "x without its fraction.")

add = _binary_op(BinaryOp.ADD, "add", "x1 + x2.")
subtract = _binary_op(BinaryOp.SUB, "subtract", "x1 - x2.")
multiply = _binary_op(BinaryOp.MUL, "multiply", "x1 * x2.")
divide = _binary_op(BinaryOp.DIV, "divide", "x1 / x2, a float.", floats=True)
floor_divide = _binary_op(BinaryOp.FLOORDIV, "floor_divide", "x1 / x2 rounded down; of integers, 0 where x2 is 0.")
remainder = _binary_op(BinaryOp.FLOORMOD, "remainder", "x1 - floor_divide(x1, x2) * x2, which has the sign of x2.")
maximum = _binary_op(BinaryOp.MAX, "maximum", "The greater of x1 and x2; NaN if one of them is.", accepts=_any)
minimum = _binary_op(BinaryOp.MIN, "minimum", "The smaller of x1 and x2; NaN if one of them is.", accepts=_any)

equal = _binary_op(BinaryOp.EQ, "equal", "Whether x1 == x2.", accepts=_any, result=BOOL)
not_equal = _binary_op(BinaryOp.NE, "not_equal", "Whether x1 != x2.", accepts=_any, result=BOOL)
less = _binary_op(BinaryOp.LT, "less", "Whether x1 < x2.", accepts=_any, result=BOOL)
less_equal = _binary_op(BinaryOp.LE, "less_equal", "Whether x1 <= x2.", accepts=_any, result=BOOL)
greater = _binary_op(BinaryOp.GT, "greater", "Whether x1 > x2.", accepts=_any, result=BOOL)
greater_equal = _binary_op(BinaryOp.GE, "greater_equal", "Whether x1 >= x2.", accepts=_any, result=BOOL)

bitwise_and = _binary_op(BinaryOp.BITAND, "bitwise_and", "x1 & x2; of bools, whether both hold.", accepts=_integral)
bitwise_or = _binary_op(
    BinaryOp.BITOR, "bitwise_or", "x1 | x2; of bools, whether one of them holds.", accepts=_integral
)
bitwise_xor = _binary_op(BinaryOp.BITXOR, "bitwise_xor", "x1 ^ x2; of bools, whether they differ.", accepts=_integral)
bitwise_left_shift = _binary_op(BinaryOp.SHL, "bitwise_left_shift", "x1 << x2.", accepts=_integer)
bitwise_right_shift = _binary_op(BinaryOp.SHR, "bitwise_right_shift", "x1 >> x2.", accepts=_integer)
bitwise_invert = _define("bitwise_invert", "All bits inverted; of bools, not x.", lambda x: ~x, _ONE, accepts=_integral)


def _logical(name: str, about: str, function: Callable[..., Expr], places: tuple[str, ...]) -> Callable[..., Any]:
    """A function of truth values; a number is true if it is not 0."""
    return _define(name, about, lambda *xs: function(*map(as_bool, xs)), places, accepts=_any, result=BOOL)


logical_and = _logical("logical_and", "Whether both are true.", lambda x, y: binary(BinaryOp.AND, x, y), _TWO)
logical_or = _logical("logical_or", "Whether one of them is true.", lambda x, y: binary(BinaryOp.OR, x, y), _TWO)
logical_xor = _logical("logical_xor", "Whether just one of them is true.", lambda x, y: binary(BinaryOp.NE, x, y), _TWO)
logical_not = _logical("logical_not", "Whether x is not true.", lambda x: unary(UnaryOp.NOT, x), _ONE)

abs = _define("abs", "The magnitude.", builtins.abs, _ONE)
negative = _define("negative", "-x.", lambda x: -x, _ONE)
positive = _define("positive", "x itself.", lambda x: x, _ONE)
reciprocal = _define("reciprocal", "1 / x.", lambda x: 1.0 / x, _ONE, floats=True)
square = _define("square", "x * x.", lambda x: x * x, _ONE)


def _sign(x: Expr) -> Expr:
    zero = const(0, x.dtype)
    return select(x > zero, const(1, x.dtype), select(x < zero, const(-1, x.dtype), x))


def _expm1(x: Expr) -> Expr:
    """Source: W. Kahan, as in N. Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1."""
    u = apply(INTRINSICS["exp"], x)
    one = const(1, x.dtype)
    quotient = (u - one) * x / apply(INTRINSICS["log"], u)
    infinite = apply(INTRINSICS["isinf"], u)
    return select(u == one, x, select((u == const(0, x.dtype)) | infinite, u - one, quotient))


def _logaddexp(x: Expr, y: Expr) -> Expr:
    ratio = apply(INTRINSICS["exp"], -builtins.abs(x - y))
    greater_one = binary(BinaryOp.MAX, x, y)
    return select(x == y, x + const(math.log(2), x.dtype), greater_one + apply(INTRINSICS["log1p"], ratio))


expm1 = _define("expm1", "e to the power x, minus 1.", _expm1, _ONE, floats=True)
logaddexp = _define("logaddexp", "log(exp(x1) + exp(x2)).", _logaddexp, _TWO, floats=True)
relu = _define("relu", "The greater of x and 0.", lambda x: binary(BinaryOp.MAX, x, const(0, x.dtype)), _ONE)
sign = _define("sign", "-1, 0 or 1; NaN for NaN.", _sign, _ONE)
signbit = _define(
    "signbit", "Whether the sign of x is negative, of zeros too.",
    lambda x: as_expr(apply(INTRINSICS["copysign"], const(1, x.dtype), x)) < 0, _ONE, floats=True, result=BOOL,
)  # fmt: skip
silu = _define("silu", "x * sigmoid(x).", lambda x: x * apply(INTRINSICS["sigmoid"], x), _ONE, floats=True)


@api
def gelu(x: object, approximate: str = "none") -> Any:
    """The product of x and the distribution function of the normal distribution.

    Args:
        x: The operand.
        approximate: "none" computes it by `erf`, "tanh" as 0.5 x (1 + tanh(0.7978846 (x + 0.044715 x**3))).

    Raises:
        ProgramValueError: `approximate` is something else.
    """
    if approximate not in ("none", "tanh"):
        raise ProgramValueError(f"tnp.gelu: approximate is {approximate!r:.40}, not 'none' or 'tanh'")

    def exact(v: Expr) -> Expr:
        return as_expr(0.5 * v * (1.0 + apply(INTRINSICS["erf"], v * math.sqrt(0.5))))

    def by_tanh(v: Expr) -> Expr:
        return as_expr(0.5 * v * (1.0 + apply(INTRINSICS["tanh"], math.sqrt(2 / math.pi) * (v + 0.044715 * v * v * v))))

    return elementwise("gelu", exact if approximate == "none" else by_tanh, x, floats=True)


@api
def pow(x1: object, x2: object) -> Any:
    """x1 to the power x2; a Python int as exponent multiplies.

    Raises:
        ProgramError: An integer has a negative exponent.
        ProgramTypeError: x1 is an integer and x2 no Python int.
    """
    times = x2 if isinstance(x2, int) and not isinstance(x2, bool) and -64 <= x2 <= 64 else None
    if times is not None:
        return elementwise("pow", lambda x: power(x, times), x1)
    if isinstance(x2, float) and x2 == 0.5:
        return elementwise("pow", lambda x: apply(INTRINSICS["sqrt"], x), x1, floats=True)
    return elementwise("pow", lambda x, y: apply(INTRINSICS["pow"], x, y), x1, x2, floats=True)


@api
def astype(x: object, dtype: object) -> Any:
    """The values of x converted to a dtype, and rounded to it: integers wrap, floats are truncated to integers."""
    operand, target = as_operand(x, "tnp.astype"), as_dtype(dtype)
    return map_elements("astype", lambda value: cast(value, target), [operand], OperandDType(target))
