"""`T.argmax` and `T.argmin` as two reductions: the extreme value, and the smallest index that has it.

Takes an `ArgReduce`, emits a `Reduce` and parallel loops. Invariant: all reductions are minima and maxima, so that
targets may evaluate them in any order, in any memory.
"""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, Store
from tilelang.lowering.library.sort_order import follows, same
from tilelang.lowering.loops import move, parallel, scratch
from tilelang.lowering.regions import ZERO, axes, indices, load
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.reduce import Reduce, ReduceOp


def expand_arg_reduce(op: ArgReduce, build: Builder) -> None:
    """Two reductions if all extents are constant, else a serial loop along each row."""
    extent = op.src.static_extent
    if extent is None:
        _by_lines(op, build)
        return
    dtype = accumulator_dtype(op.src.dtype, op.src.dtype)
    left = [e for axis, e in enumerate(extent) if axis != op.dim and e != 1] or [1]
    best = scratch(build, f"{op.dst.buffer.name}_best", left, dtype, Scope.FRAGMENT)
    where = scratch(build, f"{op.dst.buffer.name}_where", left, INT32, Scope.FRAGMENT)
    build.emit(Reduce(op.op, op.src, best, op.dim))
    none = const(extent[op.dim], INT32)
    parallel(build, [const(e, INT32) for e in left], lambda at: build.emit(Store(where.buffer, at, none)))
    outer = [axis for axis in axes(op.src) if axis < op.dim]
    inner = [axis for axis in axes(op.src) if axis > op.dim]
    along = (*outer, op.dim, *inner)

    def element(at: tuple[Var, ...]) -> None:
        place = at[len(outer)]
        rest = (*at[: len(outer)], *at[len(outer) + 1 :])
        value = cast(load(op.src, at, along), dtype)
        index = select(same(value, load(best, rest)), place, none)
        at_rest = indices(where, rest)
        build.emit(Store(where.buffer, at_rest, binary(BinaryOp.MIN, Load(where.buffer, at_rest, INT32), index)))

    parallel(build, [op.src.extent[axis] for axis in along], element)
    move(build, where, op.dst)
    if op.values is not None:
        move(build, best, op.values)


def _by_lines(op: ArgReduce, build: Builder) -> None:
    """One iteration per row, which scans its elements in order."""
    dtype = accumulator_dtype(op.src.dtype, op.src.dtype)
    across = [axis for axis in axes(op.src) if axis != op.dim]

    def line(at: tuple[Var, ...]) -> None:
        def element(k: Expr) -> Expr:
            return cast(load(op.src, (*at, k), (*across, op.dim)), dtype)

        best, where = Buffer("best", (), dtype, Scope.VAR), Buffer("where", (), INT32, Scope.VAR)
        build.emit(Alloc(best, element(ZERO)))
        build.emit(Alloc(where, ZERO))
        k, value = Var("k", INT32, index=True), Var("value", dtype)
        old = Load(best, (), dtype)
        better = follows(value, old) if op.op is ReduceOp.MAX else _is_less(value, old)
        with build.block() as body:
            build.emit(Bind(value, element(k)))
            build.emit(Store(where, (), select(better, k, Load(where, (), INT32))))
            build.emit(Store(best, (), select(better, value, old)))
        build.emit(For(k, const(1, INT32), op.src.extent[op.dim], 1, ForKind.SERIAL, as_body(body, build.loc)))
        for region, result in ((op.dst, where), (op.values, best)):
            if region is not None:
                found = cast(Load(result, (), result.dtype), region.dtype)
                build.emit(Store(region.buffer, indices(region, at), found))

    def some(at: tuple[Var, ...]) -> None:
        with build.block() as statements:
            line(at)
        build.emit(If(op.src.extent[op.dim] > 0, as_body(statements, build.loc)))

    parallel(build, [op.src.extent[axis] for axis in across], some)


def _is_less(a: Expr, b: Expr) -> Expr:
    """Whether a is smaller than b, where NaN is smaller than anything."""
    if not a.dtype.is_float:
        return a < b
    is_first_nan = binary(BinaryOp.AND, binary(BinaryOp.NE, a, a), binary(BinaryOp.EQ, b, b))
    return binary(BinaryOp.OR, a < b, is_first_nan)
