"""Index notation: `tnp.compute` defines an array by an expression of its axes, over which `tnp.sum` and others reduce.

An axis is a weak integer, as a number of Python is: `x[i, j] * i` has the dtype of x.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import INT32
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Const, Load, Var, cast
from tilelang.ir.visit import substitute
from tilelang.level1.api import api
from tilelang.level1.elements import as_operand, new_array, read
from tilelang.level1.functions.shaping import as_extents
from tilelang.level1.graph import Array, Map, same_axes
from tilelang.level1.promotion import compute_dtype
from tilelang.level1.values import Axis, Scalar, TracedArray

__all__ = ["compute", "reduce_axis"]


@api
def reduce_axis(extent: object) -> Any:
    """An axis to reduce over inside `tnp.compute`, by `tnp.sum(..., axis=k)` and the other reductions.

    Raises:
        ProgramTypeError: The extent is no integer.
    """
    (size,) = as_extents("tnp.reduce_axis", (extent,))
    return Scalar(Axis("k", INT32, True, extent=size, reduced=True), INT32, weak=True)


@api
def compute(shape: Any, function: Callable[..., Any]) -> Any:
    """The array whose element at i, j, ... is `function(i, j, ...)`.

    Args:
        shape: The extents of the array.
        function: From an axis for each dimension to a number, made of elements of arrays, functions of `tilelang.numpy`
            and reductions over axes of `tnp.reduce_axis`. It runs once.

    Raises:
        ProgramTypeError: The function takes another number of axes, or gives something else than a number.
        ProgramValueError: An axis of `tnp.reduce_axis` is not reduced.

    Example:
        `tnp.compute((M, N), lambda i, j: tnp.sum(a[i, k] * b[k, j], axis=k))`
    """
    extents = as_extents("tnp.compute", shape)
    names = _parameter_names(function, len(extents))
    axes = tuple(Axis(name, INT32, True, extent=n, reduced=False) for name, n in zip(names, extents, strict=True))
    result = as_operand(function(*[Scalar(axis, INT32, weak=True) for axis in axes]), "tnp.compute")
    if result.ndim:
        raise ProgramTypeError(
            f"tnp.compute: the function gives an array of {result.ndim} dimensions, not a number",
            hint="index every dimension of arrays by axes: x[i, j]",
        )
    value = read(result)
    left = [axis for axis in (result.axes if isinstance(result, Scalar) else ()) if axis not in set(axes)]
    if left:
        raise ProgramValueError(
            "tnp.compute: the function gives an expression over an axis that is none of the array's",
            hint="reduce axes of tnp.reduce_axis inside the function, as in tnp.sum(x[i, k], axis=k)",
        )
    if isinstance(value, Load) and isinstance(value.buffer, Array) and same_axes(value.indices, axes):
        return TracedArray(value.buffer, weak=result.weak)  # nothing but a reduction
    fresh: dict[Var, Any] = {axis: Var(axis.name, INT32, index=True) for axis in axes}
    body = cast(value, compute_dtype(result.dtype)) if isinstance(value, Const) else substitute(value, fresh)
    return new_array("computed", extents, Map(tuple(fresh.values()), body), body.dtype, result.operand_dtype)


def _parameter_names(function: Callable[..., Any], rank: int) -> list[str]:
    """What the parameters of a function are called; those of `*args` are numbered.

    Raises:
        ProgramTypeError: It takes another number of axes.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*range(rank))
    except TypeError:
        raise ProgramTypeError(
            f"tnp.compute: the shape has {rank} dimensions, and the function takes {signature}",
            hint="it takes one parameter for each dimension",
        ) from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        names += [f"{name}{n}" for n in range(len(value))] if isinstance(value, tuple) else [name]
    return names
