"""Binding of a function's parameters: arrays become global memory, shapes give symbolic dimensions their values.

Takes one argument per parameter; defines every symbol in the evaluator and every tensor in the memory. Invariant:
after it, all shapes that the function mentions can be evaluated, and nothing was written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilelang.errors import ArgumentError
from tilelang.ir.expr import Binary, Const, Expr, Var
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.sim.expressions import Evaluator
from tilelang.sim.memory import Memory


def bind_arguments(
    func: PrimFunc, arguments: Sequence[np.ndarray | int | float], evaluator: Evaluator, memory: Memory
) -> None:
    """Binds all parameters.

    Raises:
        ArgumentError: The number of arguments, a dtype, a rank, an extent or a stride does not fit.
    """
    if len(arguments) != len(func.params):
        raise ArgumentError(f"{func.name}: expected {len(func.params)} arguments, got {len(arguments)}")
    pending: list[tuple[str, Expr, int]] = []
    for param, argument in zip(func.params, arguments, strict=True):
        if isinstance(param, ScalarParam):
            number = convert(argument, param.dtype)
            evaluator.env[param.var] = int(number) if param.var.index else number
        else:
            array = _checked(param, argument)
            pending += _facts(param, array)
            memory.bind(param.buffer, array)
    _solve(pending, func, evaluator)


def _checked(param: TensorParam, argument: object) -> np.ndarray:
    if not isinstance(argument, np.ndarray):
        raise ArgumentError(f"argument '{param.name}': expected a NumPy array, got {type(argument).__name__}")
    if argument.dtype != param.dtype.numpy:
        raise ArgumentError(f"argument '{param.name}': expected dtype {param.dtype!s}, got {argument.dtype}")
    rank = param.buffer.rank + (param.dtype.lanes > 1)
    if argument.ndim != rank:
        raise ArgumentError(f"argument '{param.name}': expected {rank} dimensions, got {argument.ndim}")
    return argument


def _facts(param: TensorParam, array: np.ndarray) -> list[tuple[str, Expr, int]]:
    """The equations of an argument: expressions of symbols with their values, and texts for messages."""
    facts = [
        (f"argument '{param.name}': dimension {axis}", extent, size)
        for axis, (extent, size) in enumerate(zip(param.shape, array.shape, strict=False))
    ]
    for axis, stride in enumerate(param.buffer.strides or ()):
        if array.size and array.shape[axis] > 1:  # the stride of a dimension of extent 1 is arbitrary
            facts.append((f"argument '{param.name}': stride {axis}", stride, array.strides[axis] // array.itemsize))
        elif isinstance(stride, Var):
            facts.append((f"argument '{param.name}': stride {axis}", stride, array.strides[axis] // array.itemsize))
    return facts


def _solve(facts: list[tuple[str, Expr, int]], func: PrimFunc, evaluator: Evaluator) -> None:
    """Solves for symbols that are alone in an extent, or times a constant; then checks all other extents."""
    for _, expr, value in facts:
        match expr:
            case Var() as symbol:
                evaluator.env.setdefault(symbol, value)
            case Binary(op=BinaryOp.MUL, a=Var() as symbol, b=Const(value=factor)) if factor and value % factor == 0:
                evaluator.env.setdefault(symbol, value // int(factor))
    for symbol in func.symbols:
        if symbol not in evaluator.env:
            raise ArgumentError(
                f"{func.name}: no argument determines '{symbol.name}'",
                hint=f"use '{symbol.name}' alone as a dimension of a parameter, or pass it as a scalar",
            )
    for label, expr, value in facts:
        expected = evaluator.index(expr)
        if expected != value:
            raise ArgumentError(f"{label}: expected {expected}, got {value}")
