"""`T.atomic_*` on tiles as loops of atomic element updates."""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var, cast
from tilelang.ir.stmt import Atomic, Bind
from tilelang.lowering.cpu.nest import nest
from tilelang.lowering.regions import axes, indices, load
from tilelang.ops.atomic import AtomicTile


def lower_atomic_tile(op: AtomicTile, build: Builder) -> None:
    """One atomic per element; a scalar operand is computed once."""
    dst, src = op.dst, op.src
    operand = None
    if not isinstance(src, Region):
        operand = Var("value", dst.dtype)
        build.emit(Bind(operand, cast(src, dst.dtype)))

    def element(at: tuple[Var, ...]) -> None:
        value = cast(load(src, at), dst.dtype) if isinstance(src, Region) else operand
        build.emit(Atomic(op.op, dst.buffer, indices(dst, at), value, order=op.order))

    nest(build, [dst.extent[axis] for axis in axes(dst)], element)
