"""Functions of `tilelang.numpy` that order elements along an axis, and cumulative ones."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import INT32, unknown_name
from tilelang.errors import ProgramValueError
from tilelang.ir.expr import Expr, as_expr, cast, const, int_const
from tilelang.language.extents import text
from tilelang.level1.api import api
from tilelang.level1.axes import axis_of
from tilelang.level1.elements import as_array, as_operand, new_array
from tilelang.level1.functions import elementwise as el
from tilelang.level1.functions.reductions import count_nonzero
from tilelang.level1.functions.selection import take
from tilelang.level1.functions.shaping import concat, expand_dims, static_int
from tilelang.level1.graph import Combiner, Map, Scan, Sort, axes_for, element
from tilelang.level1.promotion import OperandDType, sum_dtypes
from tilelang.level1.trace import require_elements
from tilelang.level1.values import TracedArray

__all__ = ["argsort", "cumulative_prod", "cumulative_sum", "searchsorted", "sort", "topk"]


@api
def sort(x: object, *, axis: object = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements along an axis in order; NaN counts as the greatest. Sorting is always stable.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    del stable
    array = as_array(as_operand(x, "tnp.sort"))
    return _sorted("tnp.sort", array, axis, None, descending=descending, gives_index=False)


@api
def argsort(x: object, *, axis: object = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions along an axis that sort the elements; int32. Sorting is always stable.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    del stable
    array = as_array(as_operand(x, "tnp.argsort"))
    return _sorted("tnp.argsort", array, axis, None, descending=descending, gives_index=True)


@api
def topk(x: object, k: int, *, axis: object = -1, largest: bool = True) -> tuple[Any, Any]:
    """The k greatest elements along an axis, the greatest first, and their positions, int32.

    Args:
        x: The array.
        k: How many.
        axis: The axis.
        largest: Whether they are the greatest, else the smallest.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramTypeError: k is a symbolic size.
        ProgramValueError: k is negative or above the extent of the axis.
    """
    array, k = as_array(as_operand(x, "tnp.topk")), static_int("tnp.topk", "k", k)
    values = _sorted("tnp.topk", array, axis, k, descending=largest, gives_index=False)
    return values, _sorted("tnp.topk", array, axis, k, descending=largest, gives_index=True)


@api
def searchsorted(x1: object, x2: object, *, side: str = "left", sorter: object = None) -> Any:
    """Where values belong in a sorted vector: the number of its elements that stand before each, int32.

    Args:
        x1: The vector, in ascending order.
        x2: The values.
        side: Whether a value stands before elements that are equal to it ("left"), or behind them ("right").
        sorter: Positions that sort x1, where it is in another order.

    Raises:
        OptionError: `side` is something else.
        ProgramValueError: x1 is no vector.
    """
    what = "tnp.searchsorted"
    if side not in ("left", "right"):
        raise unknown_name("side", side, ["left", "right"])
    vector, values = as_array(as_operand(x1, what)), as_array(as_operand(x2, what))
    if vector.ndim != 1:
        raise ProgramValueError(f"{what}: x1 has {vector.ndim} dimensions, and must have one")
    if sorter is not None:
        vector = take(vector, sorter, axis=0)
    value = expand_dims(values, -1)
    if side == "left":  # NaN is sorted last
        before = el.less(vector, value) | el.isnan(value) & ~el.isnan(vector)
    else:
        before = el.less_equal(vector, value) | el.isnan(value)
    return count_nonzero(before, axis=-1)


def _sorted(
    what: str, array: TracedArray, axis: object, count: int | None, *, descending: bool, gives_index: bool
) -> TracedArray:
    along = axis_of(what, axis, array)
    shape = list(array.node.shape)
    extent = shape[along]
    if count is not None:
        if count < 0:
            raise ProgramValueError(f"{what}: k is {count}")
        has = "fewer elements" if int_const(extent) is None else f"the extent {text(extent)}"
        require_elements(extent, count, f"{what}: k is {count}, but axis {along} has {has}")
        shape[along] = as_expr(count)
    axes = axes_for(shape)
    body = element(array.node, axes)
    dtype, operand_dtype = (INT32, OperandDType(INT32)) if gives_index else (body.dtype, array.operand_dtype)
    definition: Sort | Map = Sort(axes, along, extent, body, descending=descending, gives_index=gives_index)
    if int_const(extent) == 1:
        definition = Map(axes, const(0, INT32) if gives_index else body)
    return new_array("positions" if gives_index else "sorted", shape, definition, dtype, operand_dtype)


# -- cumulative ----------------------------------------------------------------------------------------------
@api
def cumulative_sum(
    x: object, *, axis: object = None, dtype: object = None, include_initial: bool = False, accumulate: object = None
) -> Any:
    """The sums of the elements up to each position of an axis.

    Args:
        x: The array.
        axis: The axis, which may be left out for one dimension.
        dtype: Of the result, as for `tnp.sum`.
        include_initial: Whether a 0 stands first, so that there is one element more.
        accumulate: The dtype of the sums; float32 for narrower floats.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramValueError: x has several dimensions, and no axis is named.
    """
    return _cumulative("tnp.cumulative_sum", Combiner.SUM, x, axis, dtype, include_initial, accumulate)


@api
def cumulative_prod(
    x: object, *, axis: object = None, dtype: object = None, include_initial: bool = False, accumulate: object = None
) -> Any:
    """The products of the elements up to each position of an axis; arguments as for `tnp.cumulative_sum`."""
    return _cumulative("tnp.cumulative_prod", Combiner.PROD, x, axis, dtype, include_initial, accumulate)


def _cumulative(
    what: str, combiner: Combiner, x: object, axis: object, dtype: object, include_initial: bool, accumulate: object
) -> Any:
    array = as_array(as_operand(x, what))
    if axis is None and array.ndim != 1:
        raise ProgramValueError(f"{what}: an array of {array.ndim} dimensions needs an axis", hint="write axis=0")
    along = axis_of(what, 0 if axis is None else axis, array)
    dtypes, shape = sum_dtypes(what, array.dtype, dtype, accumulate), array.node.shape
    axes = axes_for(shape)
    body = cast(element(array.node, axes), dtypes.combined)
    operand_dtype = OperandDType(dtypes.result)
    definition = Map(axes, body) if int_const(shape[along]) == 1 else Scan(axes, along, combiner, body)
    scanned = new_array("sums", shape, definition, body.dtype, operand_dtype, part=include_initial)
    if not include_initial:
        return scanned
    first = [as_expr(1) if n == along else extent for n, extent in enumerate(shape)]
    start: Expr = const(combiner.neutral(body.dtype), body.dtype)
    initial = new_array("initial", first, Map(axes_for(first), start), body.dtype, operand_dtype, part=True)
    return concat((initial, scanned), along)
