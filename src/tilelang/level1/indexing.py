"""`x[...]`: the index expressions of an index that a user writes.

Integers, slices, None and `...` give a view; integer arrays gather, by NumPy's rules of broadcasting and of where the
new dimensions stand. Negative integers, and negative values of integer arrays, count from the end. Where an integer
array points outside, the element is not defined.

Inside `tnp.compute`, `x[i, j]` with expressions over axes is one element; where they point outside, it is 0, as in the
language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import Kind
from tilelang.errors import ProgramIndexError, ProgramTypeError
from tilelang.ir.expr import Expr, Var, as_expr, binary, cast, conjunction, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import variables_of
from tilelang.language.extents import folded, shape_text, text
from tilelang.level1.elements import as_operand, broadcast_shapes, extents_of, new_array, read
from tilelang.level1.graph import Map, axes_for, element
from tilelang.level1.trace import require_elements
from tilelang.level1.values import Axis, Operand, Scalar, TracedArray
from tilelang.records import record


@record(eq=False)
class Selection:
    """The elements that an index selects: that at `indices` for each position of `axes`.

    Attributes:
        shape: The shape of what is selected.
        axes: Its axes.
        indices: An index over the axes for each dimension of the array.
    """

    shape: tuple[Expr, ...]
    axes: tuple[Var, ...]
    indices: tuple[Expr, ...]


@record(eq=False)
class _Slice:
    """A slice of one dimension of the array."""

    start: Expr
    step: int
    extent: Expr


def index(array: TracedArray, key: object) -> Operand:
    """`array[key]`.

    Raises:
        ProgramIndexError: There are too many indices, or one is out of range.
        ProgramTypeError: An index is no integer.
    """
    items = _items(array.node.shape, key)
    scalars = [item for item in items if isinstance(item, Scalar)]
    if any(scalar.axes for scalar in scalars):
        return _element(array, items)
    selected = _select(array.node.shape, items)
    node = array.node
    body = element(node, selected.indices)
    return new_array("view", selected.shape, Map(selected.axes, body), node.dtype, array.operand_dtype)


def select_elements(shape: Sequence[Expr], key: object) -> Selection:
    """The elements of an array of a shape that `array[key]` has."""
    return _select(shape, _items(shape, key))


def domain_of(*expressions: Expr) -> Domain:
    """The ranges of the variables of expressions: those of axes, and that symbolic sizes are not negative."""
    domain = Domain()
    for var in dict.fromkeys(var for expr in expressions for var in variables_of(expr)):
        if isinstance(var, Axis):
            domain = domain.with_extents((var,), (var.extent,))
        elif var.index:
            domain = domain.with_range(var, 0)
    return domain


# -- items of an index -----------------------------------------------------------------------------------------
def _items(shape: Sequence[Expr], key: object) -> list[Any]:
    """The index as ints, scalars, slices, None and integer arrays, one for each dimension besides the Nones."""
    given = list(key) if isinstance(key, tuple) else [key]
    items = [item if item is None or item is Ellipsis or isinstance(item, slice) else _integer(item) for item in given]
    count = sum(item is not None and item is not Ellipsis for item in items)
    if count > len(shape):
        raise ProgramIndexError(
            f"x[...]: {count} indices for an array of shape {shape_text(shape)}"
        )
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise ProgramIndexError("x[...]: an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (len(shape) - count)
    return [*items[: places[0]], *rest, *items[places[0] + 1 :]] if places else [*items, *rest]


def _integer(item: object) -> int | Operand:
    """An integer, as an int where it is known now."""
    if isinstance(item, bool | np.bool_):
        raise _index_type_error("a bool", "write x[None] for a new dimension, and tnp.where to choose by a condition")
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, list):
        raise _index_type_error("a list", "write x[i] for each of its integers i, and tnp.stack or tnp.concat")
    operand = as_operand(item, "x[...]")
    if operand.dtype.is_bool:
        raise _index_type_error(
            "an array of bools, so that the number of elements would depend on values",
            "write tnp.where(condition, x, y), which keeps the shape",
        )
    if not operand.dtype.is_int:
        hint = 'indices are integers: i.astype("int32"), or i // n in place of i / n'
        raise _index_type_error(f"{operand.dtype!s}", hint)
    number = int_const(simplify(operand.expr)) if isinstance(operand, Scalar) else None
    return operand if number is None else number


def _index_type_error(found: str, hint: str) -> ProgramTypeError:
    return ProgramTypeError(f"x[...]: an index is {found}", hint=hint)


# -- elements of index notation ------------------------------------------------------------------------------
def _element(array: TracedArray, items: Sequence[Any]) -> Scalar:
    """One element, at expressions over the axes of index notation."""
    node = array.node
    if len(items) != node.rank or not all(isinstance(item, int) or is_number(item) for item in items):
        raise ProgramIndexError(
            f"x[...]: inside tnp.compute, an index of an array of shape {shape_text(node.shape)} names one element",
            hint=f"write {node.rank} indices without slices, None and arrays, such as axes and sums of them",
        )
    indices, inside = [], []
    for item, extent in zip(items, node.shape, strict=True):
        found = position(item, extent)
        indices.append(found)
        if found.is_index:
            domain = domain_of(found, extent)
            inside += [test for test in (found >= 0, found < extent) if not proves(test, domain)]
    load = element(node, indices)
    value = select(conjunction(inside), load, const(0, load.dtype)) if inside else load
    return Scalar(value, array.dtype, weak=array.weak)


def is_number(value: object) -> bool:
    """Whether a value is an operand without dimensions."""
    return isinstance(value, Operand) and not value.ndim


def position(item: int | Operand, extent: Expr, indices: Sequence[Expr] = ()) -> Expr:
    """An integer as an index expression that counts from the start of a dimension.

    Args:
        item: The integer, or an array of integers.
        extent: The extent of the dimension.
        indices: Which element of the array.

    Raises:
        ProgramIndexError: It is known to be out of range.
    """
    if isinstance(item, int):
        size, least = int_const(extent), item + 1 if item >= 0 else -item
        if size is not None and size < least:
            raise ProgramIndexError(f"x[...]: the index {item} is out of range of a dimension of extent {size}")
        short = f"{text(extent)}, which is less than {least}"
        require_elements(extent, least, f"x[...]: the index {item} is out of range of {short}")
        return as_expr(item) if item >= 0 else folded(extent + item)
    position = read(item, indices)
    if position.is_index or item.dtype.kind is Kind.UINT:
        return position
    zero = const(0, position.dtype)
    return select(position < zero, position + cast(extent, position.dtype), position)


# -- views and gathers ---------------------------------------------------------------------------------------
def _select(shape: Sequence[Expr], items: Sequence[Any]) -> Selection:
    gathers = any(isinstance(item, TracedArray) for item in items)
    fixed = [place for place, item in enumerate(items) if isinstance(item, int | Operand)]
    arrays = [item for item in items if isinstance(item, TracedArray)]
    together = broadcast_shapes("x[...]", *map(extents_of, arrays)) if gathers else ()
    adjacent = fixed == list(range(fixed[0], fixed[0] + len(fixed))) if fixed else True
    extents: list[Expr] = list(together) if gathers and not adjacent else []
    first = 0  # where the dimensions of integer arrays stand
    parts: list[Any] = []  # per dimension of the array: an integer, or a slice with the position of its axis
    rest = iter(shape)
    for place, item in enumerate(items):
        if gathers and adjacent and fixed and place == fixed[0]:
            first = len(extents)
            extents += together
        if item is None:
            extents.append(as_expr(1))
            continue
        extent = next(rest)
        if isinstance(item, slice):
            found = _clipped_slice(item, extent)
            parts.append((found, len(extents)))
            extents.append(found.extent)
        else:
            parts.append((item, extent))
    axes = axes_for(extents)
    where = axes[first : first + len(together)]
    indices = [
        _slice_index(part.start, part.step, axes[at]) if isinstance(part, _Slice) else position(part, at, where)
        for part, at in parts
    ]
    return Selection(tuple(extents), axes, tuple(indices))


def _slice_index(start: Expr, step: int, axis: Var) -> Expr:
    """`start + step * axis`, without a start of 0 and a step of 1."""
    walked = axis if step == 1 else axis * step
    return walked if int_const(start) == 0 else start + walked


def _clipped_slice(item: slice, extent: Expr) -> _Slice:
    """A slice of a dimension, clipped to it as in Python."""
    step = 1 if item.step is None else _bound(item.step)
    if not isinstance(step, int) or step == 0:
        raise ProgramIndexError(f"x[...]: the step of a slice is an int other than 0, got {item.step!r:.40}")
    start, stop = (None if bound is None else _bound(bound) for bound in (item.start, item.stop))
    size = int_const(extent)
    if size is not None and not isinstance(start, Expr) and not isinstance(stop, Expr):
        covered = range(size)[slice(start, stop, step)]
        return _Slice(as_expr(covered.start), step, as_expr(len(covered)))
    # A start beyond the end, and a stop before the start, give no elements anyway.
    if step > 0:
        first = as_expr(0) if start is None else binary(BinaryOp.MAX, _from_start(start, extent), 0)
        last = extent if stop is None else binary(BinaryOp.MIN, _from_start(stop, extent), extent)
    else:
        first = extent - 1 if start is None else binary(BinaryOp.MIN, _from_start(start, extent), extent - 1)
        last = as_expr(-1) if stop is None else binary(BinaryOp.MAX, _from_start(stop, extent), -1)
    return _Slice(simplify(first, domain_of(first)), step, count_of_range(first, last, step))


def count_of_range(start: Expr, stop: Expr, step: int) -> Expr:
    """How many numbers `range(start, stop, step)` has."""
    span = stop - start if step > 0 else start - stop
    steps = span if step in (1, -1) else (span + (abs(step) - 1)) // abs(step)
    count = binary(BinaryOp.MAX, steps, 0)
    return folded(simplify(count, domain_of(count)))


def _bound(value: object) -> int | Expr:
    """A bound of a slice: an int, or an expression of symbolic sizes."""
    found = _integer(value)
    if isinstance(found, Scalar) and not found.axes and found.expr.is_index:
        return found.expr
    if isinstance(found, Operand):
        raise ProgramIndexError(
            "x[...]: a bound of a slice depends on values of an array, so that the shape would, too",
            hint="write tnp.where(condition, x, y), which keeps the shape, or gather by tnp.take",
        )
    return found


def _from_start(bound: int | Expr, extent: Expr) -> Expr:
    """A bound of a slice, counted from the start; negative ints count from the end."""
    return extent + bound if isinstance(bound, int) and bound < 0 else as_expr(bound)
