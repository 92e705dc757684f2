"""`T.gather` and `T.scatter` as parallel loops over the elements of the tile.

Consecutive iterations access consecutive elements of a row on both sides. Invariant: rows out of range are not
accessed; if the region is a whole dimension of a global tensor, the bounds checks of its accesses ensure it.
"""

from __future__ import annotations

from tilelang.ir.buffer import Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Var, as_expr, binary, cast, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import If, Store
from tilelang.lowering.library.sort_order import both
from tilelang.lowering.loops import parallel
from tilelang.lowering.regions import ZERO, axes, indices, load
from tilelang.ops.gather_scatter import GatherRows, GatherScatterOp, ScatterRows


def expand_gather(op: GatherRows, build: Builder) -> None:
    """One iteration per element of the tile."""

    def element(at: tuple[Var, ...]) -> None:
        row, along = _row(op, at)
        value = cast(load(op.tensor, along, _axes(op)), op.tile.dtype)
        exists = _exists(op, row)
        if exists is not None:
            value = select(exists, value, const(0, op.tile.dtype))
        build.emit(Store(op.tile.buffer, indices(op.tile, at), value))

    parallel(build, _extents(op), element)


def expand_scatter(op: ScatterRows, build: Builder) -> None:
    """One iteration per element of the tile."""

    def element(at: tuple[Var, ...]) -> None:
        row, along = _row(op, at)
        store = Store(op.tensor.buffer, indices(op.tensor, along, _axes(op)), cast(load(op.tile, at), op.tensor.dtype))
        exists = _exists(op, row)
        build.emit(store if exists is None else If(exists, as_body([store], build.loc)))

    parallel(build, _extents(op), element)


def _axes(op: GatherScatterOp) -> tuple[int, ...]:
    """The dimensions of the tensor that matter: those of the tile's, and the indexed one."""
    return tuple(axis for axis in range(len(op.tensor.extent)) if axis == op.dim or axis in axes(op.tensor))


def _extents(op: GatherScatterOp) -> list[Expr]:
    """The number of iterations, by dimension of the tile."""
    extents = [*op.rows] if op.rows else []
    found: list[Expr] = []
    for axis in _axes(op):
        found += extents if axis == op.dim else [op.tensor.extent[axis]]
    return found


def _row(op: GatherScatterOp, at: tuple[Var, ...]) -> tuple[Expr, list[Expr]]:
    """The row of an iteration, and its coordinates in the tensor."""
    along: list[Expr] = []
    rest = list(at)
    row: Expr = ZERO
    for axis in _axes(op):
        if axis == op.dim:
            row = load(op.index, [rest.pop(0)] if op.rows else [])
            along.append(row)
        else:
            along.append(rest.pop(0))
    return row, along


def _exists(op: GatherScatterOp, row: Expr) -> Expr | None:
    """Whether a row is in range; None if the bounds checks of global accesses test it."""
    tensor, count = op.tensor, op.tensor.extent[op.dim]
    is_whole = int_const(tensor.start[op.dim]) == 0 and same_expr(count, tensor.buffer.shape[op.dim])
    if tensor.buffer.scope is Scope.GLOBAL and is_whole:
        return None
    return both(binary(BinaryOp.GE, row, 0), binary(BinaryOp.LT, row, as_expr(count)))
