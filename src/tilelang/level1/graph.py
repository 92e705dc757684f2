"""The graph of a computation: arrays, each defined by a scalar expression over its axes.

An `Array` is a `Buffer` that need not exist in memory, because its definition says what every element is. Expressions
read elements by `ir.expr.Load`, so that everything that treats expressions (`ir.visit`, `ir.compare`, `ir.evaluate`,
`arith`) treats those of a graph. Axes are index variables; the axes of a definition are its own, and stand for the
dimensions of the array in order.

Invariants: arrays and definitions are immutable, compared by identity, and only read arrays that were made before them.
An element that a `Select` does not choose is not read, so its indices may be out of range; all others are in range,
except those that contain values of integer arrays (gathers), where an element out of range reads as 0.

Dtypes. `dtype` is that of the elements as expressions read them. Arithmetic on floats of 16 bits and less is float32:
definitions hold the conversions, and there is no other rounding in an expression than its casts. `stored_dtype` is what
the user sees, and what memory holds where the array is kept in memory; an operand of a matrix product may be rounded to
its `stored_dtype`, too.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, Number, Var, as_expr
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of, substitute, variables_of
from tilelang.ops.reduce import ReduceOp, neutral
from tilelang.records import record

if TYPE_CHECKING:
    from tilelang.jit.kernel import JITKernel


class Combiner(enum.Enum):
    """The associative functions of reductions, scans and scatters; of bools, `any` is MAX and `all` is MIN."""

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    ARGMIN = "argmin"
    ARGMAX = "argmax"

    @property
    def gives_index(self) -> bool:
        """Whether the result is the row-major position of an element rather than its value; the first of equals."""
        return self in (Combiner.ARGMIN, Combiner.ARGMAX)

    @property
    def operator(self) -> BinaryOp:
        """The function of two values; for those that give an index, the one that chooses."""
        return _OPERATORS[self]

    def neutral(self, dtype: DType) -> Number:
        """The neutral element, which is the result over no elements."""
        if self is Combiner.PROD:
            return 1
        return neutral(_REDUCTIONS[self.operator], dtype)


_OPERATORS = {
    Combiner.SUM: BinaryOp.ADD,
    Combiner.PROD: BinaryOp.MUL,
    Combiner.MIN: BinaryOp.MIN,
    Combiner.MAX: BinaryOp.MAX,
    Combiner.ARGMIN: BinaryOp.MIN,
    Combiner.ARGMAX: BinaryOp.MAX,
}
_REDUCTIONS = {BinaryOp.ADD: ReduceOp.SUM, BinaryOp.MIN: ReduceOp.MIN, BinaryOp.MAX: ReduceOp.MAX}


@record(eq=False)
class Parameter:
    """An array that a call passes.

    Attributes:
        position: Among the arrays of the call.
    """

    position: int


@record(eq=False)
class Map:
    """`array[axes] = body`: elementwise functions, views, broadcasts, slices, gathers, ranges and constants."""

    axes: tuple[Var, ...]
    body: Expr


@record(eq=False)
class Reduction:
    """`array[axes] = combiner(body for reduced in extents)`.

    Attributes:
        axes: The dimensions of the array.
        reduced: The axes that are reduced, in the order that positions of `ARGMIN` and `ARGMAX` count.
        extents: Their extents; there is at least one, and none is known to be 0 for those that give an index.
        combiner: The function. It combines in the dtype of the body, which is the array's unless it gives an index.
        body: Over both kinds of axes.
    """

    axes: tuple[Var, ...]
    reduced: tuple[Var, ...]
    extents: tuple[Expr, ...]
    combiner: Combiner
    body: Expr


@record(eq=False)
class Scan:
    """`array[.., i, ..] = combiner(body[.., j, ..] for j in 0..i)`, i included.

    Attributes:
        axes: The dimensions of the array.
        along: The position among them of the one that is scanned.
        combiner: The function.
        body: Over the axes.
    """

    axes: tuple[Var, ...]
    along: int
    combiner: Combiner
    body: Expr


@record(eq=False)
class Sort:
    """`array[.., i, ..]` is the i-th of the values of `body` along one axis, in stable order; NaN is above all numbers.

    Attributes:
        axes: The dimensions of the array.
        along: The position among them of the one that is sorted.
        extent: How many values are sorted; the array may have fewer elements there, the first ones (top k).
        body: The values, over the axes.
        descending: Whether the greatest comes first.
        gives_index: Whether the elements are the positions of the values rather than the values.
    """

    axes: tuple[Var, ...]
    along: int
    extent: Expr
    body: Expr
    descending: bool
    gives_index: bool


@record(eq=False)
class Scatter:
    """`base` with updates: for all `axes`, `array[indices] = combiner(array[indices], body)`.

    Updates out of range are dropped; the order of updates of one element is not defined.

    Attributes:
        base: What the array is before the updates, of the same shape.
        axes: Those of the updates, with their extents.
        extents: How many updates there are along each axis.
        indices: Where an update goes, over the axes: one expression for each dimension of the array.
        body: The updates, over the axes.
        combiner: The function; None replaces the element.
    """

    base: Array
    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    body: Expr
    combiner: Combiner | None


@record(eq=False)
class KernelCall:
    """A call of a Level 2 kernel.

    Attributes:
        kernel: The compiled kernel.
        arguments: Arrays and Python values, as the kernel takes them.
    """

    kernel: JITKernel
    arguments: tuple[object, ...]


@record(eq=False)
class KernelResult:
    """One of the arrays that a kernel returns.

    Attributes:
        call: The call, the same for all its results.
        position: Among the results.
    """

    call: KernelCall
    position: int


@record(eq=False)
class Reshaped:
    """The elements of an array in memory under another shape, row-major; only in kernels, not in graphs.

    Attributes:
        source: The array.
    """

    source: Array


Definition = Parameter | Map | Reduction | Scan | Sort | Scatter | KernelResult | Reshaped


@record(eq=False, repr=False, kw_only=True)
class Array(Buffer):
    """An array of a computation.

    Attributes:
        definition: What its elements are.
        stored_dtype: The dtype that the user sees, and that memory holds; narrower than `dtype`, or the same.
    """

    definition: Definition
    stored_dtype: DType

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The elements that the definition reads, once for each place where it does; none of a call's arguments."""
        return tuple(load for root in _expressions(self.definition) for load in loads_of(root))

    @cached_property
    def sources(self) -> tuple[Array, ...]:
        """The arrays that the definition reads, each once, in order."""
        return tuple(dict.fromkeys(_sources(self)))


def define(
    name: str,
    shape: Sequence[ExprLike],
    dtype: DType,
    definition: Definition,
    *,
    stored_dtype: DType | None = None,
    loc: Loc = NOWHERE,
) -> Array:
    """A new array.

    Args:
        name: What programs that are made of the graph call it; need not be unique.
        shape: Its extents.
        dtype: That of its elements as expressions read them.
        definition: What they are.
        stored_dtype: What the user sees, `dtype` if it is not given.
        loc: The user's line.
    """
    extents = tuple(as_expr(extent) for extent in shape)
    return Array(
        name, extents, dtype, Scope.GLOBAL, loc=loc, definition=definition, stored_dtype=stored_dtype or dtype
    )


def element(array: Array, indices: Sequence[ExprLike]) -> Load:
    """A read of one element."""
    assert len(indices) == array.rank
    return Load(array, tuple(as_expr(index) for index in indices), array.dtype)


def body_at(array: Array, indices: Sequence[Expr]) -> Expr:
    """The value of an element of a `Map`, which may stand in place of a read of it."""
    definition = array.definition
    assert isinstance(definition, Map)
    return substitute(definition.body, dict(zip(definition.axes, indices, strict=True)))


def axes_for(shape: Sequence[object], names: Sequence[str] = "ijklmn") -> tuple[Var, ...]:
    """New axes for the dimensions of a shape; those beyond the names are numbered."""
    dtype = DType("int32")
    return tuple(
        Var(names[n] if n < len(names) else f"{names[-1]}{n}", dtype, index=True) for n in range(len(shape))
    )


def same_axes(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two lists have the same axes in the same order."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


def _expressions(definition: Definition) -> tuple[Expr, ...]:
    match definition:
        case Map(body=body) | Reduction(body=body) | Scan(body=body) | Sort(body=body):
            return (body,)
        case Scatter(indices=indices, body=body):
            return (*indices, body)
    return ()


def _sources(array: Array) -> Iterator[Array]:
    match array.definition:
        case Scatter(base=base):
            yield base
        case KernelResult(call=KernelCall(arguments=arguments)):
            yield from (argument for argument in arguments if isinstance(argument, Array))
    for load in array.loads:
        assert isinstance(load.buffer, Array)
        yield load.buffer


@record(eq=False)
class RequiredExtent:
    """A symbolic extent that calls must not make too small, such as that of an axis along which a maximum is taken.

    Attributes:
        extent: The extent.
        least: The least number of elements.
        message: What is said of a call with fewer.
        hint: What to write instead.
        loc: The user's line that requires it.
    """

    extent: Expr
    least: int
    message: str
    hint: str
    loc: Loc


@record(eq=False)
class Graph:
    """A computation: what a function marked `@tilelang.compute` does for given shapes, dtypes and Python values.

    Attributes:
        name: That of the user's function.
        parameters: The arrays that a call passes, in order; some may not be used.
        results: The arrays that it returns, in order; a parameter may be one of them.
        loc: Where the function was defined.
        required: The symbolic extents that calls must not make too small.
    """

    name: str
    parameters: tuple[Array, ...]
    results: tuple[Array, ...]
    loc: Loc = NOWHERE
    required: tuple[RequiredExtent, ...] = ()

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The parameters, and the arrays that the results depend on, sources before readers."""
        order: dict[Array, None] = dict.fromkeys(self.parameters)
        stack = [(array, iter(array.sources)) for array in reversed(self.results) if array not in order]
        while stack:
            array, sources = stack[-1]
            source = next(sources, None)
            if source is None:
                order.setdefault(array)
                stack.pop()
            elif source not in order:
                stack.append((source, iter(source.sources)))
        return tuple(order)

    @cached_property
    def symbols(self) -> tuple[Var, ...]:
        """The symbolic sizes of the parameters, in order of first appearance."""
        extents = [extent for parameter in self.parameters for extent in parameter.shape]
        return tuple(dict.fromkeys(var for extent in extents for var in variables_of(extent)))

    def __str__(self) -> str:
        from tilelang.level1.print_graph import graph_text  # noqa: PLC0415  the printer imports the nodes

        return graph_text(self)
