"""Functions of `tilelang.numpy` that change shape and order: each maps indices to indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from tilelang.arith.simplify import simplify
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, Var, as_expr, binary, cast, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.language.extents import difference, folded, product, shape_text, text
from tilelang.level1.api import api
from tilelang.level1.axes import axes_of, axis_of
from tilelang.level1.elements import as_array, as_operand, broadcast_shapes, extents_of, new_array, read
from tilelang.level1.graph import Map, axes_for, element
from tilelang.level1.indexing import domain_of
from tilelang.level1.promotion import compute_dtype, promote
from tilelang.level1.values import Operand, Scalar, TracedArray

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "diff",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def as_extents(what: str, shape: object, *, least: int = 0) -> tuple[Expr, ...]:
    """A shape as a user gives it: an int, a symbolic size, or a sequence of them.

    Args:
        what: The function of `tilelang.numpy`.
        shape: The shape.
        least: The least extent that there may be; -1 where that stands for what is left.

    Raises:
        ProgramTypeError: An extent is no integer.
        ProgramValueError: An extent is negative.
    """
    given = list(shape) if _is_sequence(shape) else [shape]
    extents = []
    for extent in given:
        operand = as_operand(extent, what)
        if not isinstance(operand, Scalar) or operand.axes or not operand.expr.is_index or operand.dtype.is_bool:
            raise ProgramTypeError(
                f"{what}: an extent is {extent!r:.40}, not an int",
                hint="extents are ints and symbolic sizes, x.shape[0]",
            )
        extents.append(folded(operand.expr))
        size = int_const(extents[-1])
        if size is not None and size < least:
            raise ProgramValueError(f"{what}: the extent {size} is negative")
    return tuple(extents)


def _is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value is several sizes, not one that is symbolic."""
    return isinstance(value, Iterable) and not isinstance(value, Operand | Expr)


def as_shift(what: str, value: object) -> Expr:
    """A number of positions of either sign as a user gives it: an int or a symbolic size."""
    return as_extents(what, value, least=-(1 << 31))[0]


def static_int(what: str, name: str, value: object) -> int:
    """An int that a function needs while it is traced.

    Raises:
        ProgramTypeError: It is a symbolic size, or no integer.
    """
    operand = as_operand(value, what)
    size = int_const(operand.expr) if isinstance(operand, Scalar) and operand.dtype.is_int else None
    if size is None:
        raise ProgramTypeError(
            f"{what}: {name} is {value!r:.40}, but must be known when the function is traced",
            hint="make the size static: leave it out of the annotation, or give the annotation a number",
        )
    return size


def _view(array: TracedArray, name: str, shape: Sequence[Expr], axes: Sequence[Var], indices: Sequence[Expr]) -> Any:
    """An array whose elements are those of another one at other indices."""
    body = element(array.node, indices)
    return new_array(name, shape, Map(tuple(axes), body), body.dtype, array.operand_dtype)


# -- dimensions ----------------------------------------------------------------------------------------------
@api
def reshape(x: object, shape: Any) -> Any:
    """The elements of x in row-major order in another shape, of which one extent may be -1.

    Raises:
        ProgramValueError: The shape has another number of elements.
    """
    what = "tnp.reshape"
    array, extents = as_array(as_operand(x, what)), list(as_extents(what, shape, least=-1))
    size = folded(product(array.node.shape))
    unknown = [n for n, extent in enumerate(extents) if int_const(extent) == -1]
    if len(unknown) == 1:
        rest = folded(product([extent for extent in extents if int_const(extent) != -1]))
        extents[unknown[0]] = _quotient(array.node.shape, size, rest)
    if len(unknown) > 1 or difference(product(extents), size) != 0:
        raise ProgramValueError(
            f"{what}: an array of shape {shape_text(array.node.shape)} has {text(size)} elements, which do not fill "
            f"{shape_text(as_extents(what, shape, least=-1))}",
            hint="one extent may be -1, which stands for what is left",
        )
    axes = axes_for(extents)
    return _view(array, "reshaped", extents, axes, _regrouped(array.node.shape, extents, axes))


def _quotient(shape: Sequence[Expr], size: Expr, rest: Expr) -> Expr:
    """`size // rest`, the extent that -1 stands for."""
    total, divisor = int_const(size), int_const(rest)
    if total is not None and divisor is not None:
        return as_expr(total // divisor if divisor else 0)
    for n in range(len(shape)):  # symbolic: where the rest is a product of some of the extents
        for stop in range(n + 1, len(shape) + 1):
            if difference(product([*shape[:n], *shape[stop:]]), rest) == 0:
                return folded(product(shape[n:stop]))
    return simplify(binary(BinaryOp.FLOORDIV, size, rest), domain_of(size, rest))


def _regrouped(shape: Sequence[Expr], extents: Sequence[Expr], axes: Sequence[Var]) -> list[Expr]:
    """The indices in one shape of the element at `axes` in another one of as many elements.

    Dimensions are regrouped in the smallest runs of equal products, so that those that stay are left alone.
    """
    indices: list[Expr] = []
    old = new = 0
    while old < len(shape):
        stop_old, stop_new = _equal_run(shape, extents, old, new)
        position: Expr = as_expr(0)
        for axis, extent in zip(axes[new:stop_new], extents[new:stop_new], strict=True):
            known_zero = int_const(position) == 0
            position = axis if known_zero else position * extent + axis
        run: list[Expr] = []
        for n, extent in reversed(list(enumerate(shape[old:stop_old]))):
            run.append(position if n == 0 else binary(BinaryOp.FLOORMOD, position, extent))
            position = binary(BinaryOp.FLOORDIV, position, extent) if n else position
        indices += reversed(run)
        old, new = stop_old, stop_new
    return indices


def _equal_run(shape: Sequence[Expr], extents: Sequence[Expr], old: int, new: int) -> tuple[int, int]:
    """The ends of the shortest runs of dimensions with equal products that start at `old` and `new`."""
    for stop_old in range(old + 1, len(shape) + 1):
        for stop_new in range(new, len(extents) + 1):
            rest_fits = difference(product(shape[stop_old:]), product(extents[stop_new:])) == 0
            if rest_fits and difference(product(shape[old:stop_old]), product(extents[new:stop_new])) == 0:
                return (len(shape), len(extents)) if stop_old == len(shape) else (stop_old, stop_new)
    return len(shape), len(extents)


@api
def permute_dims(x: object, axes: Any) -> Any:
    """The dimensions of x in the order of `axes`.

    Raises:
        ProgramValueError: `axes` does not name every axis once.
        ProgramIndexError: There is no such axis.
    """
    what = "tnp.permute_dims"
    array = as_array(as_operand(x, what))
    order = [axis_of(what, axis, array) for axis in axes]
    if sorted(order) != list(range(array.ndim)):
        raise ProgramValueError(
            f"{what}: axes {tuple(axes)} do not name each of the {array.ndim} axes once",
            hint="write tnp.matrix_transpose(x) to exchange the last two",
        )
    new = axes_for(order)
    shape, indices = [array.node.shape[n] for n in order], [new[order.index(n)] for n in range(array.ndim)]
    return _view(array, "permuted", shape, new, indices)


@api
def matrix_transpose(x: object) -> Any:
    """The last two dimensions exchanged.

    Raises:
        ProgramValueError: There are fewer than two.
    """
    array = as_array(as_operand(x, "tnp.matrix_transpose"))
    if array.ndim < 2:
        raise ProgramValueError(
            f"tnp.matrix_transpose: an array of {array.ndim} dimensions has no transpose", hint="write x[:, None]"
        )
    return permute_dims(array, (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2))


@api
def moveaxis(x: object, source: object, destination: object) -> Any:
    """Axes of x moved to other places; the others keep their order.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramValueError: The numbers of axes differ.
    """
    what = "tnp.moveaxis"
    array = as_array(as_operand(x, what))
    moved, places = (
        [axis_of(what, axis, array) for axis in (given if isinstance(given, Iterable) else [given])]
        for given in (source, destination)
    )
    if len(moved) != len(places):
        raise ProgramValueError(f"{what}: {len(moved)} axes are moved to {len(places)} places")
    order = [n for n in range(array.ndim) if n not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return permute_dims(array, order)


@api
def expand_dims(x: object, axis: object = 0) -> Any:
    """The array with new dimensions of extent 1, at these axes of the result.

    Raises:
        ProgramIndexError: The result has no such axis.
    """
    array = as_array(as_operand(x, "tnp.expand_dims"))
    new = len(list(axis)) if isinstance(axis, Iterable) else 1
    places = axes_of("tnp.expand_dims", axis, array, new=new)
    return array[tuple(None if n in places else slice(None) for n in range(array.ndim + new))]


@api
def squeeze(x: object, axis: object) -> Any:
    """The array without axes of extent 1.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramValueError: One has another extent.
    """
    array = as_array(as_operand(x, "tnp.squeeze"))
    places = axes_of("tnp.squeeze", axis, array)
    wrong = next((n for n in places if int_const(array.node.shape[n]) != 1), None)
    if wrong is not None:
        raise ProgramValueError(f"tnp.squeeze: axis {wrong} has extent {text(array.node.shape[wrong])}, not 1")
    return array[tuple(0 if n in places else slice(None) for n in range(array.ndim))]


@api
def broadcast_to(x: object, shape: Any) -> Any:
    """The array repeated along dimensions of extent 1, and along new ones before the first.

    Raises:
        ProgramValueError: The shape of x does not broadcast to it.
    """
    what = "tnp.broadcast_to"
    array, extents = as_array(as_operand(x, what)), as_extents(what, shape)
    if len(extents) < array.ndim or any(
        int_const(own) != 1 and difference(own, extent) != 0
        for own, extent in zip(reversed(array.node.shape), reversed(extents), strict=False)
    ):
        raise ProgramValueError(
            f"{what}: shape {shape_text(array.node.shape)} does not broadcast to {shape_text(extents)}",
            hint="counted from the last, extents are equal, or that of x is 1",
        )
    axes = axes_for(extents)
    body = read(array, axes)
    return new_array("broadcast", extents, Map(axes, body), body.dtype, array.operand_dtype)


@api
def broadcast_arrays(*arrays: object) -> list[Any]:
    """All arrays broadcast to one shape.

    Raises:
        ProgramValueError: They do not broadcast.
    """
    operands = [as_array(as_operand(x, "tnp.broadcast_arrays")) for x in arrays]
    shape = broadcast_shapes("tnp.broadcast_arrays", *map(extents_of, operands))
    return [broadcast_to(operand, [Scalar(n, n.dtype, weak=True) for n in shape]) for operand in operands]


# -- several arrays ------------------------------------------------------------------------------------------
@api
def concat(arrays: Any, axis: object = 0) -> Any:
    """Arrays one after the other along an axis; flattened ones if that is None.

    Raises:
        ProgramValueError: There are none, or other extents differ.
        ProgramIndexError: There is no such axis.
    """
    return _concatenated("tnp.concat", [as_array(as_operand(x, "tnp.concat")) for x in arrays], axis)


def _concatenated(what: str, parts: list[TracedArray], axis: object) -> Any:
    if not parts:
        raise ProgramValueError(f"{what}: there are no arrays")
    if axis is None:
        parts, axis = [reshape(part, -1) for part in parts], 0
    place = axis_of(what, axis, parts[0])
    shapes = [part.node.shape for part in parts]
    for shape in shapes[1:]:
        others = zip(shapes[0], shape, strict=False)
        if len(shape) != len(shapes[0]) or any(n != place and difference(a, b) != 0 for n, (a, b) in enumerate(others)):
            raise ProgramValueError(
                f"{what}: shapes {shape_text(shapes[0])} and {shape_text(shape)} differ beyond axis {place}",
                hint="all other extents are equal",
            )
    common = promote(what, [part.operand_dtype for part in parts])
    one = all(part.node.dtype == parts[0].node.dtype for part in parts)
    dtype = parts[0].node.dtype if one else compute_dtype(common.dtype)
    total = folded(_sum_of([shape[place] for shape in shapes]))
    extents = [total if n == place else extent for n, extent in enumerate(shapes[0])]
    axes = axes_for(extents)
    body: Expr | None = None
    for n in reversed(range(len(parts))):
        before = folded(_sum_of([shape[place] for shape in shapes[:n]]))
        own = axes[place] if int_const(before) == 0 else axes[place] - before
        value = cast(element(parts[n].node, [own if k == place else a for k, a in enumerate(axes)]), dtype)
        end = folded(_sum_of([shape[place] for shape in shapes[: n + 1]]))
        body = value if body is None else select(axes[place] < end, value, body)
    assert body is not None
    return new_array("joined", extents, Map(axes, body), dtype, common)


def _sum_of(extents: Sequence[Expr]) -> Expr:
    result = as_expr(0)
    for extent in extents:
        result = extent if int_const(result) == 0 else result + extent
    return result


@api
def stack(arrays: Any, axis: object = 0) -> Any:
    """Arrays of one shape along a new axis.

    Raises:
        ProgramValueError: There are none, or shapes differ.
        ProgramIndexError: The result has no such axis.
    """
    what = "tnp.stack"
    parts = [as_array(as_operand(x, what)) for x in arrays]
    if not parts:
        raise ProgramValueError(f"{what}: there are no arrays")
    place = axis_of(what, axis, parts[0], new=1)
    return _concatenated(what, [expand_dims(part, place if part.ndim >= place else 0) for part in parts], place)


@api
def unstack(x: object, axis: object = 0) -> tuple[Any, ...]:
    """The arrays along an axis, whose extent is static.

    Raises:
        ProgramIndexError: There is no such axis.
        StagingError: Its extent is symbolic.
    """
    array = as_array(as_operand(x, "tnp.unstack"))
    place = axis_of("tnp.unstack", axis, array)
    return tuple(array[(slice(None),) * place + (n,)] for n in range(array.shape[place]))


@api
def split(x: object, indices_or_sections: Any, axis: object = 0) -> list[Any]:
    """Parts of x along an axis: a number of equal ones, or those between positions.

    Raises:
        ProgramIndexError: There is no such axis.
        ProgramValueError: The axis cannot be split into that number of equal parts.
    """
    what = "tnp.split"
    array = as_array(as_operand(x, what))
    place = axis_of(what, axis, array)
    extent = array.shape[place]
    if not _is_sequence(indices_or_sections):
        count = static_int(what, "the number of parts", indices_or_sections)
        size = int_const(array.node.shape[place])
        if count < 1 or size is None or size % count:
            raise ProgramValueError(
                f"{what}: axis {place} of extent {text(array.node.shape[place])} has no {count} equal parts",
                hint="write a list of positions: tnp.split(x, [a, b], axis)",
            )
        bounds: list[Any] = [n * (size // count) for n in range(1, count)]
    else:
        bounds = list(indices_or_sections)
    ends = zip([0, *bounds], [*bounds, extent], strict=True)
    return [array[(slice(None),) * place + (slice(start, stop),)] for start, stop in ends]


# -- order ---------------------------------------------------------------------------------------------------
@api
def flip(x: object, axis: object = None) -> Any:
    """The array in reverse order along axes; None means all.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    array = as_array(as_operand(x, "tnp.flip"))
    places = axes_of("tnp.flip", axis, array)
    shape, axes = array.node.shape, axes_for(array.node.shape)
    indices = [folded(shape[n] - 1) - axis if n in places else axis for n, axis in enumerate(axes)]
    return _view(array, "flipped", shape, axes, indices)


@api
def roll(x: object, shift: int, axis: object = None) -> Any:
    """The array rotated along an axis by `shift` positions; flattened if the axis is None.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    array = as_array(as_operand(x, "tnp.roll"))
    if axis is None:
        return reshape(roll(reshape(array, -1), shift, 0), array.shape)
    place = axis_of("tnp.roll", axis, array)
    shape, axes = array.node.shape, axes_for(array.node.shape)
    moved = binary(BinaryOp.FLOORMOD, axes[place] - as_shift("tnp.roll", shift), shape[place])
    return _view(array, "rolled", shape, axes, [moved if n == place else a for n, a in enumerate(axes)])


@api
def diff(x: object, *, axis: int = -1, n: int = 1, prepend: object = None, append: object = None) -> Any:
    """The n-th differences of neighbors along an axis, of x with `prepend` before and `append` after it.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    parts = [as_array(as_operand(each, "tnp.diff")) for each in (prepend, x, append) if each is not None]
    array = parts[0] if len(parts) == 1 else concat(parts, axis=axis)
    before = (slice(None),) * axis_of("tnp.diff", axis, array)
    later, earlier = (*before, slice(1, None)), (*before, slice(None, -1))
    for _ in range(static_int("tnp.diff", "n", n)):
        array = array[later] - array[earlier]
    return array


@api
def repeat(x: object, repeats: int, *, axis: object = None) -> Any:
    """Each element along an axis `repeats` times in succession; flattened if the axis is None.

    Raises:
        ProgramIndexError: There is no such axis.
    """
    array, times = as_array(as_operand(x, "tnp.repeat")), as_extents("tnp.repeat", repeats)[0]
    if axis is None:
        array, axis = reshape(array, -1), 0
    place = axis_of("tnp.repeat", axis, array)
    shape = [folded(extent * times) if n == place else extent for n, extent in enumerate(array.node.shape)]
    axes = axes_for(shape)
    return _view(array, "repeated", shape, axes, [a // times if n == place else a for n, a in enumerate(axes)])


@api
def tile(x: object, repetitions: Any) -> Any:
    """The array repeated `repetitions` times along each of the last axes, new ones included."""
    array = as_array(as_operand(x, "tnp.tile"))
    times = list(as_extents("tnp.tile", repetitions))
    rank = max(array.ndim, len(times))
    own = [as_expr(1)] * (rank - array.ndim) + list(array.node.shape)
    times = [as_expr(1)] * (rank - len(times)) + times
    shape = [folded(extent * count) for extent, count in zip(own, times, strict=True)]
    axes = axes_for(shape)
    indices = [binary(BinaryOp.FLOORMOD, axis, extent) for axis, extent in zip(axes, own, strict=True)]
    return _view(array, "tiled", shape, axes, indices[rank - array.ndim :])
