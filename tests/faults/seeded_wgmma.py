"""Faults of wgmma: matrix descriptors, steps along K, and whether the accumulator is overwritten."""

from __future__ import annotations

from collections.abc import Iterator

from edits import calls, with_argument, with_offset
from seeded import Change

from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Binary, Const, as_expr, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.wgmma import MATRIX_DESCRIPTOR


def descriptor_moved(node: Stmt) -> Iterator[Stmt | None]:
    """The start address of a descriptor is 16 bytes, or a row, too large."""
    if calls(node, MATRIX_DESCRIPTOR):
        tile = node.args[0]
        for by in (8, 64):
            yield with_argument(node, 0, Region(tile.buffer, (*tile.start[:-1], tile.start[-1] + by), tile.extent))


def distance_altered(position: int) -> Change:
    """A leading or stride offset of a descriptor is wrong; 0 where the hardware ignores it."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if calls(node, MATRIX_DESCRIPTOR):
            old = int_const(node.args[position]) or 0
            for new in (old + 16, old // 2) if old else ():
                yield with_argument(node, position, as_expr(new))

    return change


def code_altered(node: Stmt) -> Iterator[Stmt | None]:
    """The swizzle mode of a descriptor is wrong."""
    if calls(node, MATRIX_DESCRIPTOR):
        for code in {0, 1, 2, 3} - {int_const(node.args[3])}:
            yield with_argument(node, 3, as_expr(code))


def step_altered(node: Stmt) -> Iterator[Stmt | None]:
    """The descriptor of a step along K is 16 bytes too large, or not advanced."""
    if isinstance(node, CallStmt) and getattr(node.routine, "async_unit", None) is WGMMA:
        for position, arg in enumerate(node.args):
            if isinstance(arg, Binary) and arg.op is BinaryOp.ADD and str(arg.dtype) == "uint64":
                yield with_offset(node, position, 1)
                yield with_argument(node, position, arg.a)


def wrong_scale_d(node: Stmt) -> Iterator[Stmt | None]:
    """The accumulator is kept where it should be overwritten, or overwritten where it should be kept."""
    if isinstance(node, CallStmt) and getattr(node.routine, "async_unit", None) is WGMMA and len(node.args) == 4:
        for keep in (True, False):
            if not (isinstance(node.args[3], Const) and node.args[3].value == keep):
                yield with_argument(node, 3, Const(keep, BOOL))
