"""Softmax and its relatives, made of a maximum, a sum of exponentials, and elementwise functions."""

from __future__ import annotations

from typing import Any

from tilelang.errors import ProgramTypeError
from tilelang.level1.api import api
from tilelang.level1.axes import axes_of
from tilelang.level1.elements import as_array, as_operand
from tilelang.level1.functions import elementwise as el
from tilelang.level1.functions.reductions import exponential_sum
from tilelang.level1.functions.selection import where
from tilelang.level1.values import Scalar, TracedArray

__all__ = ["log_softmax", "logsumexp", "softmax"]


@api
def softmax(x: object, axis: object = -1) -> Any:
    """exp(x) divided by its sum over axes, computed without overflow.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramTypeError: x has integers that float32 does not hold, or is an expression of `tnp.compute`.
    """
    array = _array("tnp.softmax", x, axis)
    _, exponentials, total = exponential_sum("tnp.softmax", array, axis)
    return el.divide(exponentials, total)


@api
def log_softmax(x: object, axis: object = -1) -> Any:
    """The logarithm of `tnp.softmax`, which is also right where that is rounded to 0."""
    array = _array("tnp.log_softmax", x, axis)
    greatest, _, total = exponential_sum("tnp.log_softmax", array, axis)
    return el.subtract(el.subtract(array, greatest), el.log(total))


@api
def logsumexp(x: object, axis: object = None, *, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exp(x) over axes, computed without overflow; -inf over no elements."""
    array = _array("tnp.logsumexp", x, axis)
    greatest, _, total = exponential_sum("tnp.logsumexp", array, axis)
    result = where(el.isinf(greatest), greatest, el.add(greatest, el.log(total)))
    if keepdims:
        return result
    dropped = axes_of("tnp.logsumexp", axis, array)
    return result[tuple(0 if n in dropped else slice(None) for n in range(array.ndim))]


def _array(what: str, x: object, axis: object) -> TracedArray:
    operand = as_operand(x, what)
    if isinstance(operand, Scalar) and operand.axes or isinstance(axis, Scalar):
        raise ProgramTypeError(
            f"{what}: takes an array and axes of it, not an expression of tnp.compute",
            hint=f"write {what} before or after tnp.compute, or its sum and maximum inside",
        )
    return as_array(operand)
