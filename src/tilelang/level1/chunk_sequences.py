"""Divides scans and sorts along axes that a block cannot hold, or whose extents are symbolic.

    scan:   scan each chunk; scan the totals of the chunks; combine each element with the total before its chunk
    top k:  the first k of each chunk, and of those again the first k
    sort:   by ranks (`rank_sort`)

Along a symbolic axis the number of chunks is symbolic, too: the totals before each are reduced, and the candidates are
sorted by ranks.

Takes a graph, gives one with the same results. Invariant: top k is stable, since chunks are in order, and so are the
candidates of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.dtypes import INT32, DType
from tilelang.ir.expr import Const, Expr, Var, as_expr, binary, const, int_const, select
from tilelang.ir.visit import substitute
from tilelang.language.extents import folded
from tilelang.level1.deduplicate import with_arrays
from tilelang.level1.graph import Array, Definition, Graph, Map, Reduction, Scan, Sort, axes_for, define, element
from tilelang.level1.rank_sort import sorted_by_rank
from tilelang.ops.sort import last_key
from tilelang.targets.target import Target

MAX_SEQUENCE = 16384  # elements that a block holds
_CHUNK = 4096
_SYMBOLIC_CHUNK = 1024  # less padding where an axis is short


def with_chunked_sequences(graph: Graph, target: Target) -> Graph:
    """The graph with scans and sorts of which a block can hold the rows."""
    while True:
        found = next((array for array in graph.arrays if _is_divided(array, target)), None)
        if found is None:
            return graph
        graph = with_arrays(graph, {found: _divided(found)})


def _is_divided(array: Array, target: Target) -> bool:
    """Whether a block cannot hold the rows that are scanned or sorted."""
    match array.definition:
        case Scan(along=along):
            size = int_const(array.shape[along])
            return size is None or target.is_gpu and size > MAX_SEQUENCE
        case Sort() as sort:
            size = int_const(sort.extent)
            if size is None or not target.is_gpu:
                return size is None
            padded = 1 << (size - 1).bit_length()
            held = padded * (sort.body.dtype.bytes + (array.dtype.bytes if sort.gives_index else 0))
            return _has_few(array, sort) and size > MAX_SEQUENCE or held > target.machine.shared_bytes
    return False


def _has_few(array: Array, sort: Sort) -> bool:
    """Whether only few of the elements that are sorted are wanted."""
    count = int_const(array.shape[sort.along])
    return count is not None and count <= _chunk(sort.extent) // 2


def _divided(array: Array) -> Array:
    definition = array.definition
    if isinstance(definition, Scan):
        return _scanned(array, definition)
    assert isinstance(definition, Sort)
    return _selected(array, definition) if _has_few(array, definition) else sorted_by_rank(array, definition)


def _chunk(extent: Expr) -> int:
    """How many elements a chunk has."""
    return _SYMBOLIC_CHUNK if int_const(extent) is None else _CHUNK


def _scanned(array: Array, scan: Scan) -> Array:
    along, extent = scan.along, array.shape[scan.along]
    neutral, chunk = const(scan.combiner.neutral(array.dtype), array.dtype), _chunk(extent)
    shape, axes, body = _chunked(scan, array.shape, extent, neutral)
    local = _defined(array, "chunk", shape, array.dtype, Scan(axes, along + 1, scan.combiner, body))
    ends = shape[: along + 1] + shape[along + 2 :]
    axes = axes_for(ends)
    last = element(local, [*axes[: along + 1], chunk - 1, *axes[along + 1 :]])
    totals = Scan(axes, along, scan.combiner, last)
    until = _reduced_until(totals, shape[along], neutral) if int_const(extent) is None else totals
    total = _defined(array, "total", ends, array.dtype, until)
    axes = axes_for(array.shape)
    before, own, after = axes[:along], axes[along], axes[along + 1 :]
    here = element(local, [*before, own // chunk, own % chunk, *after])
    offset = element(total, [*before, own // chunk - 1, *after])
    combined = binary(scan.combiner.operator, select(own >= chunk, offset, neutral), here)
    return _replaced(array, Map(axes, combined))


def _reduced_until(scan: Scan, extent: Expr, neutral: Const) -> Reduction:
    """A scan as a reduction for each position."""
    here, earlier = scan.axes[scan.along], Var("earlier", INT32, index=True)
    body = select(earlier <= here, substitute(scan.body, {here: earlier}), neutral)
    return Reduction(scan.axes, (earlier,), (extent,), scan.combiner, body)


def _selected(array: Array, sort: Sort) -> Array:
    along, count = sort.along, array.shape[sort.along]
    dtype = sort.body.dtype
    padding = const(last_key(dtype, descending=sort.descending), dtype)
    shape, inner, body = _chunked(sort, array.shape, sort.extent, padding)
    short = (*shape[: along + 1], count, *shape[along + 2 :])
    chunk = as_expr(_chunk(sort.extent))

    def of_chunks(*, gives_index: bool) -> Array:
        definition = Sort(inner, along + 1, chunk, body, sort.descending, gives_index)
        name, kept = ("place", array.dtype) if gives_index else ("chunk", dtype)
        return _defined(array, name, short, kept, definition)

    def candidate(source: Array, place: Expr) -> Expr:
        return element(source, [*before, place // count, place % count, *after])

    axes = axes_for(array.shape)
    before, own, after = axes[:along], axes[along], axes[along + 1 :]
    keys = candidate(of_chunks(gives_index=False), own)
    best = Sort(axes, along, folded(shape[along] * count), keys, sort.descending, sort.gives_index)
    found = _replaced(array, best)
    if sort.gives_index:
        found = _defined(array, "best", array.shape, array.dtype, best)
    if int_const(sort.extent) is None:
        found = sorted_by_rank(found, best)
    if not sort.gives_index:
        return found
    place = element(found, axes)
    return _replaced(array, Map(axes, place // count * chunk + candidate(of_chunks(gives_index=True), place)))


def _chunked(
    definition: Scan | Sort, shape: tuple[Expr, ...], extent: Expr, padding: Const
) -> tuple[tuple[Expr, ...], tuple[Var, ...], Expr]:
    """The shape with the axis split into chunks and their elements, its axes, and the body over them."""
    along, size, chunk = definition.along, int_const(extent), _chunk(extent)
    count = (extent + (chunk - 1)) // chunk if size is None else as_expr(-(-size // chunk))
    made = (*shape[:along], count, as_expr(chunk), *shape[along + 1 :])
    axes = axes_for(made)
    at = axes[along] * chunk + axes[along + 1]
    places = dict(zip(definition.axes, (*axes[:along], at, *axes[along + 2 :]), strict=True))
    body = substitute(definition.body, places)
    return made, axes, body if size is not None and size % chunk == 0 else select(at < extent, body, padding)


def _defined(array: Array, suffix: str, shape: Sequence[Expr], dtype: DType, definition: Definition) -> Array:
    return define(f"{array.name}_{suffix}", shape, dtype, definition, loc=array.loc)


def _replaced(array: Array, definition: Map | Sort) -> Array:
    return dataclasses.replace(array, definition=definition)
