"""Makes arrays of a graph that are defined alike one array, such as the maxima of two softmaxes of the same rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Var
from tilelang.ir.visit import substitute
from tilelang.level1.graph import Array, Graph, Map, Reduction, Scan, Scatter, Sort

_AXES = [Var(f"axis{n}", INT32, index=True) for n in range(64)]  # stand for the axes of every definition


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
    return Graph(graph.name, graph.parameters, tuple(kept[array] for array in graph.results), graph.loc)


def with_arrays(graph: Graph, new: Mapping[Array, Array]) -> Graph:
    """The graph with arrays in place of others, which they may be made of."""
    kept = {array: array for array in graph.parameters}
    for array in graph.arrays:
        kept[array] = new[array] if array in new else kept[array] if array in kept else _reading(array, kept)
    return Graph(graph.name, graph.parameters, tuple(kept[array] for array in graph.results), graph.loc)


def _reading(array: Array, kept: dict[Array, Array]) -> Array:
    """The array, reading the arrays that are kept."""
    if all(kept[source] is source for source in array.sources):
        return array
    definition = array.definition
    buffers = {source: kept[source] for source in array.sources}
    match definition:
        case Map() | Reduction() | Scan() | Sort():
            new = dataclasses.replace(definition, body=substitute(definition.body, {}, buffers))  # type: ignore[arg-type]
            return dataclasses.replace(array, definition=new)
        case Scatter(base=base, indices=indices, body=body):
            changed = dataclasses.replace(
                definition,
                base=kept[base],
                indices=tuple(substitute(index, {}, buffers) for index in indices),  # type: ignore[arg-type]
                body=substitute(body, {}, buffers),  # type: ignore[arg-type]
            )
            return dataclasses.replace(array, definition=changed)
    return array


def _key(array: Array) -> Hashable | None:
    """What is equal for arrays that are defined alike; None for one that is like no other."""
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
