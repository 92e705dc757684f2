"""Reductions of `tilelang.numpy`: sums, extrema and positions, and statistics.

A function takes an array and the axes to reduce, or, inside `tnp.compute`, an expression and axes of `tnp.reduce_axis`.
Sums of floats narrower than 32 bits are float32, those of bools and of integers below 32 bits int32; `accumulate` names
another dtype for them, `dtype` that of the result, to which they are rounded once.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from tilelang.dtypes import BOOL, INT32, DType, as_dtype
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, Var, as_bool, cast
from tilelang.ir.visit import substitute
from tilelang.language.extents import folded, product
from tilelang.level1.api import api
from tilelang.level1.axes import axes_of, axis_of
from tilelang.level1.elements import as_array, as_operand, new_array
from tilelang.level1.functions import elementwise as el
from tilelang.level1.graph import Combiner, Map, Reduction, axes_for, element
from tilelang.level1.promotion import OperandDType, as_float, compute_dtype, sum_dtypes
from tilelang.level1.trace import require_elements
from tilelang.level1.values import Axis, Operand, Scalar, TracedArray, as_size
from tilelang.records import record

__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"]


# -- one reduction -------------------------------------------------------------------------------------------
@record
class _ReducedDomain:
    """What is reduced: the elements of an array along axes, or an expression of index notation over axes.

    Attributes:
        body: An element.
        kept: The axes that stay.
        shape: Their extents.
        reduced: The axes that are reduced.
        extents: Their extents.
        positions: The positions of the reduced axes in the array; None for an expression.
    """

    body: Expr
    kept: tuple[Var, ...]
    shape: tuple[Expr, ...]
    reduced: tuple[Var, ...]
    extents: tuple[Expr, ...]
    positions: tuple[int, ...] | None

    @property
    def count(self) -> Expr:
        """How many elements are combined into one."""
        return folded(product(self.extents))


def _reduced_domain(what: str, operand: Operand, axis: object) -> _ReducedDomain:
    """What a call reduces.

    Raises:
        ProgramTypeError: An array with axes of index notation, or an expression of it with others.
        ProgramIndexError: The array has no such axis.
        ProgramValueError: An axis is named twice.
    """
    given = list(axis) if isinstance(axis, Iterable) and not isinstance(axis, Operand) else [axis]
    of_notation = [each for each in given if isinstance(each, Scalar)]
    if of_notation or isinstance(operand, Scalar) and operand.axes:
        return _notation_domain(what, operand, given)
    array = as_array(operand)
    positions, shape = axes_of(what, axis, array), array.node.shape
    axes = axes_for(shape)
    kept = [n for n in range(array.ndim) if n not in positions]
    return _ReducedDomain(
        element(array.node, axes), tuple(axes[n] for n in kept), tuple(shape[n] for n in kept),
        tuple(axes[n] for n in positions), tuple(shape[n] for n in positions), positions,
    )  # fmt: skip


def _notation_domain(what: str, operand: Operand, given: list[Any]) -> _ReducedDomain:
    reduced = [each.expr for each in given if isinstance(each, Scalar) and isinstance(each.expr, Axis)]
    if len(reduced) < len(given) or not builtins.all(axis.reduced for axis in reduced):
        raise ProgramTypeError(
            f"{what}: an expression of tnp.compute is reduced over axes of tnp.reduce_axis",
            hint=f"write k = tnp.reduce_axis(K) before, and {what}(x[i, k], axis=k)",
        )
    if not isinstance(operand, Scalar):
        raise ProgramTypeError(
            f"{what}: an array is reduced over an axis of tnp.reduce_axis",
            hint=f"index the array by it, {what}(x[i, k], axis=k), or name the axis by an int",
        )
    if len(set(reduced)) < len(reduced):
        raise ProgramValueError(f"{what}: an axis of tnp.reduce_axis is named twice")
    kept = tuple(axis for axis in operand.axes if axis not in set(reduced))
    return _ReducedDomain(
        operand.expr, kept, tuple(axis.extent for axis in kept), tuple(reduced),
        tuple(axis.extent for axis in reduced), None,
    )  # fmt: skip


def _reduce(
    domain: _ReducedDomain,
    combiner: Combiner,
    combined: DType,
    result: OperandDType,
    name: str,
    *,
    part: bool = False,
    function: Callable[[Expr], Expr] | None = None,
) -> Operand:
    """The reduction of `function` of the elements in the dtype `combined`; an element of it in index notation."""
    fresh = {axis: Var(axis.name, axis.dtype, index=True) for axis in (*domain.kept, *domain.reduced)}
    value = substitute(domain.body, fresh)
    body = cast(value, combined) if function is None else function(value)
    kept = tuple(fresh[axis] for axis in domain.kept)
    dtype = INT32 if combiner.gives_index else combined
    definition: Map | Reduction
    if domain.reduced:
        definition = Reduction(kept, tuple(fresh[axis] for axis in domain.reduced), domain.extents, combiner, body)
    else:
        definition = Map(kept, cast(0, INT32) if combiner.gives_index else body)
    array = new_array(name, domain.shape, definition, dtype, result, part=part)
    if domain.positions is not None:
        return array
    return Scalar(element(array.node, domain.kept), result.dtype, weak=result.weak)


def _with_keepdims(value: Operand, domain: _ReducedDomain, *, keepdims: bool) -> Operand:
    """The result of a reduction, with reduced axes of extent 1 if they are to be kept."""
    if not keepdims or not isinstance(value, TracedArray) or not domain.positions:
        return value
    rank = value.ndim + len(domain.positions)
    kept: TracedArray = value[tuple(None if n in domain.positions else slice(None) for n in range(rank))]
    return kept


def _check_not_empty(what: str, domain: _ReducedDomain) -> None:
    """Raises for a reduction over no elements that has no value then; for symbolic extents, calls do."""
    message = f"{what}: the axis has no elements, and there is no {what.removeprefix('tnp.')} of nothing"
    for extent in domain.extents:
        require_elements(extent, 1, message, "only sum, prod, any, all and logsumexp have a value for no elements")


# -- sums and products ---------------------------------------------------------------------------------------
@api
def sum(
    x: object, axis: object = None, *, dtype: object = None, keepdims: bool = False, accumulate: object = None
) -> Any:
    """The sum over axes; 0 over no elements.

    Args:
        x: An array, or an expression inside `tnp.compute`.
        axis: An axis, a tuple of them, or None for all; inside `tnp.compute`, axes of `tnp.reduce_axis`.
        dtype: Of the result: that of x, int32 for bools and integers below 32 bits.
        keepdims: Whether reduced axes stay, with extent 1.
        accumulate: The dtype of the sums; float32 for narrower floats.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    return _sum("sum", Combiner.SUM, x, axis, dtype, keepdims, accumulate)


@api
def prod(
    x: object, axis: object = None, *, dtype: object = None, keepdims: bool = False, accumulate: object = None
) -> Any:
    """The product over axes; 1 over no elements. The arguments are those of `tnp.sum`."""
    return _sum("prod", Combiner.PROD, x, axis, dtype, keepdims, accumulate)


def _sum(
    name: str, combiner: Combiner, x: object, axis: object, dtype: object, keepdims: bool, accumulate: object
) -> Operand:
    what = f"tnp.{name}"
    operand = as_operand(x, what)
    domain, dtypes = _reduced_domain(what, operand, axis), sum_dtypes(what, operand.dtype, dtype, accumulate)
    result = _reduce(domain, combiner, dtypes.combined, OperandDType(dtypes.result), name)
    return _with_keepdims(result, domain, keepdims=keepdims)


# -- extrema -------------------------------------------------------------------------------------------------
@api
def max(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """The greatest element over axes, NaN if there is one.

    Raises:
        ProgramValueError: There are no elements.
    """
    return _extremum("max", Combiner.MAX, x, axis, keepdims)


@api
def min(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """The smallest element over axes, NaN if there is one.

    Raises:
        ProgramValueError: There are no elements.
    """
    return _extremum("min", Combiner.MIN, x, axis, keepdims)


def _extremum(name: str, combiner: Combiner, x: object, axis: object, keepdims: bool) -> Operand:
    operand = as_operand(x, f"tnp.{name}")
    domain = _reduced_domain(f"tnp.{name}", operand, axis)
    _check_not_empty(f"tnp.{name}", domain)
    result = _reduce(domain, combiner, compute_dtype(operand.dtype), operand.operand_dtype, name)
    return _with_keepdims(result, domain, keepdims=keepdims)


@api
def argmax(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """The position of the greatest element along an axis, or in the flattened array; int32. The first of equal ones.

    Raises:
        ProgramValueError: There are no elements.
    """
    return _position("argmax", Combiner.ARGMAX, x, axis, keepdims)


@api
def argmin(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """The position of the smallest element along an axis, or in the flattened array; int32. The first of equal ones.

    Raises:
        ProgramValueError: There are no elements.
    """
    return _position("argmin", Combiner.ARGMIN, x, axis, keepdims)


def _position(name: str, combiner: Combiner, x: object, axis: object, keepdims: bool) -> Operand:
    what = f"tnp.{name}"
    operand = as_operand(x, what)
    if isinstance(operand, TracedArray) and axis is not None and not isinstance(axis, Operand):
        axis = axis_of(what, axis, operand)
    domain = _reduced_domain(what, operand, axis)
    _check_not_empty(what, domain)
    result = _reduce(domain, combiner, compute_dtype(operand.dtype), OperandDType(INT32), name)
    return _with_keepdims(result, domain, keepdims=keepdims)


# -- truth ---------------------------------------------------------------------------------------------------
@api
def any(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """Whether one of the elements over axes is true, that is not 0; False over no elements."""
    return _truth("any", Combiner.MAX, x, axis, keepdims)


@api
def all(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """Whether all elements over axes are true, that is not 0; True over no elements."""
    return _truth("all", Combiner.MIN, x, axis, keepdims)


@api
def count_nonzero(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """How many elements over axes are not 0, as an int32."""
    domain = _reduced_domain("tnp.count_nonzero", as_operand(x, "tnp.count_nonzero"), axis)

    def one_if_true(value: Expr) -> Expr:
        return cast(as_bool(value), INT32)

    result = _reduce(domain, Combiner.SUM, INT32, OperandDType(INT32), "count", function=one_if_true)
    return _with_keepdims(result, domain, keepdims=keepdims)


def _truth(name: str, combiner: Combiner, x: object, axis: object, keepdims: bool) -> Operand:
    domain = _reduced_domain(f"tnp.{name}", as_operand(x, f"tnp.{name}"), axis)
    result = _reduce(domain, combiner, BOOL, OperandDType(BOOL), name, function=as_bool)
    return _with_keepdims(result, domain, keepdims=keepdims)


# -- statistics ----------------------------------------------------------------------------------------------
@api
def mean(x: object, axis: object = None, *, dtype: object = None, keepdims: bool = False) -> Any:
    """The mean over axes, a float.

    Raises:
        ProgramValueError: There are no elements.
        ProgramTypeError: x has integers that float32 does not hold.
    """
    return _mean("mean", x, axis, dtype, keepdims=keepdims)


def _mean(name: str, x: object, axis: object, dtype: object, *, keepdims: bool) -> Operand:
    what = f"tnp.{name}"
    operand = as_operand(x, what)
    domain = _reduced_domain(what, operand, axis)
    _check_not_empty(what, domain)
    result = as_dtype(dtype) if dtype is not None else as_float(what, operand.dtype)
    total = _reduce(domain, Combiner.SUM, compute_dtype(result), OperandDType(result), "sum", part=True)
    divided: Operand = el.divide(_with_keepdims(total, domain, keepdims=keepdims), as_size(domain.count))
    return divided


@api
def var(x: object, axis: object = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over axes: the sum of squared distances from the mean, divided by their number minus `correction`.

    Raises:
        ProgramValueError: There are no elements.
        ProgramTypeError: x has integers that float32 does not hold, or is an expression of `tnp.compute`.
    """
    return _var("var", x, axis, correction, keepdims=keepdims)


@api
def std(x: object, axis: object = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance; the arguments are those of `tnp.var`."""
    return el.sqrt(_var("std", x, axis, correction, keepdims=keepdims))


def _var(name: str, x: object, axis: object, correction: float, *, keepdims: bool) -> Operand:
    what = f"tnp.{name}"
    operand = as_operand(x, what)
    if isinstance(operand, Scalar) and operand.axes:
        raise ProgramTypeError(f"{what}: takes an array", hint="write it before tnp.compute, or as sums and squares")
    array = as_array(operand)
    distance = el.subtract(array, _mean(name, array, axis, None, keepdims=True))
    domain = _reduced_domain(what, distance, axis)
    dtype, square = compute_dtype(distance.dtype), lambda d: d * d
    total = _reduce(domain, Combiner.SUM, dtype, distance.operand_dtype, "squares", part=True, function=square)
    count = el.subtract(as_size(domain.count), correction) if correction else as_size(domain.count)
    divided: Operand = el.divide(_with_keepdims(total, domain, keepdims=keepdims), count)
    return divided


# -- exponentials --------------------------------------------------------------------------------------------
def exponential_sum(what: str, array: TracedArray, axis: object) -> tuple[Any, Any, Any]:
    """The maximum m of an array over axes, exp(array - m), and the sum of that; reduced axes have extent 1."""
    domain = _reduced_domain(what, array, axis)
    dtype = as_float(what, array.dtype)
    greatest = _reduce(domain, Combiner.MAX, compute_dtype(dtype), OperandDType(dtype), "max", part=True)
    greatest = _with_keepdims(greatest, domain, keepdims=True)
    exponentials = el.exp(el.subtract(array, greatest))
    domain = _reduced_domain(what, exponentials, axis)
    total = _reduce(domain, Combiner.SUM, compute_dtype(dtype), OperandDType(dtype), "sum", part=True)
    return greatest, exponentials, _with_keepdims(total, domain, keepdims=True)
