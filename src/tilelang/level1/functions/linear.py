"""Products of `tilelang.numpy`: each is a sum of products over axes that two arrays share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import DType, as_dtype
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.expr import Expr, Var, as_expr, cast, int_const
from tilelang.language.extents import difference, shape_text, text
from tilelang.level1.api import api
from tilelang.level1.axes import axis_of
from tilelang.level1.elements import as_array, as_operand, broadcast_shapes, new_array
from tilelang.level1.graph import Combiner, Map, Reduction, axes_for, element
from tilelang.level1.promotion import OperandDType, SumDTypes, compute_dtype, promote, sum_dtypes
from tilelang.level1.values import TracedArray

__all__ = ["einsum", "matmul", "outer", "tensordot", "vecdot"]

Labels = tuple[str, ...]


def contract(
    what: str,
    arrays: Sequence[TracedArray],
    labels: Sequence[Labels],
    output: Labels,
    dtype: object = None,
    accumulate: object = None,
    *,
    part: bool = False,
) -> TracedArray:
    """The sum of products of arrays over all labels that the output does not have.

    Args:
        what: The function of `tilelang.numpy`.
        arrays: The factors.
        labels: A label for each dimension of each array; equal labels are the same axis, of equal extents or 1.
        output: The labels of the result.
        dtype: Of the result; by promotion if None.
        accumulate: The dtype of the sums; see `sum_dtypes`.
        part: Whether this is a step of a product of more arrays.

    Raises:
        ProgramValueError: Extents differ.
        ProgramTypeError: The dtypes do not fit each other.
    """
    extents = _extents(what, arrays, labels)
    common = promote(what, [array.operand_dtype for array in arrays]).dtype
    summed = tuple(label for label in extents if label not in output)
    dtypes = sum_dtypes(what, common, dtype, accumulate) if summed else _product_dtypes(common, dtype)
    used = (*output, *summed)
    names = [label if label.isalpha() else f"i{n}" for n, label in enumerate(used)]
    axes = dict(zip(used, axes_for(used, names), strict=True))
    body: Expr | None = None
    for array, own in zip(arrays, labels, strict=True):
        value = _read(array, own, axes)
        if summed or len(arrays) > 1 or dtype is not None:  # else it is a view
            value = cast(value, dtypes.combined)
        body = value if body is None else body * value
    assert body is not None
    kept, over = tuple(axes[label] for label in output), tuple(axes[label] for label in summed)
    sizes = tuple(extents[label] for label in summed)
    definition = Reduction(kept, over, sizes, Combiner.SUM, body) if over else Map(kept, body)
    shape = [extents[label] for label in output]
    return new_array("product", shape, definition, body.dtype, OperandDType(dtypes.result), part=part)


def _read(array: TracedArray, labels: Labels, axes: dict[str, Var]) -> Expr:
    zero, node = as_expr(0), array.node
    return element(node, [zero if int_const(n) == 1 else axes[x] for n, x in zip(node.shape, labels, strict=True)])


def _product_dtypes(common: DType, dtype: object) -> SumDTypes:
    """The dtypes of a product without a sum."""
    result = common if dtype is None else as_dtype(dtype)
    return SumDTypes(compute_dtype(result), result)


def _extents(what: str, arrays: Sequence[TracedArray], labels: Sequence[Labels]) -> dict[str, Expr]:
    """The extent of each label."""
    extents: dict[str, Expr] = {}
    for array, own in zip(arrays, labels, strict=True):
        for label, extent in zip(own, array.node.shape, strict=True):
            known = extents.setdefault(label, extent)
            if int_const(known) == 1:
                extents[label] = extent
            elif int_const(extent) != 1 and difference(known, extent) != 0:
                shapes = " and ".join(shape_text(each.node.shape) for each in arrays)
                raise ProgramValueError(
                    f"{what}: shapes {shapes} do not fit: an axis has the extents {text(known)} and {text(extent)}"
                    + (f" ('{label}')" if what == "tnp.einsum" else ""),
                    hint="axes that are multiplied with each other have equal extents",
                )
    return extents


@api
def matmul(x1: object, x2: object, *, dtype: object = None, accumulate: object = None) -> Any:
    """The matrix product, `x1 @ x2`; vectors and stacks of matrices as in NumPy.

    Args:
        x1: An array of one dimension or more.
        x2: An array of one dimension or more.
        dtype: Of the result: by promotion, int32 for integers below 32 bits.
        accumulate: The dtype of the sums; float32 for narrower floats.

    Shapes: (..., M, K) and (..., K, N) give (..., M, N); stacks are broadcast.

    Raises:
        ProgramValueError: The extents of K differ, stacks do not broadcast, or an operand has no dimensions.
    """
    what = "tnp.matmul"
    a, b = (as_array(as_operand(x, what)) for x in (x1, x2))
    if not a.ndim or not b.ndim:
        raise ProgramValueError(f"{what}: an operand has no dimensions", hint="write x * y for numbers")
    stack = tuple(f"s{n}" for n in range(-max(a.ndim, b.ndim), -2))
    broadcast_shapes(what, a.node.shape[:-2], b.node.shape[:-2])
    left: Labels = (*stack[len(stack) - max(0, a.ndim - 2) :], "m", "k") if a.ndim > 1 else ("k",)
    right: Labels = (*stack[len(stack) - max(0, b.ndim - 2) :], "k", "n") if b.ndim > 1 else ("k",)
    _check_inner(what, a, b, -1, -2 if b.ndim > 1 else -1)
    output = (*stack, *(label for label in ("m", "n") if label in left + right))
    return contract(what, (a, b), (left, right), output, dtype, accumulate)


def _check_inner(what: str, a: TracedArray, b: TracedArray, i: int, j: int) -> None:
    """Raises unless two axes have the same extent; extents of 1 are not broadcast there."""
    first, second = a.node.shape[i], b.node.shape[j]
    if difference(first, second) != 0:
        raise ProgramValueError(
            f"{what}: shapes {shape_text(a.node.shape)} and {shape_text(b.node.shape)} do not fit: the axes that are "
            f"summed have the extents {text(first)} and {text(second)}",
            hint="they are equal; write x.mT for the transposes of matrices",
        )


@api
def vecdot(x1: object, x2: object, *, axis: object = -1, dtype: object = None, accumulate: object = None) -> Any:
    """The sum of x1 * x2 over an axis.

    Shapes: the other dimensions are broadcast.

    Raises:
        ProgramValueError: The extents of the axis differ.
        ProgramIndexError: There is no such axis.
    """
    what = "tnp.vecdot"
    a, b = (as_array(as_operand(x, what)) for x in (x1, x2))
    rank = max(a.ndim, b.ndim)
    place = axis_of(what, axis, a if a.ndim < b.ndim else b) - min(a.ndim, b.ndim)
    _check_inner(what, a, b, place, place)
    names = tuple(f"s{n}" for n in range(-rank, 0))
    output = tuple(name for n, name in enumerate(names, -rank) if n != place)
    return contract(what, (a, b), (names[rank - a.ndim :], names[rank - b.ndim :]), output, dtype, accumulate)


@api
def tensordot(x1: object, x2: object, *, axes: Any = 2, dtype: object = None, accumulate: object = None) -> Any:
    """The sum of products over axes of both arrays.

    Args:
        x1: The first array.
        x2: The second array.
        axes: How many, of the last ones of x1 and the first ones of x2; or a pair of tuples of axes.
        dtype: As for `tnp.matmul`.
        accumulate: As for `tnp.matmul`.

    Shapes: the other axes of x1, then those of x2.

    Raises:
        ProgramValueError: The extents differ, or the numbers of axes do.
        ProgramIndexError: There is no such axis.
    """
    what = "tnp.tensordot"
    a, b = (as_array(as_operand(x, what)) for x in (x1, x2))
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ProgramValueError(f"{what}: axes is {axes}, but the arrays have {a.ndim} and {b.ndim} dimensions")
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        first, second = (
            [axis_of(what, axis, array) for axis in (given if isinstance(given, tuple | list) else [given])]
            for given, array in zip(axes, (a, b), strict=True)
        )
    if len(first) != len(second):
        raise ProgramValueError(f"{what}: axes names {len(first)} of x1 and {len(second)} of x2")
    left, right = [f"a{n}" for n in range(a.ndim)], [f"b{n}" for n in range(b.ndim)]
    for i, j in zip(first, second, strict=True):
        _check_inner(what, a, b, i, j)
        right[j] = left[i]
    rows = [label for n, label in enumerate(left) if n not in first]
    columns = [label for n, label in enumerate(right) if n not in second]
    return contract(what, (a, b), (tuple(left), tuple(right)), (*rows, *columns), dtype, accumulate)


@api
def outer(x1: object, x2: object) -> Any:
    """All products of an element of a vector and one of another.

    Raises:
        ProgramValueError: One of them is no vector.
    """
    a, b = (as_array(as_operand(x, "tnp.outer")) for x in (x1, x2))
    for array in (a, b):
        if array.ndim != 1:
            raise ProgramValueError(
                f"tnp.outer: takes vectors, got shape {shape_text(array.node.shape)}",
                hint="write tnp.reshape(x, -1), or tnp.einsum",
            )
    return a[:, None] * b


# -- einsum --------------------------------------------------------------------------------------------------
@api
def einsum(subscripts: str, *operands: object, dtype: object = None, accumulate: object = None) -> Any:
    """The sum of products of arrays by Einstein's convention, as in NumPy: `tnp.einsum("mk,kn->mn", a, b)`.

    Args:
        subscripts: A letter for each dimension of each array, `...` for those that are broadcast, and those of the
            result after `->`; without it, those that stand once, in alphabetical order. More than two arrays are
            multiplied in an order that makes few operations.
        operands: The arrays.
        dtype: As for `tnp.matmul`.
        accumulate: As for `tnp.matmul`.

    Raises:
        ProgramValueError: The subscripts do not fit the arrays.
        ProgramTypeError: The dtypes do not fit each other.
    """
    what = "tnp.einsum"
    if not isinstance(subscripts, str):
        raise ProgramTypeError(f"{what}: subscripts are {type(subscripts).__name__}, not a string")
    arrays = [as_array(as_operand(x, what)) for x in operands]
    labels, output = _parsed(subscripts, arrays)
    while len(arrays) > 2:
        chosen = _next_pair(arrays, labels, output)
        pair, own = [arrays[n] for n in chosen], [labels[n] for n in chosen]
        arrays = [array for n, array in enumerate(arrays) if n not in chosen]
        labels = [each for n, each in enumerate(labels) if n not in chosen]
        needed = {label for each in (*labels, output) for label in each}
        kept = tuple(label for label in dict.fromkeys((*own[0], *own[1])) if label in needed)
        arrays.append(contract(what, pair, own, kept, accumulate=accumulate, part=True))
        labels.append(kept)
    return contract(what, arrays, labels, output, dtype, accumulate)


def _parsed(subscripts: str, arrays: Sequence[TracedArray]) -> tuple[list[Labels], Labels]:
    """The labels of each array, and those of the result."""
    inputs, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(arrays):
        raise _subscript_error(subscripts, f"there are {len(terms)} terms for {len(arrays)} arrays")
    for term in (*terms, result):
        wrong = next((letter for letter in term.replace("...", "", 1) if not letter.isalpha()), "")
        if wrong:
            raise _subscript_error(subscripts, f"{wrong!r} is neither a letter nor '...'")
    labels: list[Labels] = []
    widest = 0  # dimensions for which ... stands
    for term, array in zip(terms, arrays, strict=True):
        given = len(term.replace("...", ""))
        rest = array.ndim - given
        if rest < 0 or rest and "..." not in term:
            raise _subscript_error(subscripts, f"'{term}' names {given} dimensions of an array of {array.ndim}")
        labels.append(_expand_ellipsis(term, rest))
        widest = max(widest, rest)
    if not arrow:
        count = Counter("".join(terms).replace("...", ""))
        result = ("..." if widest else "") + "".join(sorted(letter for letter, times in count.items() if times == 1))
    output = _expand_ellipsis(result, widest)
    known = {label for own in labels for label in own}
    if len(set(output)) < len(output):
        raise _subscript_error(subscripts, f"the result names '{next(x for x in output if output.count(x) > 1)}' twice")
    unknown = next((label for label in output if label not in known), None)
    if unknown is not None:
        raise _subscript_error(subscripts, f"the result has '{unknown}', and no array has")
    if widest and "..." not in result:
        raise _subscript_error(subscripts, "the result lacks '...', which arrays have")
    return labels, output


def _expand_ellipsis(term: str, rank: int) -> Labels:
    """The labels of a term, in which `...` stands for `rank` dimensions."""
    before, dots, after = term.partition("...")
    return (*before, *(f".{n}" for n in range(-rank, 0)), *after) if dots else tuple(before)


def _subscript_error(subscripts: str, found: str) -> ProgramValueError:
    return ProgramValueError(
        f"tnp.einsum: in {subscripts!r}, {found}",
        hint='write a letter for each dimension of each array, as in "bhqd,bhkd->bhqk"',
    )


def _next_pair(arrays: Sequence[TracedArray], labels: Sequence[Labels], output: Labels) -> tuple[int, int]:
    """The two arrays to multiply first: by NumPy's search if all extents are known, else the first two."""
    shapes = [array.node.static_shape for array in arrays]
    if None in shapes:
        return 0, 1
    letters = {label: chr(97 + n) for n, label in enumerate(dict.fromkeys(x for own in labels for x in own))}
    spelled = ",".join("".join(letters[x] for x in own) for own in labels)
    dummies = [np.broadcast_to(np.zeros((), np.int8), shape) for shape in shapes if shape is not None]
    path, _ = np.einsum_path(f"{spelled}->{''.join(letters[x] for x in output)}", *dummies, optimize="optimal")
    first = sorted(path[1])
    return (first[0], first[1]) if len(first) == 2 else (0, 1)
