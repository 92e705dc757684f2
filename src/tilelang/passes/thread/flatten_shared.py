"""Flattens shared memory: applies the layouts of shared buffers, so that accesses are by offset.

Takes a thread-level function whose accesses to shared buffers have logical indices; gives one in which shared buffers
have one dimension, whose extent is the size of their layout, and are indexed by offset in elements. Invariant: a vector
access stays contiguous, since layouts are only chosen where that holds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilelang.analysis.accesses import accesses
from tilelang.arith.exact import exact
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, Bind, For, ForKind, Launch, Print, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter
from tilelang.layout.layout import Layout
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.transforms.fold_offsets import OffsetFolder

_ZERO, _ONE = const(0, INT32), const(1, INT32)
_LETTERS = "ijklmnop"


def element_offset(buffer: Buffer, layout: Layout | None, indices: tuple[Expr, ...]) -> Expr:
    """The offset of an element from the start of its buffer, in elements."""
    at = tuple(exact(index) for index in indices)
    if layout is None:
        return _row_major(at, buffer.static_shape) if buffer.static_shape is not None else _symbolic(at, buffer.shape)
    leading = len(at) - len(layout.shape)
    coordinates = (*at[:leading], *layout(*at[leading:]))
    return _row_major(coordinates, (*(buffer.static_shape or ())[:leading], *layout.output_shape))


def _row_major(coordinates: tuple[Expr, ...], shape: tuple[int, ...]) -> Expr:
    """The row-major offset as a sum of coordinates, of which the last may be left out, times constant strides."""
    total: Expr = _ZERO
    stride = math.prod(shape)
    for coordinate, extent in zip(coordinates, shape, strict=False):
        stride = stride // extent if extent else 0
        total = total + coordinate * stride if stride != 1 else total + coordinate
    return total


def _symbolic(coordinates: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Expr:
    """The row-major offset for symbolic extents."""
    total: Expr = _ZERO
    stride: Expr = _ONE
    for coordinate, extent in zip(reversed(coordinates), reversed(shape), strict=True):
        total = coordinate * stride + total
        stride = extent * stride
    return total


class _Flatten(Rewriter):
    """The rewriting of one launch.

    Args:
        launch: The launch.
        versions_first: See `flatten_shared`.
    """

    def __init__(self, launch: Launch, *, versions_first: bool) -> None:
        self._plan = launch.plan
        self._layouts: Mapping[Buffer, Layout] = dict(launch.plan.shared_layouts)
        self._folder = OffsetFolder(launch)
        self._versions_first = versions_first
        self._read_once = frozenset[Buffer]()  # by one access in the loop around
        self.flat: dict[Buffer, Buffer] = {}

    def buffer(self, node: Buffer) -> Buffer:
        if node.scope is not Scope.SHARED:
            return node
        cached = self.flat.get(node)
        if cached is None:
            cached = self.flat[node] = self._flattened(node)
        return cached

    def _flattened(self, node: Buffer) -> Buffer:
        if node.view_of is not None and (node in self._layouts) != (node.storage in self._layouts):
            raise CompilerBug(f"'{node.name}' and '{node.storage.name}' share memory, but one has no layout")
        base = None if node.view_of is None else self.buffer(node.view_of)
        shape: tuple[Expr, ...] = (functools.reduce(operator.mul, node.shape, _ONE),)
        if node.static_shape is not None:
            shape = (const(self._plan.shared_elements(node), INT32),)
        return dataclasses.replace(node, shape=shape, strides=None, view_of=base)

    def _offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        layout, at = self._layouts.get(buffer), self.exprs(indices)
        folded = None if layout is None else self._folder.fold(layout, at)
        if folded is not None and layout is not None:
            leading = len(at) - len(layout.shape)
            shape = (*(buffer.static_shape or ())[:leading], *layout.output_shape)
            base = _row_major(layout(*map(exact, folded.base)), layout.output_shape)
            if not leading:
                return (folded.apply(base),)
            version = _row_major(tuple(map(exact, at[:leading])), shape)
            once = folded.flips_once and buffer in self._read_once
            if once and math.prod(layout.output_shape) % folded.flipped == 0:
                return (folded.apply(base + version),)
            return (folded.apply(base) + version,)
        return (element_offset(buffer, layout, at),)

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer.scope is Scope.SHARED:
            return Load(self.buffer(node.buffer), self._offset(node.buffer, node.indices), node.dtype)
        return self.rebuild_expr(node)

    def region(self, node: Region) -> Region:
        """The region from the offset of its first element, of a proven contiguous extent."""
        if node.buffer.scope is not Scope.SHARED:
            return Rewriter.region(self, node)
        start = self._offset(node.buffer, node.start)
        return Region(self.buffer(node.buffer), start, (self._span(node),))

    @contextmanager
    def _reading(self, loop: For) -> Iterator[None]:
        """Context manager for the body of a loop, which may read tiles at a single place."""
        around = self._read_once
        if self._versions_first and loop.kind is not ForKind.UNROLLED:
            reads = Counter(access.buffer for access in accesses(loop.body).reads)
            self._read_once = frozenset(buffer for buffer, count in reads.items() if count == 1)
        try:
            yield
        finally:
            self._read_once = around

    def _span(self, node: Region) -> Expr:
        """The contiguous extent of a region in elements; 1 if its buffer has a layout."""
        extent, shape = node.static_extent, node.buffer.static_shape
        if extent is None or shape is None or node.buffer in self._layouts:
            return _ONE
        stride, span = 1, 1
        for length, size in zip(reversed(extent), reversed(shape), strict=True):
            span += (length - 1) * stride
            stride *= size
        return const(max(span, 1), INT32)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Store | Atomic) and node.buffer.scope is Scope.SHARED:
            value = node.value if node.value is None else self.expr(node.value)
            indices = self._offset(node.buffer, node.indices)
            parts = {"buffer": self.buffer(node.buffer), "indices": indices, "value": value}
            if isinstance(node, Atomic) and node.compare is not None:
                parts["compare"] = self.expr(node.compare)
            return dataclasses.replace(node, **parts)  # type: ignore[arg-type]
        if isinstance(node, Print) and isinstance(node.operand, Region) and node.operand.buffer.scope is Scope.SHARED:
            return self.visit(_printed_from_a_copy(node, node.operand))
        if isinstance(node, For):
            with self._folder.loop(node), self._reading(node):
                return self.rebuild_stmt(node)
        if isinstance(node, Bind):
            self._folder.bind(node)
        return self.rebuild_stmt(node)


def _printed_from_a_copy(node: Print, region: Region) -> Stmt:
    """Prints a tile in logical order, from a copy with its logical shape."""
    buffer = region.buffer
    copy = dataclasses.replace(buffer, scope=Scope.LOCAL, strides=None, view_of=None)
    at = tuple(Var(name, INT32, index=True) for name, _ in zip(_LETTERS, buffer.shape, strict=False))
    body: Stmt = Store(copy, at, Load(buffer, at, buffer.dtype), loc=node.loc)
    for var, start, extent in zip(reversed(at), reversed(region.start), reversed(region.extent), strict=True):
        body = For(var, start, start + extent, 1, ForKind.SERIAL, body, loc=node.loc)
    shown = dataclasses.replace(node, operand=Region(copy, region.start, region.extent))
    return Seq((Alloc(copy, loc=node.loc), body, shown), loc=node.loc)


def flatten_launch(launch: Launch, *, versions_first: bool = False) -> Launch:
    """The launch with flat shared buffers, in its body and its plan."""
    flatten = _Flatten(launch, versions_first=versions_first)
    body = flatten.visit(launch.body) or Seq((), loc=launch.body.loc)
    if not flatten.flat:
        return launch
    renamed = flatten.flat
    plan = dataclasses.replace(
        launch.plan,
        shared_layouts=(),
        shared_offsets=tuple((renamed.get(b, b), offset) for b, offset in launch.plan.shared_offsets),
        dynamic_shared_offsets=tuple((renamed.get(b, b), offset) for b, offset in launch.plan.dynamic_shared_offsets),
        versions=tuple((renamed.get(b, b), count) for b, count in launch.plan.versions),
    )
    return dataclasses.replace(launch, body=body, plan=plan)


def flatten_shared(*, versions_first: bool) -> Pass:
    """The pass of a target.

    Args:
        versions_first: The version of a tile is added before the XOR of a swizzle where a loop reads the tile at one
            place, which needs each result once in an iteration: a thread then keeps one offset. Otherwise it is added
            last, so that the XOR is common to all versions and computed once, before the loop.
    """

    def run(func: PrimFunc, _: PassContext) -> PrimFunc:
        return with_launches(func, lambda launch: flatten_launch(launch, versions_first=versions_first))

    return Pass(
        "flatten_shared", run, Level.THREAD, Level.THREAD,
        requires=(Property.SHARED_MEMORY_ALLOCATED, Property.LOGICAL_INDICES),
        establishes=(Property.SHARED_MEMORY_FLAT,),
        invalidates=(Property.LOGICAL_INDICES,),
    )  # fmt: skip


PASS = flatten_shared(versions_first=False)
