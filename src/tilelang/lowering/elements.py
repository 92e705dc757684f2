"""Elementwise bodies of tile operators: copies, transposes, fills, atomic updates.

Takes regions and a function that emits loops over them, serial or parallel; emits these loops. Invariant: each element
of the destination is written by one iteration, so the order of iterations is irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Expr, Var, cast
from tilelang.ir.stmt import Atomic, Bind, Store
from tilelang.lowering.regions import axes, indices, load
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Transpose
from tilelang.ops.fill import Fill

LETTERS = "ijklmnop"
"""Names of loop variables, from the outermost on."""

Element = Callable[[tuple[Var, ...]], None]
"""Emits the body for one element."""


class Loops(Protocol):
    """Emits loops over all coordinates of a box, with variables of these names."""

    def __call__(  # noqa: D102
        self, build: Builder, extents: Sequence[Expr], element: Element, *, letters: str = LETTERS
    ) -> None: ...


def extents_of(region: Region) -> list[Expr]:
    """The extents of a region's dimensions that are not the constant 1."""
    return [region.extent[axis] for axis in axes(region)]


def move(build: Builder, src: Region, dst: Region, over: Loops) -> None:
    """`dst[...] = src[...]`, regions that do not overlap."""

    def element(at: tuple[Var, ...]) -> None:
        build.emit(Store(dst.buffer, indices(dst, at), cast(load(src, at), dst.dtype)))

    over(build, extents_of(dst), element)


def transpose(build: Builder, op: Transpose, src: Region, over: Loops) -> None:
    """`dst[..., j, i] = src[..., i, j]` in the order of the destination, from a region that does not overlap it."""
    source_axes, axes = op.axes
    dst, outer = op.dst, len(axes) - 2

    def element(at: tuple[Var, ...]) -> None:
        value = load(src, (*at[:outer], at[-1], at[-2]), source_axes)
        build.emit(Store(dst.buffer, indices(dst, at, axes), cast(value, dst.dtype)))

    over(build, tuple(dst.extent[axis] for axis in axes), element, letters="klmn"[:outer] + "ji")


def fill(build: Builder, op: Fill, over: Loops) -> None:
    """Stores a value, evaluated once, to all elements."""
    value: Expr = cast(op.value, op.dst.dtype)
    if not isinstance(value, Const):
        filler = Var("value", op.dst.dtype)
        build.emit(Bind(filler, value))
        value = filler
    over(build, extents_of(op.dst), lambda at: build.emit(Store(op.dst.buffer, indices(op.dst, at), value)))


def update(build: Builder, op: AtomicTile, over: Loops) -> None:
    """One atomic update per element; a scalar operand is computed once."""
    dst, src = op.dst, op.src
    operand: Var | None = None
    if not isinstance(src, Region):
        operand = Var("value", dst.dtype)
        build.emit(Bind(operand, cast(src, dst.dtype)))

    def element(at: tuple[Var, ...]) -> None:
        value = cast(load(src, at), dst.dtype) if isinstance(src, Region) else operand
        build.emit(Atomic(op.op, dst.buffer, indices(dst, at), value, order=op.order, scope=op.scope))

    over(build, extents_of(dst), element)
