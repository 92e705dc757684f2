"""Tile operators as parallel loops over their elements.

Takes operators, emits `ParallelLoop`s and the scratch tiles they need. Invariant: the loops have the semantics of the
operators; they are distributed over threads later, like the user's own loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from tilelang.dtypes import BOOL, INT32, DType
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, For, ForKind, ParallelLoop, Print, Store
from tilelang.layout.thread_values import Fragment
from tilelang.lowering import elements
from tilelang.lowering.elements import LETTERS, Element
from tilelang.lowering.im2col import gather, patch
from tilelang.lowering.reduce_parts import ReduceParts
from tilelang.lowering.regions import ZERO, axes, indices, load, may_overlap, same_region, whole
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.combine import CombineOp
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.describe import matrix_axes
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan


def parallel(
    build: Builder,
    extents: Sequence[Expr],
    element: Element,
    *,
    letters: str = LETTERS,
    coalesced_width: int | None = None,
    layout: Fragment | None = None,
    seldom_updates: bool = False,
) -> None:
    """`for i, j, ... in T.Parallel(*extents)` with the body that `element` emits; no loop for a single element."""
    if not extents:
        element(())
        return
    variables = tuple(Var(letters[d % len(letters)], INT32, index=True) for d in range(len(extents)))
    with build.block() as statements:
        element(variables)
    body = as_body(statements, build.loc)
    build.emit(ParallelLoop(variables, tuple(extents), body, coalesced_width, layout, seldom_updates))


def serial(build: Builder, name: str, start: Expr, stop: Expr, body: Callable[[Var], None]) -> None:
    """`for name in range(start, stop)` with the body that `body` emits."""
    var = Var(name, INT32, index=True)
    with build.block() as statements:
        body(var)
    build.emit(For(var, start, stop, 1, ForKind.SERIAL, as_body(statements, build.loc)))


def scratch(build: Builder, name: str, extents: Sequence[int], dtype: DType, scope: Scope) -> Region:
    """Allocates a temporary tile and returns the whole of it as a region."""
    buffer = Buffer(name, tuple(as_expr(extent) for extent in extents), dtype, scope)
    build.emit(Alloc(buffer))
    return whole(buffer)


def move(
    build: Builder,
    src: Region,
    dst: Region,
    *,
    coalesced_width: int | None = None,
    layout: Fragment | None = None,
) -> None:
    """`dst[...] = src[...]`, regions that do not overlap."""
    elements.move(build, src, dst, partial(parallel, coalesced_width=coalesced_width, layout=layout))


def copied_if_overlapping(name: str, src: Region, dst: Region, build: Builder) -> Region:
    """The source region, or a copy of it in a fragment if it may overlap the destination.

    Raises:
        NoLowering: A copy is needed, and its size is symbolic.
    """
    if not may_overlap(src, dst):
        return src
    copied = scratch(build, f"{src.buffer.name}_copy", _constant(name, src), src.dtype, Scope.FRAGMENT)
    move(build, src, copied)
    return copied


def _constant(name: str, region: Region) -> tuple[int, ...]:
    """The extents of a region that needs a copy."""
    extent = region.static_extent
    if extent is None:
        raise NoLowering(
            f"{name}: needs a copy of its part of '{region.buffer.name}', whose extents are not constant",
            hint="go through another buffer, or slice with constants",
        )
    return extent


# -- copies and updates --------------------------------------------------------------------------------------
def expand_copy(op: Copy, build: Builder) -> None:
    """One iteration per element of the destination."""
    source = copied_if_overlapping(op.name, op.src, op.dst, build)
    move(build, source, op.dst, coalesced_width=op.coalesced_width, layout=op.layout)


def expand_transpose(op: Transpose, build: Builder) -> None:
    """One iteration per element, in the destination's order."""
    elements.transpose(build, op, copied_if_overlapping(op.name, op.src, op.dst, build), parallel)


def expand_fill(op: Fill, build: Builder) -> None:
    """One iteration per element."""
    elements.fill(build, op, parallel)


def expand_atomic(op: AtomicTile, build: Builder) -> None:
    """One iteration per element."""
    elements.update(build, op, parallel)


def expand_im2col(op: Im2Col, build: Builder) -> None:
    """One iteration per element of the tile."""

    def element(at: tuple[Var, ...]) -> None:
        i, j = at
        gather(op, patch(op, i, build), i, j, build)

    parallel(build, op.dst.extent[-2:], element)


def expand_print(stmt: Print, region: Region, build: Builder) -> None:
    """Copies a fragment to shared memory, from where one thread prints it."""
    shown = scratch(build, region.buffer.name, _constant("T.print", region), region.dtype, Scope.SHARED)
    move(build, region, shown)
    build.emit(Print(shown, stmt.message, stmt.source))


# -- reductions -------------------------------------------------------------------------------------------------
_REGISTERS = (Scope.FRAGMENT, Scope.LOCAL, Scope.VAR)


def expand_reduce(op: Reduce, build: Builder) -> None:
    """A loop over all elements that updates one running value per element of the destination."""
    parts = ReduceParts(op)
    out = [*parts.outer, *parts.inner]
    if parts.along == 0:
        parallel(build, out, lambda at: parts.result(build, at, parts.start))
    elif op.src.static_extent is None:
        _reduce_symbolic(parts, build, out)
    elif op.dst.buffer.scope in _REGISTERS and op.dst.dtype == parts.dtype and not may_overlap(op.src, op.dst):
        if op.clear:
            parallel(
                build, out, lambda at: build.emit(Store(op.dst.buffer, indices(op.dst, at), parts.start))
            )
        _accumulate(parts, build, op.dst)
    else:
        running = _running(parts, build, [int(e.value) for e in out if isinstance(e, Const)])
        parallel(build, out, lambda at: build.emit(Store(running.buffer, at, parts.start)))
        _accumulate(parts, build, running)
        parallel(build, out, lambda at: parts.result(build, at, load(running, at, tuple(range(len(at))))))


def _running(parts: ReduceParts, build: Builder, extents: Sequence[int]) -> Region:
    scope = Scope.FRAGMENT if extents else Scope.VAR
    return scratch(build, f"{parts.op.dst.buffer.name}_fold", extents, parts.dtype, scope)


def _accumulate(parts: ReduceParts, build: Builder, into: Region) -> None:
    """`into[...] = combine(into[...], src[...])` for every element of the source."""
    outer = len(parts.outer)
    along = axes(into)

    def element(at: tuple[Var, ...]) -> None:
        rest = (*at[:outer], *at[outer + 1 :])
        value = parts.combine(load(into, rest, along), parts.source(at[:outer], at[outer], at[outer + 1 :]))
        build.emit(Store(into.buffer, indices(into, rest, along), value))

    extents = [*parts.outer, parts.op.src.extent[parts.op.dim], *parts.inner]
    parallel(build, extents, element, seldom_updates=parts.op.seldom_updates)


def _reduce_symbolic(parts: ReduceParts, build: Builder, out: Sequence[Expr]) -> None:
    """Extents that are only known when the kernel runs: one running scalar per element of the destination."""
    outer = len(parts.outer)

    def element(at: tuple[Var, ...]) -> None:
        running = Buffer("folded", (), parts.dtype, Scope.VAR)
        build.emit(Alloc(running, parts.start))
        value = Load(running, (), parts.dtype)

        def step(k: Var) -> None:
            build.emit(Store(running, (), parts.combine(value, parts.source(at[:outer], k, at[outer:]))))

        extent = parts.op.src.extent[parts.op.dim]
        if out:
            serial(build, "k", ZERO, extent, step)
        else:
            parallel(build, [extent], lambda k: step(k[0]), letters="k")
        parts.result(build, at, value)

    parallel(build, out, element, letters="ijlmnop")


# -- gemms ---------------------------------------------------------------------------------------------------
def expand_gemm(op: Gemm, build: Builder) -> None:
    """A dot product for each element of C."""
    dtype = op.accumulator_dtype
    m, n, depth = op.sizes
    clear = op.clear_accum if op.clear_accum is not None else Const(False, BOOL)

    def operand(region: Region, multiplied: DType, row: Expr, column: Expr) -> Expr:
        return cast(cast(load(region, (row, column), matrix_axes(region)), multiplied), dtype)

    def element(at: tuple[Var, ...]) -> None:
        i, j = at
        along = op.axes_of_c
        total = Buffer("dot", (), dtype, Scope.VAR)
        old = cast(load(op.c, at, along), dtype)
        build.emit(Alloc(total, select(clear, const(0, dtype), old)))
        running = Load(total, (), dtype)

        def step(k: Var) -> None:
            a = operand(op.a, op.operands[0], *((k, i) if op.transpose_a else (i, k)))
            b = operand(op.b, op.operands[1], *((j, k) if op.transpose_b else (k, j)))
            build.emit(Store(total, (), binary(BinaryOp.ADD, running, binary(BinaryOp.MUL, a, b))))

        serial(build, "k", ZERO, depth, step)
        build.emit(Store(op.c.buffer, indices(op.c, at, along), cast(running, op.c.dtype)))

    parallel(build, (m, n), element)


# -- operators along a dimension -------------------------------------------------------------------------------
def expand_combine(op: CombineOp, build: Builder) -> None:
    """An operator along a dimension on shared or global operands, between copies to and from shared memory."""
    srcs = [_reached(op, number, build) for number in range(len(op.srcs))]
    dsts = []
    for number, dst in enumerate(op.dsts):
        if dst.buffer.scope not in _REGISTERS:
            dsts.append(dst)
        elif isinstance(op, Scan) and srcs[number] is not op.srcs[number] and op.srcs[number].dtype == dst.dtype:
            dsts.append(srcs[number])  # the running values may replace the scratch copy of the source
        else:
            dsts.append(_line(op, dst, build))
    build.emit(dataclasses.replace(op, srcs=tuple(srcs), dsts=tuple(dsts)))
    for dst, wanted in zip(dsts, op.dsts, strict=True):
        if dst is not wanted:
            move(build, dst, wanted)


def _reached(op: CombineOp, number: int, build: Builder) -> Region:
    """A source, or a shared copy if it is in registers or the operator may write it elsewhere."""
    src = op.srcs[number]
    own = isinstance(op, Scan) and same_region(src, op.dsts[number])
    others = [dst for index, dst in enumerate(op.dsts) if not (own and index == number)]
    if src.buffer.scope not in _REGISTERS and not any(may_overlap(src, dst) for dst in others):
        return src
    copied = _line(op, src, build)
    move(build, src, copied)
    return copied


def _line(op: CombineOp, region: Region, build: Builder) -> Region:
    name = f"{region.buffer.name}_line"
    return scratch(build, name, _constant(op.name, region), region.dtype, Scope.SHARED)
