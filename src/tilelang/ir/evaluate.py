"""Evaluation of expressions on Python integers, NumPy scalars or NumPy arrays.

Index arithmetic evaluates to a Python int or an int64 array, data to NumPy values of its dtype. This defines the
semantics of expressions: constant folding, simplification and generated code agree with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import CompilerBug
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.scalar import (
    COMPARISONS,
    LOGICAL,
    BinaryOp,
    UnaryOp,
    Value,
    convert,
    data_binary,
    data_unary,
    exact_binary,
)

LoadValue = Callable[[Load, "tuple[Value, ...]"], Value]


def evaluate(expr: Expr, env: Mapping[Var, Value], *, exact: bool = False, load: LoadValue | None = None) -> Value:
    """The value of `expr`, given values of its variables.

    Values may be arrays that broadcast against each other. On scalars `Select`, `and` and `or` are evaluated lazily; on
    arrays both sides are evaluated.

    Args:
        expr: What to evaluate.
        env: Values of all variables: integers for index variables, anything that `convert` accepts for others.
        exact: Whether to evaluate as an index: integer data is exact and does not wrap.
        load: The value of a `Load`, from the node and its evaluated indices.

    Raises:
        CompilerBug: A variable has no value, or there is a `Load` and no `load`.
    """
    return _Evaluator(env, load).value(expr, exact)


class _Evaluator:
    def __init__(self, env: Mapping[Var, Value], load: LoadValue | None) -> None:
        self._env, self._load = env, load
        self._seen: dict[tuple[int, bool], Value] = {}  # shared subexpressions are evaluated once

    def value(self, expr: Expr, exact: bool) -> Value:
        if isinstance(expr, Const):
            plain = expr.is_index or (exact and expr.dtype.is_int)
            return int(expr.value) if plain else convert(expr.value, expr.dtype)
        if isinstance(expr, Var):
            return self._variable(expr, exact)
        key = (id(expr), exact)
        if key not in self._seen:
            self._seen[key] = self._compute(expr, exact)
        return self._seen[key]

    def _compute(self, expr: Expr, exact: bool) -> Value:
        match expr:
            case Binary(op=op, a=a, b=b) if op in LOGICAL:
                return self._logical(op, self.value(a, exact), b, exact)
            case Binary():
                return self._binary(expr, exact)
            case Unary(op=op, a=a):
                x = self.value(a, exact)
                if op is not UnaryOp.NOT and a.dtype.is_int and (exact or a.is_index):
                    return -x if op is UnaryOp.NEG else ~x
                return data_unary(op, x, expr.dtype)
            case Select(condition=condition, a=a, b=b):
                return self._select(expr, self.value(condition, exact), a, b, exact)
            case Cast(a=a, dtype=dtype):
                x = self.value(a, exact)
                return x if expr.is_index else self._result(convert(x, dtype), dtype, exact)
            case Reinterpret(a=a, dtype=dtype):
                bits = np.asarray(convert(self.value(a, exact), a.dtype))
                return self._result(bits.view(dtype.numpy)[()], dtype, exact)
            case Call(callee=callee, args=args, dtype=dtype):
                compute = callee.compute(tuple(arg.dtype for arg in args))
                values = [convert(self.value(arg, exact), compute) for arg in args]
                with np.errstate(all="ignore"):
                    return self._result(convert(callee.meaning(*values), dtype), dtype, exact)
            case Load(indices=indices, dtype=dtype) if self._load is not None:
                loaded = self._load(expr, tuple(self.value(index, True) for index in indices))
                return self._result(loaded, dtype, exact)
        raise CompilerBug(f"evaluate: no value for {type(expr).__name__}")

    def _variable(self, var: Var, exact: bool) -> Value:
        try:
            value = self._env[var]
        except KeyError:
            raise CompilerBug(f"evaluate: variable {var.name!r} has no value") from None
        if var.index:
            return as_exact(value)
        return self._result(convert(value, var.dtype), var.dtype, exact)

    def _result(self, value: Value, dtype: DType, exact: bool) -> Value:
        return as_exact(value) if exact and dtype.is_int else value

    def _logical(self, op: BinaryOp, first: Value, b: Expr, exact: bool) -> Value:
        if not _is_array(first):
            if bool(first) is (op is BinaryOp.OR):
                return bool(first)
            second = self.value(b, exact)
            return second if _is_array(second) else bool(second)
        second = self.value(b, exact)
        return np.logical_and(first, second) if op is BinaryOp.AND else np.logical_or(first, second)

    def _select(self, expr: Select, condition: Value, a: Expr, b: Expr, exact: bool) -> Value:
        plain = expr.is_index or (exact and expr.dtype.is_int)
        if not _is_array(condition):
            chosen = self.value(a if bool(condition) else b, exact)
            return chosen if plain else convert(chosen, expr.dtype)
        x, y = self.value(a, exact), self.value(b, exact)
        if plain:
            return np.where(condition, x, y)
        return np.where(condition, convert(x, expr.dtype), convert(y, expr.dtype))

    def _binary(self, expr: Binary, exact: bool) -> Value:
        a, b = expr.a, expr.b
        x, y = self.value(a, exact), self.value(b, exact)
        if (a.is_index and b.is_index) or (exact and a.dtype.is_int and b.dtype.is_int):
            return exact_binary(expr.op, x, y)
        # index arithmetic combined with data takes the width of the data
        x = convert(x, b.dtype) if a.is_index else x
        y = convert(y, a.dtype) if b.is_index else y
        result = data_binary(expr.op, x, y, expr.dtype)
        return bool(result) if expr.op in COMPARISONS and not _is_array(result) else result


def as_exact(value: Value) -> Value:
    """An integer value for exact arithmetic: a Python int, or an int64 array."""
    if isinstance(value, int):
        return int(value)
    if _is_array(value):
        return value.astype(np.int64, copy=False) if value.dtype != object else value
    return int(value)


def _is_array(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0
