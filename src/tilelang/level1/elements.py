"""Broadcasting, and elementwise functions of operands of any kind."""

from __future__ import annotations

import keyword
import linecache
import re
from collections.abc import Callable, Sequence

import numpy as np

from tilelang.dtypes import BOOL, FLOAT32, INT32, DType
from tilelang.errors import NOWHERE, Loc, ProgramValueError, StagingTypeError, calling_line
from tilelang.ir.expr import Const, Expr, as_expr, cast, int_const
from tilelang.jit.signature import is_array
from tilelang.language.extents import difference, shape_text
from tilelang.level1.graph import Definition, Map, axes_for, define, element
from tilelang.level1.promotion import OperandDType
from tilelang.level1.values import Operand, Scalar, TracedArray


def as_operand(value: object, what: str) -> Operand:
    """A value as an operand of a function.

    Raises:
        StagingTypeError: It is neither an array of the computation nor a number.
    """
    if isinstance(value, Operand):
        return value
    if isinstance(value, bool | np.bool_):
        return Scalar(Const(bool(value), BOOL), BOOL, weak=True)
    if isinstance(value, int | float | np.integer | np.floating):
        number = int(value) if isinstance(value, int | np.integer) else float(value)
        literal = as_expr(number)
        return Scalar(literal, literal.dtype if isinstance(number, int) else FLOAT32, weak=True)
    if isinstance(value, Expr) and value.is_index:
        return Scalar(value, INT32, weak=True)
    hint = ""
    if is_array(value):
        hint = "make it an argument of the function marked @tilelang.compute"
    elif isinstance(value, list | tuple):
        hint = "write tnp.stack([...]) to make one array of several"
    raise StagingTypeError(
        f"{what}: {type(value).__name__} {value!r:.40} is neither an array of the computation nor a number", hint=hint
    )


def extents_of(operand: Operand) -> tuple[Expr, ...]:
    """The extents of an operand as expressions."""
    return operand.node.shape if isinstance(operand, TracedArray) else ()


def read(operand: Operand, indices: Sequence[Expr] = ()) -> Expr:
    """One element, at the indices of an array that it is broadcast to; in the dtype in which it is kept."""
    if isinstance(operand, Scalar):
        return operand.expr
    assert isinstance(operand, TracedArray)
    node = operand.node
    own = indices[len(indices) - node.rank :]
    zero = as_expr(0)
    return element(node, [zero if int_const(n) == 1 else i for n, i in zip(node.shape, own, strict=True)])


def broadcast_shapes(what: str, *shapes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The shape to which all of the shapes are broadcast.

    Raises:
        ProgramValueError: Two extents differ, and none of them is 1.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Expr] = []
    for axis in range(-rank, 0):
        extents = [shape[axis] for shape in shapes if len(shape) >= -axis]
        others = [extent for extent in extents if int_const(extent) != 1]
        result.append(others[0] if others else extents[0])
        if any(difference(extent, others[0]) != 0 for extent in others[1:]):
            shown = " and ".join(shape_text(shape) for shape in shapes)
            raise ProgramValueError(
                f"{what}: shapes {shown} do not broadcast: axis {axis} has the extents "
                f"{' and '.join(shape_text(extents)[1:-1].rstrip(',').split(', '))}",
                hint="counted from the last, extents are equal or 1; x[:, None] adds one of 1",
            )
    return tuple(result)


def map_elements(
    name: str, function: Callable[..., Expr], operands: Sequence[Operand], result: OperandDType, what: str = ""
) -> Operand:
    """`function` of the elements of operands that are broadcast: a scalar if all of them are, else a new array.

    Args:
        name: What the new array is called.
        function: From an element of each operand, in the dtype in which it is kept, to that of the result.
        operands: The operands.
        result: The dtype of the result.
        what: The function of `tilelang.numpy`, for messages.
    """
    what = what or f"tnp.{name}"
    arrays = [operand for operand in operands if isinstance(operand, TracedArray)]
    bound = any(isinstance(operand, Scalar) and operand.axes for operand in operands)
    if bound and any(array.ndim for array in arrays):
        raise ProgramValueError(
            f"{what}: an array {shape_text(next(a for a in arrays if a.ndim).node.shape)} is combined with an element",
            hint="inside tnp.compute, index every dimension of an array: x[i, j]",
        )
    if bound or not arrays:
        return Scalar(function(*[read(operand) for operand in operands]), result.dtype, weak=result.weak)
    shape = broadcast_shapes(what, *[extents_of(operand) for operand in operands])
    axes = axes_for(shape)
    body = function(*[read(operand, axes) for operand in operands])
    return new_array(name, shape, Map(axes, body), body.dtype, result)


def new_array(
    name: str, shape: Sequence[Expr], definition: Definition, dtype: DType, result: OperandDType, *, part: bool = False
) -> TracedArray:
    """A new array of the graph, called after the variable that the user's line assigns, if there is one.

    Args:
        name: What it is called otherwise.
        shape: Its extents.
        definition: What its elements are.
        dtype: That of the elements as expressions read them.
        result: What promotion says of it.
        part: Whether it is only a step to what is assigned: its name is then appended to that of the variable.
    """
    loc = calling_line() or NOWHERE
    assigned = _assigned_name(loc)
    called = f"{assigned}_{name}" if part and assigned else assigned or name
    node = define(called, shape, dtype, definition, stored_dtype=result.dtype, loc=loc)
    return TracedArray(node, weak=result.weak)


def _assigned_name(loc: Loc) -> str:
    """The name to which a line assigns, "out" for one that returns; empty for others."""
    line = linecache.getline(loc.file, loc.line) if loc.file else ""
    match = re.match(r"\s*(\w+)\s*=[^=]", line)
    if match and match[1].isidentifier() and not keyword.iskeyword(match[1]):
        return match[1]
    return "out" if re.match(r"\s*return\b", line) else ""


def as_array(operand: Operand) -> TracedArray:
    """An operand as an array of the graph; a scalar becomes one without dimensions."""
    if isinstance(operand, TracedArray):
        return operand
    assert isinstance(operand, Scalar)
    body = cast(operand.expr, operand.dtype) if isinstance(operand.expr, Const) else operand.expr
    return new_array("value", (), Map((), body), body.dtype, operand.operand_dtype)
