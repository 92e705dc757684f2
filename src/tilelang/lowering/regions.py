"""Elements of regions by coordinate: how lowerings address what an operator accesses.

Takes regions and coordinates, gives buffer indices. Invariant: coordinates count the dimensions whose extent is not the
constant 1, as the operators of `ops` compare extents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, ExprLike, Load, const, int_const
from tilelang.ir.memoize import memoized
from tilelang.ir.stmt import Alloc, Bind, For, If, Seq, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, written_buffers

ZERO = const(0, INT32)


def axes(region: Region) -> tuple[int, ...]:
    """The dimensions of a region that are not the constant 1."""
    return tuple(axis for axis, extent in enumerate(region.extent) if int_const(extent) != 1)


def indices(region: Region, coordinates: Sequence[Expr], along: Sequence[int] | None = None) -> tuple[Expr, ...]:
    """The buffer indices of an element of a region.

    Args:
        region: The region.
        coordinates: One per dimension in `along`; other dimensions use 0.
        along: Dimensions of the coordinates; by default those that are not the constant 1.
    """
    result = list(region.start)
    for axis, coordinate in zip(axes(region) if along is None else along, coordinates, strict=True):
        result[axis] = coordinate if int_const(result[axis]) == 0 else result[axis] + coordinate
    return tuple(result)


def load(region: Region, coordinates: Sequence[Expr], along: Sequence[int] | None = None) -> Load:
    """An element of a region, as an expression."""
    return Load(region.buffer, indices(region, coordinates, along), region.dtype)


def whole(buffer: Buffer) -> Region:
    """All of a buffer."""
    return Region(buffer, tuple(ZERO for _ in buffer.shape), buffer.shape)


def slice_along(region: Region, axis: int, first: ExprLike, count: int) -> Region:
    """`count` rows or columns of a region from `first` on, along a dimension of its buffer."""
    start, extent = list(region.start), list(region.extent)
    start[axis], extent[axis] = start[axis] + first, const(count, INT32)
    return Region(region.buffer, tuple(start), tuple(extent))


def is_whole(region: Region) -> bool:
    """Whether a region is provably all of its buffer."""
    starts = all(int_const(start) == 0 for start in region.start)
    extents = zip(region.extent, region.buffer.shape, strict=True)
    return starts and all(same_expr(extent, size) for extent, size in extents)


def may_overlap(a: Region, b: Region) -> bool:
    """Whether two regions may overlap: they are in one buffer, and not disjoint by constants."""
    if a.buffer.storage is not b.buffer.storage:
        return False
    return not (a.buffer is b.buffer and _are_disjoint(a, b))


def _are_disjoint(a: Region, b: Region) -> bool:
    """Whether two regions of one buffer are disjoint in some dimension, by constants."""
    for start_a, extent_a, start_b, extent_b in zip(a.start, a.extent, b.start, b.extent, strict=True):
        first_a, length_a, first_b, length_b = (int_const(e) for e in (start_a, extent_a, start_b, extent_b))
        if first_a is None or length_a is None or first_b is None or length_b is None:
            continue
        if first_a + length_a <= first_b or first_b + length_b <= first_a:
            return True
    return False


def same_region(a: Region, b: Region) -> bool:
    """Whether two regions are provably the same."""
    if a.buffer is not b.buffer:
        return False
    parts = zip((*a.start, *a.extent), (*b.start, *b.extent), strict=True)
    return all(same_expr(x, y) for x, y in parts)


def matching_axes(src: Region, dst: Region, dim: int) -> tuple[int, ...]:
    """The destination's dimensions that correspond to the source's: those across the scanned one, then that one."""
    by_source = dict(zip(axes(src), axes(dst), strict=True))
    along = by_source.get(dim, 0)  # a unit dimension only has coordinate 0, which is valid for any dimension
    return (*(by_source[axis] for axis in axes(src) if axis != dim), along)


def shared_storages(stmt: Stmt) -> tuple[Buffer, ...]:
    """The storage of shared buffers that a statement itself accesses, without its sub-statements; kept on it."""
    return memoized(stmt, "_shared_storages", (), lambda: tuple(_shared_storages(stmt)))


def _shared_storages(stmt: Stmt) -> Iterator[Buffer]:
    for buffer in (*written_buffers(stmt), *_named(stmt)):
        if buffer.scope is Scope.SHARED:
            yield buffer.storage
    for root in expressions(stmt):
        for load in loads_of(root):
            if load.buffer.scope is Scope.SHARED:
                yield load.buffer.storage


def _named(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers that a statement refers to directly, in regions or as a whole; allocations do not count."""
    if isinstance(stmt, Seq | Bind | Store | If | For):
        return  # it has no regions, and no buffers but one that it writes
    for field in dataclasses.fields(stmt):
        value = getattr(stmt, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Region):
                yield item.buffer
            elif isinstance(item, Buffer) and not isinstance(stmt, Alloc):
                yield item
