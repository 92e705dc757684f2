"""`T.copy`, `T.transpose` and `T.fill` as loops of element moves."""

from __future__ import annotations

from tilelang.errors import NoLowering
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Var, cast
from tilelang.ir.stmt import Bind, Store
from tilelang.lowering.cpu.nest import nest, scratch
from tilelang.lowering.regions import axes, indices, load, may_overlap
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.describe import matrix_axes
from tilelang.ops.fill import Fill


def lower_copy(op: Copy, build: Builder) -> None:
    """One loop per dimension, the last innermost: contiguous rows move as vectors."""
    _move(build, apart(op.name, op.src, op.dst, build), op.dst)


def lower_transpose(op: Transpose, build: Builder) -> None:
    """Rows of the destination are written in order."""
    source = apart(op.name, op.src, op.dst, build)
    rows, columns = matrix_axes(op.dst)
    source_rows, source_columns = matrix_axes(source)

    def body(at: tuple[Var, ...]) -> None:
        j, i = at
        value = load(source, (i, j), (source_rows, source_columns))
        build.emit(Store(op.dst.buffer, indices(op.dst, at, (rows, columns)), cast(value, op.dst.dtype)))

    nest(build, (op.dst.extent[rows], op.dst.extent[columns]), body, "ji")


def apart(name: str, source: Region, target: Region, build: Builder) -> Region:
    """The source, or a copy of it if it may overlap the target: all of it is read before any of that is written.

    Raises:
        NoLowering: A copy is needed, and its size is not known.
    """
    if not may_overlap(source, target):
        return source
    extent = source.static_extent
    if extent is None:
        raise NoLowering(
            f"{name}: both sides are parts of '{source.buffer.storage.name}' and may overlap, which needs constant "
            "extents",
            hint="go through another buffer, or slice with constants",
        )
    copied = scratch(build, f"{source.buffer.name}_copy", extent, source.dtype)
    _move(build, source, copied)
    return copied


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
