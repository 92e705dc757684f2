"""Merges arrays of a graph with equal definitions, such as the maxima of two softmaxes of the same rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from tilelang.dtypes import INT32
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Var
from tilelang.ir.visit import substitute
from tilelang.level1.graph import Array, Definition, Graph, Map, Reduction, Scan, Scatter, Sort

_AXES = [Var(f"axis{n}", INT32, index=True) for n in range(64)]  # replace the axes of definitions in keys


def without_duplicates(graph: Graph) -> Graph:
    """The graph with one array for each definition."""
    first: dict[Hashable, Array] = {}
    kept: dict[Array, Array] = {array: array for array in graph.parameters}
    for array in graph.arrays:
        if array in kept:
            continue
        new = _reading(array, kept)
        key = _key(new)
        kept[array] = new if key is None else first.setdefault(key, new)
    return dataclasses.replace(graph, results=tuple(kept[array] for array in graph.results))


def with_arrays(graph: Graph, new: Mapping[Array, Array]) -> Graph:
    """The graph with arrays replaced; a replacement may read the array that it replaces."""
    kept = {array: array for array in graph.parameters}
    for array in graph.arrays:
        kept[array] = new[array] if array in new else kept[array] if array in kept else _reading(array, kept)
    return dataclasses.replace(graph, results=tuple(kept[array] for array in graph.results))


def _reading(array: Array, kept: Mapping[Array, Array]) -> Array:
    """The array, with its sources replaced."""
    if all(kept[source] is source for source in array.sources):
        return array
    if not isinstance(array.definition, Map | Reduction | Scan | Sort | Scatter):
        return array
    new = with_sources(array.definition, {source: kept[source] for source in array.sources})
    return dataclasses.replace(array, definition=new)


def with_sources(definition: Definition, new: Mapping[Array, Array]) -> Definition:
    """A definition that reads other arrays.

    Args:
        definition: The definition; no parameter and no call.
        new: What replaces each array that it reads.
    """
    assert isinstance(definition, Map | Reduction | Scan | Sort | Scatter)
    buffers: Mapping[Any, Any] = new
    changes: dict[str, object] = {"body": substitute(definition.body, {}, buffers)}
    if isinstance(definition, Scatter):
        changes["base"] = new[definition.base]
        changes["indices"] = tuple(substitute(index, {}, buffers) for index in definition.indices)
    return dataclasses.replace(definition, **changes)  # type: ignore[arg-type]


def _key(array: Array) -> Hashable | None:
    """A key that is equal for arrays with equal definitions; None for arrays that are not merged."""
    definition = array.definition
    if not isinstance(definition, Map | Reduction | Scan | Sort):
        return None
    axes: Sequence[Var] = definition.axes
    if isinstance(definition, Reduction):
        axes = (*axes, *definition.reduced)
    body = substitute(definition.body, dict(zip(axes, _AXES, strict=False)))
    others = tuple(_plain(definition))
    shape = tuple(expr_key(extent) for extent in array.shape)
    return (type(definition), shape, str(array.dtype), str(array.stored_dtype), others, expr_key(body))


def _plain(definition: object) -> Iterator[Hashable]:
    """The fields of a definition beside axes and bodies."""
    for field in dataclasses.fields(definition):  # type: ignore[arg-type]
        value = getattr(definition, field.name)
        if isinstance(value, Expr) and field.name != "body":
            yield expr_key(value)
        elif isinstance(value, tuple) and field.name == "extents":
            yield tuple(expr_key(extent) for extent in value)
        elif not isinstance(value, Expr | tuple):
            yield value
