"""Functions of `tilelang.numpy` that select elements, by conditions or positions, and updates at positions."""

from __future__ import annotations

from typing import Any, NoReturn

from tilelang.errors import ProgramTypeError, ProgramValueError, UnknownAttribute
from tilelang.ir.expr import Expr, as_expr, binary, cast, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.language.extents import difference, shape_text
from tilelang.level1.api import api
from tilelang.level1.axes import axis_of
from tilelang.level1.elements import (
    as_array,
    as_operand,
    broadcast_shapes,
    extents_of,
    map_elements,
    new_array,
    read,
)
from tilelang.level1.functions.elementwise import elementwise
from tilelang.level1.graph import Combiner, Map, Scatter, axes_for, element
from tilelang.level1.indexing import position, select_elements
from tilelang.level1.promotion import compute_dtype, promote
from tilelang.level1.values import Operand, TracedArray

__all__ = ["clip", "take", "take_along_axis", "where"]


@api
def where(condition: object, x1: object, x2: object) -> Any:
    """x1 where a condition holds, x2 elsewhere.

    Shapes: all three are broadcast to one shape, that of the result.

    Raises:
        ProgramTypeError: The condition is not bool, or no dtype has all values of x1 and x2.
    """
    what = "tnp.where"
    test, x, y = as_operand(condition, what), as_operand(x1, what), as_operand(x2, what)
    if not test.dtype.is_bool:
        raise ProgramTypeError(
            f"{what}: the condition is {test.dtype!s}, not bool", hint="write tnp.where(x != 0, ...), or a comparison"
        )
    common = promote(what, (x.operand_dtype, y.operand_dtype))
    dtype = compute_dtype(common.dtype)
    return map_elements("where", lambda c, a, b: select(c, cast(a, dtype), cast(b, dtype)), (test, x, y), common)


@api
def clip(x: object, min: object = None, max: object = None) -> Any:
    """The values of x between two bounds, of which each may be None; NaN stays NaN.

    Raises:
        ProgramTypeError: A bound has values that the dtype of x does not have.
    """
    if min is None and max is None:
        return as_operand(x, "tnp.clip")
    bounds = [bound for bound in (min, max) if bound is not None]

    def clipped(value: Expr, *limits: Expr) -> Expr:
        rest = iter(limits)
        if min is not None:
            value = binary(BinaryOp.MAX, value, next(rest))
        return value if max is None else binary(BinaryOp.MIN, value, next(rest))

    return elementwise("clip", clipped, x, *bounds)


@api
def take(x: object, indices: object, axis: object = None) -> Any:
    """The elements of x at positions along an axis, which may be left out for one dimension.

    Shapes: the axis is replaced by the dimensions of `indices`.

    Raises:
        ProgramTypeError: `indices` are no integers.
        ProgramIndexError: There is no such axis.
        ProgramValueError: x has several dimensions, and no axis is named.
    """
    array = as_array(as_operand(x, "tnp.take"))
    if axis is None and array.ndim != 1:
        raise ProgramValueError(f"tnp.take: an array of {array.ndim} dimensions needs an axis", hint="write axis=0")
    place = axis_of("tnp.take", 0 if axis is None else axis, array)
    return array[(slice(None),) * place + (as_array(_integers("tnp.take", indices)),)]


@api
def take_along_axis(x: object, indices: object, axis: object = -1) -> Any:
    """The elements of x at positions along an axis, other positions being the same.

    Shapes: those of x and `indices` are broadcast, but for the axis, which has the extent of `indices`.

    Raises:
        ProgramTypeError: `indices` are no integers.
        ProgramIndexError: There is no such axis.
        ProgramValueError: The numbers of dimensions differ.
    """
    what = "tnp.take_along_axis"
    array, positions = as_array(as_operand(x, what)), as_array(_integers(what, indices))
    if array.ndim != positions.ndim:
        raise ProgramValueError(
            f"{what}: x has {array.ndim} dimensions, and indices have {positions.ndim}",
            hint="add dimensions to indices, as i[:, None]; or write tnp.take(x, i, axis)",
        )
    place = axis_of(what, axis, array)
    others = [extents_of(each)[:place] + extents_of(each)[place + 1 :] for each in (array, positions)]
    shape = list(broadcast_shapes(what, *others))
    shape.insert(place, positions.node.shape[place])
    axes = axes_for(shape)
    own = position(positions, array.node.shape[place], axes)
    zero = as_expr(0)
    rest = [zero if int_const(extent) == 1 else axis for extent, axis in zip(array.node.shape, axes, strict=True)]
    body = element(array.node, [own if n == place else rest[n] for n in range(array.ndim)])
    return new_array("taken", shape, Map(axes, body), body.dtype, array.operand_dtype)


def _integers(what: str, indices: object) -> Operand:
    operand = as_operand(indices, what)
    if not operand.dtype.is_int:
        raise ProgramTypeError(
            f"{what}: indices are {operand.dtype!s}, not integers", hint='convert them first: i.astype("int32")'
        )
    return operand


# -- updates -------------------------------------------------------------------------------------------------
class IndexedUpdates:
    """`x.at`: indexed by what `x[...]` takes, it gives an `IndexedUpdate`."""

    def __init__(self, array: TracedArray) -> None:
        self._array = array

    def __getitem__(self, key: object) -> IndexedUpdate:
        return IndexedUpdate(self._array, key)


@api
class IndexedUpdate:
    """`x.at[key]`: each method gives an array that is x but for the elements `x[key]`.

    Positions may repeat. Those of integer arrays that point outside of x are ignored.
    """

    def __init__(self, array: TracedArray, key: object) -> None:
        self._array = array
        self._selected = select_elements(array.node.shape, key)

    def __repr__(self) -> str:
        return "x.at[...]"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # protocol probes
        raise UnknownAttribute(
            f"array.at[...] has no attribute '{name}'",
            hint="it has add, max, min, multiply and set; x.at[i].add(-y) subtracts",
        )

    def set(self, values: object) -> Any:
        """The elements become `values`, broadcast to them; where positions repeat, one of the values."""
        return self._updated("set", None, values)

    def add(self, values: object) -> Any:
        """`values` are added; where positions repeat, all of them."""
        return self._updated("add", Combiner.SUM, values)

    def multiply(self, values: object) -> Any:
        """The elements are multiplied by `values`; where positions repeat, by all of them."""
        return self._updated("multiply", Combiner.PROD, values)

    def min(self, values: object) -> Any:
        """The smallest of the elements and `values`."""
        return self._updated("min", Combiner.MIN, values)

    def max(self, values: object) -> Any:
        """The greatest of the elements and `values`."""
        return self._updated("max", Combiner.MAX, values)

    def _updated(self, name: str, combiner: Combiner | None, values: object) -> TracedArray:
        """The array with updates.

        Raises:
            ProgramTypeError: Its dtype does not have all of the values.
            ProgramValueError: The values do not broadcast to the elements.
        """
        what, array, selected = f"array.at[...].{name}", self._array, self._selected
        updates = as_operand(values, what)
        if promote(what, (array.operand_dtype, updates.operand_dtype)).dtype != array.dtype:
            raise ProgramTypeError(
                f"{what}: the values are {updates.dtype!s}, and {array.dtype!s}, the dtype of the array, lacks some",
                hint=f'convert the values: y.astype("{array.dtype!s}")',
            )
        shape = broadcast_shapes(what, extents_of(updates), selected.shape)
        same = [difference(*pair) == 0 for pair in zip(shape, selected.shape, strict=False)]
        if len(shape) != len(selected.shape) or not all(same):
            raise ProgramValueError(
                f"{what}: values of shape {shape_text(extents_of(updates))} do not broadcast to the elements, of shape "
                f"{shape_text(selected.shape)}"
            )
        dtype = compute_dtype(array.dtype)
        body = cast(read(updates, selected.axes), dtype)
        definition = Scatter(array.node, selected.axes, selected.shape, selected.indices, body, combiner)
        return new_array(name, array.node.shape, definition, dtype, array.operand_dtype)
