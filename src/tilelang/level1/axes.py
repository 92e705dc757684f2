"""Axes of arrays as users name them: an int, a tuple of ints, or None for all."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError
from tilelang.language.extents import shape_text
from tilelang.level1.values import TracedArray


def axis_of(what: str, axis: object, array: TracedArray, *, new: int = 0) -> int:
    """An axis of an array, counted from the first.

    Args:
        what: The function of `tilelang.numpy`.
        axis: As the user gave it; negative ones count from the last.
        array: The array.
        new: How many dimensions the result has beyond the array.

    Raises:
        ProgramTypeError: It is no integer.
        ProgramIndexError: The array has no such axis.
    """
    try:
        number = operator.index(axis)  # type: ignore[arg-type]
    except TypeError:
        raise ProgramTypeError(f"{what}: axis is {axis!r:.40}, not an int") from None
    rank = array.ndim + new
    if not -rank <= number < rank:
        raise ProgramIndexError(
            f"{what}: axis {number} is out of range of an array of shape {shape_text(array.node.shape)}",
            hint=f"axes go from {-rank} to {rank - 1}" if rank else "an array without dimensions has no axes",
        )
    return number % rank


def axes_of(what: str, axis: object, array: TracedArray, *, new: int = 0) -> tuple[int, ...]:
    """Axes of an array in increasing order; None means all.

    Raises:
        ProgramTypeError: One is no integer.
        ProgramIndexError: The array has no such axis.
        ProgramValueError: An axis is named twice.
    """
    if axis is None:
        return tuple(range(array.ndim))
    given = list(axis) if isinstance(axis, Iterable) else [axis]
    axes = [axis_of(what, each, array, new=new) for each in given]
    if len(set(axes)) < len(axes):
        raise ProgramValueError(f"{what}: axis {tuple(given)} names an axis twice")
    return tuple(sorted(axes))
