"""Functions of `tvm.tirx` whose names mean something else in `T`, or are builtins of Python."""

from __future__ import annotations

from tilelang.ir.expr import Expr, ExprLike, Var, as_expr
from tilelang.ir.expr import const as constant
from tilelang.language.api import api
from tilelang.language.blocks import let
from tilelang.language.derived import all_of, any_of
from tilelang.language.types import DTypeLike, plain_dtype

__all__ = ["Let", "all", "any", "const"]


@api
def Let(var: Var, value: ExprLike, body: ExprLike, span: object = None) -> Expr:
    """The body, in which the variable has the value, converted to the variable's dtype.

    Raises:
        ProgramTypeError: What is given a value is no variable.
    """
    del span
    return let(var, value, body)


@api
def const(value: float, dtype: DTypeLike | None = None) -> Expr:
    """A constant of a dtype; int32 for an int, float32 for a float and bool for a bool without one.

    Raises:
        StagingError: The value is no number.
    """
    number = as_expr(value)
    return constant(value, plain_dtype(str(number.dtype) if dtype is None else dtype, "tvm.tirx.const"))


@api
def all(*args: ExprLike) -> Expr | bool:
    """Whether every condition holds."""
    return all_of(*args)


@api
def any(*args: ExprLike) -> Expr | bool:
    """Whether one of the conditions holds."""
    return any_of(*args)
