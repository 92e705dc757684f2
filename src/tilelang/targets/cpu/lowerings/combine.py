"""`T.cumsum`, `T.cummax`, `T.associative_scan` and `T.reduce` with a function as loops that carry running values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Var, cast, const, int_const, select
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import Bind, For, ForKind, If, Store
from tilelang.lowering.loops import copied_if_overlapping
from tilelang.lowering.lowering import LoweringContext, PlainLowering
from tilelang.lowering.regions import ZERO, axes, indices, load, matching_axes, may_overlap, same_region
from tilelang.ops.combine import CombineOp, CombineReduce
from tilelang.ops.scan import Scan
from tilelang.targets.cpu.lowerings.nest import assign, loop, nest, read, variable

At = tuple[Expr, ...]
_Op = TypeVar("_Op", bound=CombineOp)


class SerialScan(PlainLowering):
    """Scans as loops."""

    name = "scan.serial"

    def lower(self, op: Scan, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """One running value per 1-D slice along the dimension; in place, each element is loaded before it is stored."""
        op = _without_overlap(op, build)
        targets = [(dst, matching_axes(op.srcs[0], dst, op.dim)) for dst in op.dsts]

        def scan_slice(at: At) -> None:
            first = op.init or [const(0, dtype) for dtype in op.dtypes]
            running = [variable(build, "running", dtype, value) for dtype, value in zip(op.dtypes, first, strict=True)]

            def element(k: Var) -> None:
                extent = op.srcs[0].extent[op.dim]
                index: Expr = extent - 1 - k if op.reverse else k
                here = [_bound(build, value) for value in _read(op, at, index)]
                after: Sequence[Expr] = op.combine(_values(running), here)
                if op.exclusive:
                    _write(build, targets, (*at, index), _values(running))
                else:
                    after = [select(k == 0, value, total) for value, total in zip(here, after, strict=True)]
                _assign(build, running, after)
                if not op.exclusive:
                    _write(build, targets, (*at, index), _values(running))

            loop(build, "k", op.srcs[0].extent[op.dim], element)

        nest(build, _outer_extents(op), scan_slice, "ijlmnop")


class SerialCombineReduce(PlainLowering):
    """Reductions with a combine function as loops."""

    name = "reduce.combine_serial"

    def lower(self, op: CombineReduce, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """One tuple of running values per 1-D slice along the dimension, initialized with the first elements."""
        op = _without_overlap(op, build)
        extent = op.srcs[0].extent[op.dim]

        def reduce_slice(at: At) -> None:
            with build.block() as statements:
                running = [
                    variable(build, "folded", dtype, value)
                    for dtype, value in zip(op.dtypes, _read(op, at, ZERO), strict=True)
                ]
                k = Var("k", INT32, index=True)
                with build.block() as body:
                    _assign(build, running, op.combine(_values(running), _read(op, at, k)))
                build.emit(For(k, const(1, INT32), extent, 1, ForKind.SERIAL, as_body(body, build.loc)))
                _write(build, [(dst, None) for dst in op.dsts], at, _values(running))
            within = as_body(statements, build.loc)
            build.emit(within if (int_const(extent) or 0) > 0 else If(extent > 0, within))

        nest(build, _outer_extents(op), reduce_slice, "ijlmnop")


def _without_overlap(op: _Op, build: Builder) -> _Op:
    """The operator with copies of the sources that overlap a destination; a scan may overlap its own."""
    srcs = list(op.srcs)
    for number, src in enumerate(op.srcs):
        for dst_number, dst in enumerate(op.dsts):
            own = isinstance(op, Scan) and number == dst_number and same_region(src, dst)
            if not own and may_overlap(src, dst):
                srcs[number] = copied_if_overlapping(op.name, src, dst, build)
                break
    return dataclasses.replace(op, srcs=tuple(srcs))


def _outer_extents(op: CombineOp) -> list[Expr]:
    return [op.srcs[0].extent[axis] for axis in axes(op.srcs[0]) if axis != op.dim]


def _read(op: CombineOp, at: At, k: Expr) -> list[Expr]:
    return [
        cast(load(src, (*at, k), matching_axes(op.srcs[0], src, op.dim)), dtype)
        for src, dtype in zip(op.srcs, op.dtypes, strict=True)
    ]


def _values(buffers: Sequence[Buffer]) -> list[Expr]:
    return [read(buffer) for buffer in buffers]


def _bound(build: Builder, value: Expr) -> Var:
    var = Var("here", value.dtype)
    build.emit(Bind(var, value))
    return var


def _assign(build: Builder, buffers: Sequence[Buffer], values: Sequence[Expr]) -> None:
    """All values are computed before the first changes."""
    if len(buffers) > 1:
        values = [_bound(build, value) for value in values]
    for buffer, value in zip(buffers, values, strict=True):
        assign(build, buffer, value)


def _write(
    build: Builder, regions: Sequence[tuple[Region, Sequence[int] | None]], at: At, values: Sequence[Expr]
) -> None:
    for (region, along), value in zip(regions, values, strict=True):
        build.emit(Store(region.buffer, indices(region, at, along), cast(value, region.dtype)))
