"""`T.copy`, `T.transpose` and `T.fill` as loops of element moves."""

from __future__ import annotations

from tilelang.errors import NoLowering
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Var, cast
from tilelang.ir.stmt import Bind, Store
from tilelang.lower.cpu.nest import axes, indices, load, nest, scratch
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill


def lower_copy(op: Copy, build: Builder) -> None:
    """One loop per dimension, the last innermost: contiguous rows move as vectors."""
    _move(build, op.src, op.dst)


def lower_transpose(op: Transpose, build: Builder) -> None:
    """Rows of the destination are written in order; a tile turned in place goes through a second one."""
    source = op.src
    if source.buffer.storage is op.dst.buffer.storage:
        extent = source.static_extent
        if extent is None:
            raise NoLowering(
                f"T.transpose: '{source.buffer.name}' is turned in place, which needs constant extents",
                hint="transpose into another buffer",
            )
        copied = scratch(build, f"{source.buffer.name}_copy", extent, source.dtype)
        _move(build, source, copied)
        source = copied
    rows, columns = matrix_axes(op.dst)
    source_rows, source_columns = matrix_axes(source)

    def body(at: tuple[Var, ...]) -> None:
        j, i = at
        value = load(source, (i, j), (source_rows, source_columns))
        build.emit(Store(op.dst.buffer, indices(op.dst, at, (rows, columns)), cast(value, op.dst.dtype)))

    nest(build, (op.dst.extent[rows], op.dst.extent[columns]), body, "ji")


def lower_fill(op: Fill, build: Builder) -> None:
    """The value is computed once and stored everywhere."""
    value: Expr = cast(op.value, op.dst.dtype)
    if not isinstance(value, Const):
        filler = Var("value", op.dst.dtype)
        build.emit(Bind(filler, value))
        value = filler
    extents = [op.dst.extent[axis] for axis in axes(op.dst)]
    nest(build, extents, lambda at: build.emit(Store(op.dst.buffer, indices(op.dst, at), value)))


def _move(build: Builder, source: Region, target: Region) -> None:
    def body(at: tuple[Var, ...]) -> None:
        build.emit(Store(target.buffer, indices(target, at), cast(load(source, at), target.dtype)))

    nest(build, [target.extent[axis] for axis in axes(target)], body)


def matrix_axes(region: Region) -> tuple[int, ...]:
    """The two dimensions of a region that is a matrix, once unit extents beyond two are dropped, the foremost first."""
    left = list(range(len(region.extent)))
    units = [axis for axis in left if axis not in axes(region)]
    while len(left) > 2 and units:
        left.remove(units.pop(0))
    return tuple(left)
