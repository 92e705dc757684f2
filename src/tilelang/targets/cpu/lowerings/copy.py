"""`T.copy`, `T.transpose`, `T.fill` and atomic updates of tiles as serial loops over their elements."""

from __future__ import annotations

from tilelang.errors import NoLowering
from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.lowering.elements import fill, move, transpose, update
from tilelang.lowering.regions import may_overlap
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.targets.cpu.lowerings.nest import nest, scratch


def lower_copy(op: Copy, build: Builder) -> None:
    """One loop per dimension, the last innermost: contiguous rows move as vectors."""
    move(build, copied_if_overlapping(op.name, op.src, op.dst, build), op.dst, nest)


def lower_transpose(op: Transpose, build: Builder) -> None:
    """Rows of the destination are written in order."""
    transpose(build, op, copied_if_overlapping(op.name, op.src, op.dst, build), nest)


def lower_fill(op: Fill, build: Builder) -> None:
    """One store per element."""
    fill(build, op, nest)


def lower_atomic_tile(op: AtomicTile, build: Builder) -> None:
    """One atomic update per element."""
    update(build, op, nest)


def copied_if_overlapping(name: str, source: Region, target: Region, build: Builder) -> Region:
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
    move(build, source, copied, nest)
    return copied
