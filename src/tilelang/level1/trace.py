"""Traces a user's function: runs it once on arrays without values, and gives its graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc, ProgramValueError, StagingTypeError, calling_line, raising_line
from tilelang.ir.expr import Expr, int_const
from tilelang.level1.elements import as_array
from tilelang.level1.graph import Graph, Parameter, RequiredExtent, define
from tilelang.level1.structure import Structure, flatten
from tilelang.level1.values import Operand, TracedArray, given_to_library
from tilelang.records import record

_TRACING: ContextVar[list[RequiredExtent] | None] = ContextVar("tracing", default=None)


@record(eq=False)
class ParameterSpec:
    """A parameter of a graph: its name, and the shape and dtype that it has for a call."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType


def is_tracing() -> bool:
    """Whether a function marked `@tilelang.compute` is running."""
    return _TRACING.get() is not None


def require_elements(extent: Expr, least: int, message: str, hint: str = "") -> None:
    """Refuses an axis with too few elements: at once, or where its extent is symbolic, in calls that make it so small.

    Raises:
        ProgramValueError: It has fewer elements than `least`.
    """
    size = int_const(extent)
    if size is not None and size < least:
        raise ProgramValueError(message, hint=hint)
    found = _TRACING.get()
    if size is None and found is not None:
        found.append(RequiredExtent(extent, least, message, hint, calling_line() or NOWHERE))


def trace(
    name: str, loc: Loc, parameters: Sequence[ParameterSpec], run: Callable[[list[Any]], Any]
) -> tuple[Graph, Structure]:
    """The graph of a user's function, and how its result is made of the results of the graph.

    Args:
        name: What the function is called.
        loc: Where it was defined.
        parameters: The arrays of a call.
        run: Calls the function with arrays in the place of those.

    Raises:
        StagingTypeError: It returns something else than arrays.
        StagingError: It passes an array to a function of another library.
    """
    arrays = [define(each.name, each.shape, each.dtype, Parameter(n), loc=loc) for n, each in enumerate(parameters)]
    with tracing() as required:
        result = run([TracedArray(array) for array in arrays])
    leaves, structure = flatten(result)
    for path, leaf in zip(structure.paths("result"), leaves, strict=True):
        if not isinstance(leaf, Operand):
            raise StagingTypeError(
                f"{name}: {path} is {type(leaf).__name__} {leaf!r:.40}, not an array",
                loc=loc,
                hint="return an array, or a tuple, list or dict of arrays",
            )
    if not leaves:
        raise StagingTypeError(f"{name}: returns no array", loc=loc, hint="return what the function computes")
    called = name if name.isidentifier() else "computation"  # a lambda has no name that a program could have
    results = tuple(as_array(leaf).node for leaf in leaves)
    return Graph(called, tuple(arrays), results, loc, tuple(required)), structure


@contextmanager
def tracing() -> Iterator[list[RequiredExtent]]:
    """Inside, calls of functions marked `@tilelang.compute` are inlined; yields what calls must satisfy."""
    required: list[RequiredExtent] = []
    token = _TRACING.set(required)
    try:
        yield required
    except TypeError as error:
        for text, library in _OF_LIBRARIES:
            if re.search(text, str(error)):
                raise given_to_library(library, loc=raising_line(error)) from None
        raise
    finally:
        _TRACING.reset(token)


# errors of libraries whose functions get arrays of a computation
_OF_LIBRARIES = (("__array_ufunc__", "numpy"), (r"must be .*Tensor.*, not TracedArray", "torch"))
