"""Scalar expressions: frozen, pure, typed nodes; operators on them build further nodes and fold constants.

An expression has no effect and evaluates to one value of its `dtype`. Nodes compare by identity, since `a == b` builds
a comparison; for structural equality see `ir.compare`.

An integer expression whose leaves are loop variables, block indices, dimensions and constants is *index arithmetic*
(`is_index`): it is exact, as if integers had unlimited width. All other arithmetic is *data*: it wraps at its dtype's
width.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, Union

from tilelang.api import public, strip_frames, without_frames
from tilelang.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType, as_dtype, lane_dtype, promote
from tilelang.errors import OperandError, ProgramError, StagingTypeError, TileLangError
from tilelang.ir.callee import Callee
from tilelang.ir.memoize import memoized_property
from tilelang.ir.runtime_value import RuntimeValue
from tilelang.ir.scalar import (
    BITWISE,
    COMPARISONS,
    INTEGER_ONLY,
    KEEPS_NAN,
    LOGICAL,
    BinaryOp,
    UnaryOp,
    convert,
    data_binary,
    data_unary,
    exact_binary,
)
from tilelang.records import record

if TYPE_CHECKING:
    from tilelang.ir.buffer import Buffer

T = TypeVar("T")
Number = int | float | bool
ExprLike = Union["Expr", Number]


def _methods(op: BinaryOp) -> tuple[Callable[[Expr, ExprLike], Expr], Callable[[Expr, ExprLike], Expr]]:
    """The methods of an operator, for the expression on its left and on its right."""

    def compute(left: ExprLike, right: ExprLike) -> Expr:
        try:  # in place of `without_frames`, whose call would be felt: operators are what programs are made with
            return binary(op, left, right)
        except TileLangError as error:
            strip_frames(error)
            raise

    return compute, without_frames(lambda expr, other: binary(op, other, expr))


class Expr(RuntimeValue):
    """Base class of expressions; subclasses are records with a `dtype`."""

    dtype: DType
    __array_ufunc__ = None  # NumPy scalars leave `scalar * expression` to us

    def __init__(self, *arguments: object, **keywords: object) -> None:
        raise StagingTypeError("T.PrimExpr: exists for isinstance and cannot be made", hint="write T.int32(x)")

    def __repr__(self) -> str:
        from tilelang.ir.printer import to_text  # noqa: PLC0415  the printer imports the nodes

        return to_text(self)

    # -- arithmetic -----------------------------------------------------------------------------------------
    __add__, __radd__ = _methods(BinaryOp.ADD)
    __sub__, __rsub__ = _methods(BinaryOp.SUB)
    __mul__, __rmul__ = _methods(BinaryOp.MUL)
    __truediv__, __rtruediv__ = _methods(BinaryOp.DIV)
    __floordiv__, __rfloordiv__ = _methods(BinaryOp.FLOORDIV)
    __mod__, __rmod__ = _methods(BinaryOp.FLOORMOD)
    __and__, __rand__ = _methods(BinaryOp.BITAND)
    __or__, __ror__ = _methods(BinaryOp.BITOR)
    __xor__, __rxor__ = _methods(BinaryOp.BITXOR)
    __lshift__, __rlshift__ = _methods(BinaryOp.SHL)
    __rshift__, __rrshift__ = _methods(BinaryOp.SHR)

    @without_frames
    def __pow__(self, exponent: int) -> Expr:
        from tilelang.ir.power import power  # noqa: PLC0415  it is made of these operators

        return power(self, exponent)

    def __neg__(self) -> Expr:
        return unary(UnaryOp.NEG, self)

    def __pos__(self) -> Expr:
        return self

    @without_frames
    def __invert__(self) -> Expr:
        return unary(UnaryOp.NOT if self.dtype.is_bool else UnaryOp.INVERT, self)

    def __abs__(self) -> Expr:
        from tilelang.ir.absolute import absolute  # noqa: PLC0415  as above

        return absolute(self)

    # -- comparisons ----------------------------------------------------------------------------------------
    __eq__ = _methods(BinaryOp.EQ)[0]  # type: ignore[assignment]
    __ne__ = _methods(BinaryOp.NE)[0]  # type: ignore[assignment]
    __lt__, __le__ = _methods(BinaryOp.LT)[0], _methods(BinaryOp.LE)[0]
    __gt__, __ge__ = _methods(BinaryOp.GT)[0], _methods(BinaryOp.GE)[0]

    __hash__ = object.__hash__

    @public
    def astype(self, dtype: object, *options: object, **named: object) -> Expr:
        """The value converted to a dtype, as `T.cast` does it."""
        return import_module("tilelang.ir.conversion").as_cast(self, as_dtype(dtype), *options, **named)  # type: ignore

    to = astype

    @memoized_property
    def is_index(self) -> bool:
        """Whether this is index arithmetic, which is exact: integers over loop variables, blocks and dimensions."""
        return False


@record(eq=False, repr=False)
class Const(Expr):
    """A literal. A `weak` one was written as a bare Python number and takes the dtype of the other operand.

    A literal of an explicit dtype that is not an index dtype, such as `T.uint8(3)`, is data.
    """

    value: Number
    dtype: DType
    weak: bool = False

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.dtype in (INT32, INT64) or (self.weak and self.dtype.is_int)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


@record(eq=False, repr=False)
class Var(Expr):
    """A named immutable value: a loop variable, a block index, a dimension, a scalar parameter, or a binding.

    `index` marks integers whose arithmetic is exact.
    """

    name: str
    dtype: DType
    index: bool = False

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.index


WARP_SIZE = Var("warp_size", INT32, index=True)
"""The threads of a warp on whatever machine: `resolve_warp_size` puts the number of the target's in its place."""


@record(eq=False, repr=False)
class Binary(Expr):
    """`a op b`; operands have one dtype (but for shifts) or are both index arithmetic."""

    op: BinaryOp
    a: Expr
    b: Expr
    dtype: DType

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.dtype.is_int and self.a.is_index and self.b.is_index


@record(eq=False, repr=False)
class Unary(Expr):
    """`op a`."""

    op: UnaryOp
    a: Expr
    dtype: DType

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.dtype.is_int and self.a.is_index


@record(eq=False, repr=False)
class Select(Expr):
    """`a if condition else b`; only the selected side is evaluated."""

    condition: Expr
    a: Expr
    b: Expr
    dtype: DType

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.dtype.is_int and self.a.is_index and self.b.is_index


@record(eq=False, repr=False)
class Cast(Expr):
    """`a` converted to `dtype`: integers wrap, floats round to nearest even, float to integer truncates.

    Index arithmetic cast to int64 stays index arithmetic: it is exact there too.
    """

    a: Expr
    dtype: DType

    @memoized_property
    def is_index(self) -> bool:  # noqa: D102  see `Expr`
        return self.dtype == INT64 and self.a.is_index


@record(eq=False, repr=False)
class Reinterpret(Expr):
    """The bits of `a` as `dtype` of the same width."""

    a: Expr
    dtype: DType


@record(eq=False, repr=False)
class Load(Expr):
    """One element of a buffer; a mutable scalar is a buffer of rank 0."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    dtype: DType


@record(eq=False, repr=False)
class Call(Expr):
    """A pure intrinsic applied to scalars."""

    callee: Callee
    args: tuple[Expr, ...]
    dtype: DType


def as_expr(value: ExprLike, dtype: DType | None = None) -> Expr:
    """`value` as an expression; a Python number becomes a weak constant, or one of `dtype` if given.

    Raises:
        OperandError: `value` is neither a number nor an expression.
    """
    if isinstance(value, Expr):
        return value
    if hasattr(value, "__tilelang_expr__"):  # proxies of rank-0 buffers
        return as_expr(value.__tilelang_expr__(), dtype)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return Const(bool(value), dtype or BOOL) if dtype in (None, BOOL) else const(int(value), dtype)
    number = _plain_number(value)
    if number is None:
        raise OperandError(value)
    if dtype is not None:
        return const(number, dtype)
    if isinstance(number, float):
        return Const(number, FLOAT32, weak=True)
    if not -(2**63) <= number < 2**64:
        raise ProgramError(f"the integer {number} needs more than 64 bits")
    return Const(number, INT32 if -(2**31) <= number < 2**31 else INT64, weak=True)


def _plain_number(value: object) -> int | float | None:
    """A number of Python, or of a library whose scalars convert to those; None for anything else."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, type) or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return float(value) if hasattr(value, "__float__") else None


def const(value: Number, dtype: DType) -> Const:
    """A literal of exactly `dtype`: the value is rounded or wrapped as a cast would."""
    if type(value) is int and dtype.is_int and dtype.limits[0] <= value <= dtype.limits[1]:
        return Const(value, dtype)
    converted = convert(value, dtype)
    if dtype.is_bool:
        return Const(bool(converted), dtype)
    return Const(int(converted) if dtype.is_int else float(converted), dtype)


def cast(value: ExprLike, dtype: DType) -> Expr:
    """`value` converted to `dtype`; literals are converted at once and no-op casts vanish.

    A cast of index arithmetic is always kept as data, except from a literal.
    """
    expr = as_expr(value)
    if isinstance(expr, Const):
        return const(expr.value, dtype)
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, Call) and dtype.lanes > 1:
        return _by_lane(lambda lane: cast(lane, lane_dtype(dtype)), expr)
    return Cast(expr, dtype)


def unify(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands in one dtype: weak literals follow their partner, otherwise `dtypes.promote` decides.

    Index arithmetic of different integer dtypes is left alone, since it has no width.
    """
    x, y = as_expr(a), as_expr(b)
    if x.is_index and y.is_index:
        return x, y
    if isinstance(x, Const) and x.weak and not (isinstance(y, Const) and y.weak):
        return _follow(x, y.dtype), y
    if isinstance(y, Const) and y.weak and not (isinstance(x, Const) and x.weak):
        return x, _follow(y, x.dtype)
    if isinstance(x, Const) and isinstance(y, Const) and x.weak and y.weak and (x.dtype.is_float or y.dtype.is_float):
        return _weak_float(x), _weak_float(y)
    if x.dtype == y.dtype:
        return x, y
    dtype = promote(x.dtype, y.dtype)
    return cast(x, dtype), cast(y, dtype)


def _weak_float(literal: Const) -> Const:
    return literal if literal.dtype.is_float else Const(float(literal.value), FLOAT32, weak=True)


def _follow(literal: Const, dtype: DType) -> Expr:
    if literal.dtype.is_float and not dtype.is_float:
        return const(literal.value, FLOAT32)
    if dtype.is_bool:
        return literal
    if dtype.is_int and literal.dtype.is_int:
        low, high = dtype.limits
        if not low <= literal.value <= high:
            return literal
    return const(literal.value, dtype)


_ON_TRUTHS = COMPARISONS | {BinaryOp.MIN, BinaryOp.MAX, BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR}


def binary(op: BinaryOp, left: ExprLike, right: ExprLike) -> Expr:
    """`left op right`, with operands converted to one dtype and constants folded.

    Raises:
        ProgramError: The operator has no meaning on these dtypes.
    """
    if not isinstance(left, Expr) or not isinstance(right, Expr):
        left, right = as_expr(left), as_expr(right)
    if left.dtype.lanes > 1 or right.dtype.lanes > 1:
        return _by_lane(lambda x, y: binary(op, x, y), left, right)
    if op in LOGICAL:
        return _logical(op, as_bool(left), as_bool(right))
    a, b = (left, right) if left.is_index and right.is_index else unify(left, right)
    if a.dtype != b.dtype and not (a.is_index and b.is_index):  # a literal that did not fit its partner
        dtype = promote(a.dtype, b.dtype)
        a, b = cast(a, dtype), cast(b, dtype)
    if op is BinaryOp.DIV and not a.dtype.is_float:
        a, b = cast(a, FLOAT32), cast(b, FLOAT32)
    if op in INTEGER_ONLY and not (a.dtype.is_int or a.dtype.is_bool and op in BITWISE):
        raise ProgramError(
            f"operator {op.value}: needs integers, got {a.dtype!s}",
            hint="convert with T.int32(x), or take the bits with T.reinterpret(x, dtype); for conditions write and, or",
        )
    if not a.dtype.is_float:
        op = KEEPS_NAN.get(op, op)
    index = a.is_index and b.is_index
    operand = promote(a.dtype, b.dtype) if index else a.dtype
    if operand.is_bool and op not in _ON_TRUTHS:
        a, b, operand = cast(a, INT32), cast(b, INT32), INT32
    dtype = BOOL if op in COMPARISONS else operand
    bare = isinstance(a, Const) and a.weak
    if index and op is BinaryOp.SHL and isinstance(b, Const) and not bare and b.value not in range(dtype.bits):
        return const(0, dtype)  # as for data; exact, the bits beyond the width could come back
    folded = _fold(op, a, b, dtype, index) if isinstance(a, Const) and isinstance(b, Const) else None
    return Binary(op, a, b, dtype) if folded is None else folded


def _fold(op: BinaryOp, a: Const, b: Const, dtype: DType, index: bool) -> Const | None:
    """The literal of an operation on literals; None if there is none."""
    weak = a.weak and b.weak
    if index:
        value = exact_binary(op, int(a.value), int(b.value))
        return Const(bool(value), BOOL) if op in COMPARISONS else _exact_literal(int(value), dtype, weak)
    result = data_binary(op, convert(a.value, a.dtype), convert(b.value, b.dtype), dtype)
    if dtype.is_bool:
        return Const(bool(result), BOOL)
    if dtype.is_float and weak:  # bare Python literals keep Python's precision until they meet a dtype
        wide = data_binary(op, convert(a.value, FLOAT64), convert(b.value, FLOAT64), FLOAT64)
        return Const(float(wide), dtype, weak=True)
    return Const(float(result) if dtype.is_float else int(result), dtype, weak=weak)


def _exact_literal(value: int, dtype: DType, weak: bool) -> Const | None:
    """A literal of index arithmetic: of `dtype` unless the value needs 64 bits; None if it needs more.

    A bare one may turn out to be unsigned.
    """
    if not -(2**63) <= value < (2**64 if weak else 2**63):
        return None
    fits = -(2**31) <= value < 2**31
    return Const(value, (INT32 if weak else dtype) if fits else INT64, weak=weak)


def _logical(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    absorbing = op is BinaryOp.OR
    if isinstance(a, Const):
        return a if bool(a.value) is absorbing else b
    if isinstance(b, Const) and bool(b.value) is not absorbing:
        return a
    return Binary(op, a, b, BOOL)


def unary(op: UnaryOp, operand: ExprLike) -> Expr:
    """`op operand`, folded on constants.

    Raises:
        ProgramError: The operator has no meaning on this dtype.
    """
    a = as_expr(operand)
    if a.dtype.lanes > 1:
        return _by_lane(lambda x: unary(op, x), a)
    if op is UnaryOp.NOT:
        a = as_bool(a)
        return Const(not a.value, BOOL) if isinstance(a, Const) else Unary(op, a, BOOL)
    if a.dtype.is_bool:
        a = cast(a, INT32)
    if op is UnaryOp.INVERT and not a.dtype.is_int:
        raise ProgramError(f"operator ~: needs an integer, got {a.dtype!s}")
    if isinstance(a, Const):
        if a.dtype.is_int:
            value = -int(a.value) if op is UnaryOp.NEG else ~int(a.value)
            literal = _exact_literal(value, a.dtype, a.weak) if a.is_index else const(value, a.dtype)
            return Unary(op, a, INT64) if literal is None else literal
        return Const(float(data_unary(op, convert(a.value, FLOAT64), FLOAT64)), a.dtype, weak=a.weak)
    return Unary(op, a, a.dtype)


def as_bool(value: ExprLike) -> Expr:
    """`value` as a truth value: itself if boolean, otherwise whether it differs from zero."""
    expr = as_expr(value)
    if expr.dtype.is_bool:
        return expr
    return Const(expr.value != 0, BOOL) if isinstance(expr, Const) else binary(BinaryOp.NE, expr, 0)


def select(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a if condition else b`, with both sides in one dtype; a constant condition picks its side."""
    x, y = as_expr(a), as_expr(b)
    test = as_bool(condition)
    if test.dtype.lanes > 1 or x.dtype.lanes != y.dtype.lanes:
        return _by_lane(select, test, x, y)
    x, y = unify(x, y)
    if x.dtype != y.dtype:
        dtype = promote(x.dtype, y.dtype)
        x, y = (x, y) if x.is_index and y.is_index else (cast(x, dtype), cast(y, dtype))
    if isinstance(test, Const):
        return x if test.value else y
    return Select(test, x, y, promote(x.dtype, y.dtype))


def _by_lane(function: Callable[..., Expr], *operands: Expr) -> Expr:
    from tilelang.ir.vector import by_lane  # noqa: PLC0415  vectors are made of these expressions

    return by_lane(function, *operands)


def int_const(expr: ExprLike) -> int | None:
    """The value of an integer literal, or None for anything else."""
    if isinstance(expr, Const) and expr.dtype.is_int:
        return int(expr.value)
    return expr if isinstance(expr, int) and not isinstance(expr, bool) else None


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of the conditions; true when there are none."""
    result: Expr = Const(True, BOOL)
    for condition in conditions:
        result = _logical(BinaryOp.AND, result, condition)
    return result


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a conjunction, in evaluation order; any other condition is the only part."""
    if isinstance(condition, Binary) and condition.op is BinaryOp.AND:
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition
