"""Operators and literals as classes: `T.Add(a, b)` makes the expression, `isinstance(e, T.Add)` asks what it is.

Gives one class per operator. Invariant: what a class makes is what the operator written in Python makes, so constants
fold here as they do there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import ProgramTypeError
from tilelang.ir.expr import Binary, Const, Expr, ExprLike, Unary, as_expr, binary, unary
from tilelang.ir.expr import const as constant
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.language.api import api
from tilelang.language.types import DTypeLike, plain_dtype

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "Div",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "StringImm",
    "Sub",
]


class Kind(type):
    """A class whose instances are expressions of another class that fulfil a condition."""

    _holds: Callable[[object], bool]
    _make: Callable[..., Any]

    def __instancecheck__(cls, value: object) -> bool:
        return cls._holds(value)

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        return cls._make(*args, **keywords)


def _operator(name: str, doc: str, *ops: BinaryOp, make: Callable[[Expr, Expr], Expr] | None = None) -> Any:
    """The class of the expressions with one of these operators; `make` where the operands decide which."""

    def build(a: ExprLike, b: ExprLike, span: object = None) -> Expr:
        del span
        return binary(ops[0], a, b) if make is None else make(as_expr(a), as_expr(b))

    def holds(value: object) -> bool:
        return isinstance(value, Binary) and value.op in ops

    build.__name__ = build.__qualname__ = name
    members = {"__doc__": doc, "__module__": __name__, "_make": staticmethod(api(build)), "_holds": staticmethod(holds)}
    return Kind(name, (), members)


def _divided(a: Expr, b: Expr) -> Expr:
    whole = a.dtype.is_int and b.dtype.is_int
    return binary(BinaryOp.TRUNCDIV if whole else BinaryOp.DIV, a, b)


Add = _operator("Add", "`a + b`.", BinaryOp.ADD)
Sub = _operator("Sub", "`a - b`.", BinaryOp.SUB)
Mul = _operator("Mul", "`a * b`.", BinaryOp.MUL)
Div = _operator(
    "Div", "`a / b`; of integers the quotient without its fraction.", BinaryOp.DIV, BinaryOp.TRUNCDIV, make=_divided
)
Mod = _operator("Mod", "What `T.Div` of integers leaves; it has the sign of `a`.", BinaryOp.TRUNCMOD)
FloorDiv = _operator("FloorDiv", "`a // b`.", BinaryOp.FLOORDIV)
FloorMod = _operator("FloorMod", "`a % b`.", BinaryOp.FLOORMOD)
Min = _operator("Min", "The smaller one; NaN where one of them is.", BinaryOp.MIN)
Max = _operator("Max", "The larger one; NaN where one of them is.", BinaryOp.MAX)
EQ = _operator("EQ", "`a == b`.", BinaryOp.EQ)
NE = _operator("NE", "`a != b`.", BinaryOp.NE)
LT = _operator("LT", "`a < b`.", BinaryOp.LT)
LE = _operator("LE", "`a <= b`.", BinaryOp.LE)
GT = _operator("GT", "`a > b`.", BinaryOp.GT)
GE = _operator("GE", "`a >= b`.", BinaryOp.GE)
And = _operator("And", "`a and b`.", BinaryOp.AND)
Or = _operator("Or", "`a or b`.", BinaryOp.OR)


class Not(metaclass=Kind):
    """`not a`."""

    @staticmethod
    @api
    def _make(a: ExprLike, span: object = None) -> Expr:
        del span
        return unary(UnaryOp.NOT, a)

    @staticmethod
    def _holds(value: object) -> bool:
        return isinstance(value, Unary) and value.op is UnaryOp.NOT


class IntImm(metaclass=Kind):
    """An integer literal of a dtype: `T.IntImm("int32", 3)`; its number is `.value`.

    Raises:
        TypeError: The dtype is none of integers.
    """

    @staticmethod
    @api
    def _make(dtype: DTypeLike, value: int, span: object = None) -> Expr:
        del span
        row = plain_dtype(dtype, "T.IntImm")
        if row.is_float:
            raise ProgramTypeError(f"T.IntImm: {row!s} has no integers", hint="write T.FloatImm")
        return constant(value, row)

    @staticmethod
    def _holds(value: object) -> bool:
        return isinstance(value, Const) and not value.dtype.is_float


class FloatImm(metaclass=Kind):
    """A floating-point literal of a dtype: `T.FloatImm("float32", 0.5)`; its number is `.value`.

    Raises:
        TypeError: The dtype is none of floats.
    """

    @staticmethod
    @api
    def _make(dtype: DTypeLike, value: float, span: object = None) -> Expr:
        del span
        row = plain_dtype(dtype, "T.FloatImm")
        if not row.is_float:
            raise ProgramTypeError(f"T.FloatImm: {row!s} has no fractions", hint="write T.IntImm")
        return constant(value, row)

    @staticmethod
    def _holds(value: object) -> bool:
        return isinstance(value, Const) and value.dtype.is_float


class StringImm(str):
    """A text; also `.value`. Anything else than a text is a `ProgramTypeError`."""

    __slots__ = ()

    @api
    def __new__(cls, value: str, span: object = None) -> StringImm:
        """The text itself; `span` is not read."""
        if not isinstance(value, str):
            raise ProgramTypeError(f"T.StringImm: needs a text, got {type(value).__name__} {value!r:.40}")
        return super().__new__(cls, value)

    @property
    def value(self) -> str:
        """The text."""
        return str(self)
