"""Divides scans and top-k along axes that are too long for a block into chunks.

    scan:   scan each chunk; scan the totals of the chunks; combine each element with the total before its chunk
    top k:  the first k of each chunk, and of those again the first k

Takes a graph, gives one with the same results. Invariant: top k is stable, since chunks are in order, and so are the
candidates of each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.dtypes import DType
from tilelang.ir.expr import Const, Expr, Var, as_expr, binary, const, int_const, select
from tilelang.ir.visit import substitute
from tilelang.level1.deduplicate import with_arrays
from tilelang.level1.graph import Array, Graph, Map, Scan, Sort, axes_for, define, element
from tilelang.ops.sort import last_key
from tilelang.targets.target import Target

MAX_SEQUENCE = 16384  # elements that a block holds
_CHUNK = 4096


def with_chunked_sequences(graph: Graph, target: Target) -> Graph:
    """The graph with long scans and top-k in chunks, on a GPU; sorts of whole axes stay as they are."""
    while target.is_gpu:
        found = next((array for array in graph.arrays if _is_long(array)), None)
        if found is None:
            break
        graph = with_arrays(graph, {found: _in_chunks(found)})
    return graph


def _is_long(array: Array) -> bool:
    match array.definition:
        case Scan(along=along):
            return (int_const(array.shape[along]) or 0) > MAX_SEQUENCE
        case Sort(along=along, extent=extent):
            count = int_const(array.shape[along])
            return (int_const(extent) or 0) > MAX_SEQUENCE and count is not None and count <= _CHUNK // 2
    return False


def _in_chunks(array: Array) -> Array:
    definition = array.definition
    assert isinstance(definition, Scan | Sort)
    return _scanned(array, definition) if isinstance(definition, Scan) else _selected(array, definition)


def _scanned(array: Array, scan: Scan) -> Array:
    along, extent, neutral = scan.along, array.shape[scan.along], scan.combiner.neutral(array.dtype)
    shape, axes, body = _chunked(scan, array.shape, extent, const(neutral, array.dtype))
    local = _defined(array, "chunk", shape, array.dtype, Scan(axes, along + 1, scan.combiner, body))
    ends = shape[: along + 1] + shape[along + 2 :]
    axes = axes_for(ends)
    last = element(local, [*axes[: along + 1], _CHUNK - 1, *axes[along + 1 :]])
    total = _defined(array, "total", ends, array.dtype, Scan(axes, along, scan.combiner, last))
    axes = axes_for(array.shape)
    before, own, after = axes[:along], axes[along], axes[along + 1 :]
    here = element(local, [*before, own // _CHUNK, own % _CHUNK, *after])
    offset = element(total, [*before, own // _CHUNK - 1, *after])
    combined = binary(scan.combiner.operator, select(own >= _CHUNK, offset, const(neutral, array.dtype)), here)
    return _replaced(array, Map(axes, combined))


def _selected(array: Array, sort: Sort) -> Array:
    along, count = sort.along, array.shape[sort.along]
    dtype = sort.body.dtype
    padding = const(last_key(dtype, descending=sort.descending), dtype)
    shape, inner, body = _chunked(sort, array.shape, sort.extent, padding)
    short = (*shape[: along + 1], count, *shape[along + 2 :])
    chunk = as_expr(_CHUNK)

    def of_chunks(*, gives_index: bool) -> Array:
        definition = Sort(inner, along + 1, chunk, body, sort.descending, gives_index)
        name, kept = ("place", array.dtype) if gives_index else ("chunk", dtype)
        return _defined(array, name, short, kept, definition)

    def candidate(source: Array, place: Expr) -> Expr:
        return element(source, [*before, place // count, place % count, *after])

    axes = axes_for(array.shape)
    before, own, after = axes[:along], axes[along], axes[along + 1 :]
    keys = candidate(of_chunks(gives_index=False), own)
    number = as_expr(math.prod(int_const(each) or 0 for each in (shape[along], count)))
    best = Sort(axes, along, number, keys, sort.descending, sort.gives_index)
    if not sort.gives_index:
        return _replaced(array, best)
    place = element(_defined(array, "best", array.shape, array.dtype, best), axes)
    return _replaced(array, Map(axes, place // count * _CHUNK + candidate(of_chunks(gives_index=True), place)))


def _chunked(
    definition: Scan | Sort, shape: tuple[Expr, ...], extent: Expr, padding: Const
) -> tuple[tuple[Expr, ...], tuple[Var, ...], Expr]:
    """The shape with the axis split into chunks and their elements, its axes, and the body over them."""
    along, size = definition.along, int_const(extent)
    assert size is not None
    made = (*shape[:along], as_expr(-(-size // _CHUNK)), as_expr(_CHUNK), *shape[along + 1 :])
    axes = axes_for(made)
    at = axes[along] * _CHUNK + axes[along + 1]
    places = dict(zip(definition.axes, (*axes[:along], at, *axes[along + 2 :]), strict=True))
    body = substitute(definition.body, places)
    return made, axes, body if size % _CHUNK == 0 else select(at < size, body, padding)


def _defined(array: Array, suffix: str, shape: Sequence[Expr], dtype: DType, definition: Scan | Sort) -> Array:
    return define(f"{array.name}_{suffix}", shape, dtype, definition, loc=array.loc)


def _replaced(array: Array, definition: Map | Sort) -> Array:
    return dataclasses.replace(array, definition=definition)
