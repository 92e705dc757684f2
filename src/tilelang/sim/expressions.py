"""Evaluation of scalar expressions: each is turned into a Python closure once and then called many times.

Takes expressions, gives closures over the values of variables and the memory. Invariant: there are two readings of an
integer expression. As an *index* (indices, bounds, extents) everything is exact Python arithmetic. As *data* every
operation happens on NumPy scalars of its dtype; index arithmetic inside of data is computed exactly and then wraps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilelang.dtypes import FLOAT32, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.callee import Callee
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.scalar import (
    BinaryOp,
    UnaryOp,
    Value,
    convert,
    data_binary,
    data_unary,
    exact_binary,
    plain_binary,
    plain_conversion,
)

Index = Callable[[], int]
Data = Callable[[], Value]


class Evaluator:
    """Closures for the expressions of one run.

    Args:
        load: Reads one element of a buffer.

    Attributes:
        env: The current value of every variable: a Python int for index variables, else a NumPy scalar.
    """

    def __init__(self, load: Callable[[Buffer, tuple[int, ...]], Value]) -> None:
        self.env: dict[Var, Value] = {}
        self._load = load
        self._indices: dict[Expr, Index] = {}
        self._data: dict[Expr, Data] = {}

    def assign(self, var: Var, value: int) -> None:
        """Gives an integer variable its value."""
        self.env[var] = value if var.index else convert(value, var.dtype)

    def index(self, expr: Expr) -> int:
        """The exact value of an integer expression in index position."""
        closure = self._indices.get(expr)
        if closure is None:
            closure = self._indices[expr] = self._index(expr)
        return closure()

    def indices(self, exprs: tuple[Expr, ...]) -> tuple[int, ...]:
        """The exact values of several."""
        return tuple([self.index(expr) for expr in exprs])

    def data(self, expr: Expr) -> Value:
        """The value of an expression as a NumPy scalar of its dtype."""
        closure = self._data.get(expr)
        if closure is None:
            closure = self._data[expr] = self._as_data(expr)
        return closure()

    # -- indices: exact ------------------------------------------------------------------------------------
    def _index(self, expr: Expr) -> Index:
        env = self.env
        match expr:
            case Const(value=value):
                number = int(value)
                return lambda: number
            case Var():
                return lambda: int(env[expr])
            case Binary(op=op, a=a, b=b) if expr.dtype.is_int:
                x, y = self._index(a), self._index(b)
                return lambda: exact_binary(op, x(), y())
            case Unary(op=sign, a=a) if expr.dtype.is_int:
                x = self._index(a)
                return (lambda: -x()) if sign is UnaryOp.NEG else (lambda: ~x())
            case Select(condition=condition, a=a, b=b) if expr.dtype.is_int:
                test, x, y = self._as_data(condition), self._index(a), self._index(b)
                return lambda: x() if test() else y()
            case Cast(a=a, dtype=dtype) if dtype.is_int and a.dtype.is_int and not expr.is_index:
                x = self._index(a)
                return lambda: int(convert(x(), dtype))
            case Cast(a=a) if expr.is_index:
                return self._index(a)
        data = self._as_data(expr)
        return lambda: int(data())

    # -- data: NumPy scalars -------------------------------------------------------------------------------
    def _as_data(self, expr: Expr) -> Data:
        dtype = expr.dtype
        if expr.is_index:
            exact = self._index(expr)
            return lambda: convert(exact(), dtype)
        match expr:
            case Const(value=value):
                constant = convert(value, dtype)
                return lambda: constant
            case Var():
                env = self.env
                return lambda: env[expr]
            case Binary():
                return self._binary(expr)
            case Unary(op=op, a=a):
                x = self._as_data(a)
                return lambda: data_unary(op, x(), dtype)
            case Select(condition=condition, a=a, b=b):
                test, x, y = self._as_data(condition), self._as_data(a), self._as_data(b)
                return lambda: x() if test() else y()
            case Cast(a=a):
                return self._converted(a, dtype)
            case Reinterpret(a=a):
                x = self._as_data(a)
                return lambda: np.asarray(x()).view(dtype.numpy)[()]
            case Load(buffer=buffer, indices=indices):
                load, where = self._load, [self._index(i) for i in indices]
                return lambda: load(buffer, tuple([i() for i in where]))
            case Call(callee=callee, args=args):
                return self._call(callee, args, expr)
        raise CompilerBug(f"the reference interpreter cannot evaluate {type(expr).__name__}")

    def _binary(self, expr: Binary) -> Data:
        op, dtype = expr.op, expr.dtype
        if expr.a.is_index and expr.b.is_index:  # a comparison: other operators would be index arithmetic themselves
            left, right = self._index(expr.a), self._index(expr.b)
            return lambda: np.bool_(exact_binary(op, left(), right()))
        x, y = self._as_data(expr.a), self._as_data(expr.b)
        if op is BinaryOp.AND:
            return lambda: y() if x() else np.False_
        if op is BinaryOp.OR:
            return lambda: np.True_ if x() else y()
        compute = plain_binary(op, expr.a.dtype)
        return (lambda: data_binary(op, x(), y(), dtype)) if compute is None else (lambda: compute(x(), y()))

    def _call(self, callee: Callee, args: tuple[Expr, ...], expr: Expr) -> Data:
        compute = callee.compute(tuple(arg.dtype for arg in args))
        operands = [self._converted(arg, compute) for arg in args]
        meaning = callee.meaning
        dtype = FLOAT32 if expr.dtype.is_tf32 else expr.dtype  # as in operators: only a cast to tf32 rounds
        return lambda: convert(meaning(*[operand() for operand in operands]), dtype)

    def _converted(self, expr: Expr, dtype: DType) -> Data:
        value, plain = self._as_data(expr), plain_conversion(expr.dtype, dtype)
        if expr.dtype == dtype and plain is not None:
            return value
        return (lambda: convert(value(), dtype)) if plain is None else (lambda: plain(value()))
