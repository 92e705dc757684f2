"""Functions of `tilelang.numpy` that create arrays from numbers and shapes; they are inlined where they are read."""

from __future__ import annotations

import math
from typing import Any

from tilelang.dtypes import FLOAT32, INT32, DType, as_dtype, unknown_name
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, as_expr, cast, const, int_const, select
from tilelang.level1.api import api
from tilelang.level1.elements import as_array, as_operand, new_array, read
from tilelang.level1.functions.shaping import as_extents, as_shift, broadcast_arrays, reshape, stack, static_int
from tilelang.level1.graph import Map, axes_for
from tilelang.level1.indexing import count_of_range
from tilelang.level1.promotion import OperandDType, compute_dtype
from tilelang.level1.values import Scalar, TracedArray

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


@api
def arange(start: object, stop: object = None, step: object = 1, *, dtype: object = None) -> Any:
    """The range from `start` up to but not including `stop`; from 0 to `start` if `stop` is left out.

    Without a dtype, integers take the dtype of what they are combined with, as a number of Python does; int32 by
    themselves.

    Raises:
        ProgramTypeError: An argument is an array, or is no number.
        ProgramValueError: The step is 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [as_operand(value, "tnp.arange") for value in (first, last, step)]
    numbers = [operand.expr for operand in bounds if isinstance(operand, Scalar) and not operand.axes]
    if len(numbers) < 3:
        raise ProgramTypeError("tnp.arange: an argument is an array", hint="the length of an array is known beforehand")
    if any(number.dtype.is_float for number in numbers):
        return _float_range(numbers, FLOAT32 if dtype is None else as_dtype(dtype))
    begin, end, stride = numbers
    known = int_const(stride)
    if not known:
        raise ProgramValueError(f"tnp.arange: step is {step!r:.40}, not an int other than 0")
    shape = (count_of_range(begin, end, known),)
    (axis,) = axes = axes_for(shape)
    body: Expr = axis * known if known != 1 else axis
    body = body if int_const(begin) == 0 else begin + body
    operand_dtype = OperandDType(INT32, weak=True) if dtype is None else OperandDType(as_dtype(dtype))
    body = cast(body, compute_dtype(operand_dtype.dtype))
    return new_array("range", shape, Map(axes, body), body.dtype, operand_dtype)


def _float_range(numbers: list[Expr], dtype: DType) -> TracedArray:
    known = [number.value for number in numbers if hasattr(number, "value")]
    if len(known) < 3 or not known[2]:
        raise ProgramValueError("tnp.arange: a range of floats has static bounds and a step other than 0")
    start, stop, step = map(float, known)
    extent = as_expr(max(0, math.ceil((stop - start) / step)))
    (axis,) = axes = axes_for((extent,))
    computed = compute_dtype(dtype)
    body = const(start, computed) + cast(axis, computed) * const(step, computed)
    return new_array("range", (extent,), Map(axes, body), computed, OperandDType(dtype))


@api
def linspace(start: float, stop: float, num: int, *, dtype: object = None, endpoint: bool = True) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last one if `endpoint`."""
    operand_dtype = OperandDType(FLOAT32 if dtype is None else as_dtype(dtype))
    num = static_int("tnp.linspace", "num", num)
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else 0.0
    computed = compute_dtype(operand_dtype.dtype)
    (axis,) = axes = axes_for((num,))
    body = const(start, computed) + cast(axis, computed) * const(step, computed)
    if endpoint and num > 1:
        body = select(axis < num - 1, body, const(stop, computed))
    return new_array("range", (as_expr(num),), Map(axes, body), computed, operand_dtype)


@api
def asarray(obj: object, *, dtype: object = None) -> Any:
    """An array of a number, or of a list of numbers, arrays and such lists; an array is given back.

    Args:
        obj: What it is made of. An array of NumPy or torch is an argument of the function instead.
        dtype: That of the result; None takes what the rules of promotion say.

    Raises:
        StagingTypeError: Something in it is neither an array of the computation nor a number.
        ProgramValueError: A list is empty, or shapes in it differ.
    """
    what = "tnp.asarray"
    if isinstance(obj, list | tuple):
        if not obj:
            raise ProgramValueError(f"{what}: a list is empty", hint="write tnp.zeros((0,)) for no elements")
        array = stack([asarray(each) for each in obj])
    else:
        array = as_array(as_operand(obj, what))
    return array if dtype is None else array.astype(dtype)


@api
def meshgrid(*arrays: object, indexing: str = "xy") -> list[Any]:
    """The coordinates of the points of a grid: an array for each vector, all of the shape of the grid.

    Args:
        arrays: The coordinates along each axis.
        indexing: "ij" if the axes of the grid are in the order of the vectors; "xy" exchanges the first two.

    Raises:
        OptionError: `indexing` is something else.
        ProgramValueError: An array has more than one dimension.
    """
    what = "tnp.meshgrid"
    if indexing not in ("xy", "ij"):
        raise unknown_name("indexing", indexing, ["xy", "ij"])
    vectors = [as_array(as_operand(each, what)) for each in arrays]
    wide = next((each for each in vectors if each.ndim > 1), None)
    if wide is not None:
        raise ProgramValueError(f"{what}: takes vectors, got an array of {wide.ndim} dimensions")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shapes = [tuple(-1 if n == place else 1 for n in range(len(vectors))) for place in order]
    return broadcast_arrays(*[reshape(each, shape) for each, shape in zip(vectors, shapes, strict=True)])


@api
def full(shape: Any, fill_value: object, *, dtype: object = None) -> Any:
    """An array of one value.

    Args:
        shape: Its extents.
        fill_value: The value.
        dtype: That of the value if None: float32 for a float, int32 for an int.

    Raises:
        ProgramTypeError: An extent is no integer, or the value is an array with dimensions.
    """
    return _filled("tnp.full", as_extents("tnp.full", shape), fill_value, dtype)


@api
def empty(shape: Any, *, dtype: object = "float32") -> Any:
    """An array whose elements have no meaning: zeros, since nothing is kept in memory."""
    return _filled("tnp.empty", as_extents("tnp.empty", shape), 0, dtype)


@api
def zeros(shape: Any, *, dtype: object = "float32") -> Any:
    """An array of zeros."""
    return _filled("tnp.zeros", as_extents("tnp.zeros", shape), 0, dtype)


@api
def ones(shape: Any, *, dtype: object = "float32") -> Any:
    """An array of ones."""
    return _filled("tnp.ones", as_extents("tnp.ones", shape), 1, dtype)


@api
def empty_like(x: object, *, dtype: object = None) -> Any:
    """An array whose elements have no meaning, with the shape and dtype of x."""
    return _like("tnp.empty_like", x, 0, dtype)


@api
def full_like(x: object, fill_value: object, *, dtype: object = None) -> Any:
    """An array of one value, with the shape and dtype of x."""
    return _like("tnp.full_like", x, fill_value, dtype)


@api
def zeros_like(x: object, *, dtype: object = None) -> Any:
    """An array of zeros, with the shape and dtype of x."""
    return _like("tnp.zeros_like", x, 0, dtype)


@api
def ones_like(x: object, *, dtype: object = None) -> Any:
    """An array of ones, with the shape and dtype of x."""
    return _like("tnp.ones_like", x, 1, dtype)


def _like(what: str, x: object, value: object, dtype: object) -> TracedArray:
    array = as_array(as_operand(x, what))
    return _filled(what, array.node.shape, value, array.dtype if dtype is None else dtype)


def _filled(what: str, shape: tuple[Expr, ...], value: object, dtype: object) -> TracedArray:
    operand = as_operand(value, what)
    if operand.ndim:
        raise ProgramTypeError(
            f"{what}: the value is an array with dimensions", hint="write tnp.broadcast_to(x, shape)"
        )
    operand_dtype = OperandDType(operand.dtype if dtype is None else as_dtype(dtype))
    axes = axes_for(shape)
    body = cast(read(operand), compute_dtype(operand_dtype.dtype))
    return new_array("filled", shape, Map(axes, body), body.dtype, operand_dtype)


@api
def eye(n_rows: Any, n_cols: Any = None, *, k: int = 0, dtype: object = "float32") -> Any:
    """A matrix with ones on a diagonal, and zeros elsewhere.

    Args:
        n_rows: Its rows.
        n_cols: Its columns, as many as rows if None.
        k: Which diagonal: how many columns to the right of the main one.
        dtype: That of the matrix.
    """
    shape = as_extents("tnp.eye", (n_rows, n_rows if n_cols is None else n_cols))
    operand_dtype = OperandDType(as_dtype(dtype))
    computed = compute_dtype(operand_dtype.dtype)
    i, j = axes = axes_for(shape)
    body = select(i + k == j, const(1, computed), const(0, computed))
    return new_array("eye", shape, Map(axes, body), computed, operand_dtype)


@api
def tril(x: object, *, k: int = 0) -> Any:
    """The lower triangles of matrices: 0 above the k-th diagonal.

    Raises:
        ProgramValueError: x has fewer than two dimensions.
    """
    return _triangle("tnp.tril", x, k, lower=True)


@api
def triu(x: object, *, k: int = 0) -> Any:
    """The upper triangles of matrices: 0 below the k-th diagonal.

    Raises:
        ProgramValueError: x has fewer than two dimensions.
    """
    return _triangle("tnp.triu", x, k, lower=False)


def _triangle(what: str, x: object, k: int, *, lower: bool) -> TracedArray:
    array = as_array(as_operand(x, what))
    if array.ndim < 2:
        raise ProgramValueError(f"{what}: takes matrices, got an array of {array.ndim} dimensions")
    axes = axes_for(array.node.shape)
    value = read(array, axes)
    i, j = axes[-2:]
    diagonal = i + as_shift(what, k)
    kept = j <= diagonal if lower else j >= diagonal
    body = select(kept, value, const(0, value.dtype))
    return new_array("triangle", array.node.shape, Map(axes, body), value.dtype, array.operand_dtype)
