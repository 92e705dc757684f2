"""`T.sort` and `T.topk`: a sorting network in shared memory, or a fold per element where only a few are wanted.

Takes a `SortOp`, emits parallel loops. Invariant: where places are wanted they take part in the comparisons, so that no
two elements are equal and the order is the one that the operator's reference gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_bool, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, If, Store
from tilelang.lowering.library.order import both, comes_after, same
from tilelang.lowering.regions import ZERO, axes, indices
from tilelang.lowering.simt.loops import parallel, scratch
from tilelang.ops.accumulate import accumulator
from tilelang.ops.reduce import ReduceOp, neutral
from tilelang.ops.sort import Sort, SortOp, TopK

At = tuple[Expr, ...]


def expand_sort(op: Sort, build: Builder) -> None:
    """All of each line."""
    moved = [_copied(op, tile, build) for tile in op.payload]
    network = _Network(op, build, bool(op.indices or moved))
    network.run()
    network.give(op.length)
    for tile, old in zip(op.payload, moved, strict=True):

        def element(at: tuple[Var, ...], tile: Region = tile, old: Region = old) -> None:
            *line, j = at
            value = Load(old.buffer, (*line, network.place((*line, j))), old.dtype)
            build.emit(Store(tile.buffer, _there(op, tile, line, j), value))

        parallel(build, network.extents(op.length), element)


def expand_topk(op: TopK, build: Builder) -> None:
    """A fold for each of a few, else the beginning of a sorted line."""
    steps = _log2(op.length) * (_log2(op.length) + 1) // 2
    if 2 * op.count <= steps:
        _Folds(op, build).run()
        return
    network = _Network(op, build, op.indices is not None)
    network.run()
    network.give(op.count)


def _log2(length: int) -> int:
    """How often 1 must be doubled to reach a length."""
    return (length - 1).bit_length()


def _read(op: SortOp, region: Region, line: At, j: Expr) -> Load:
    """An element of a tile of the operator's shape."""
    return Load(region.buffer, _there(op, region, line, j), region.dtype)


def _there(op: SortOp, region: Region, line: Sequence[Expr], j: Expr) -> tuple[Expr, ...]:
    """Where the element j of a line is in a tile that ends with the dimension that is sorted."""
    along = list(axes(region))
    has_last = len(along) > len(op.lines)
    return indices(region, (*line, j) if has_last else tuple(line), along)


def _copied(op: SortOp, region: Region, build: Builder) -> Region:
    """A copy in shared memory, whose lines all threads reach."""
    old = scratch(build, f"{region.buffer.name}_old", [*op.lines, op.length], region.dtype, Scope.SHARED)

    def element(at: tuple[Var, ...]) -> None:
        *line, j = at
        build.emit(Store(old.buffer, at, _read(op, region, tuple(line), j)))

    parallel(build, [const(e, INT32) for e in (*op.lines, op.length)], element)
    return old


class _Network:
    """A bitonic sorting network (Batcher, Sorting networks and their applications, 1968) over padded lines.

    In every step two halves of a block that are each in order become one: the first comparison of a block mirrors its
    second half, so that all comparisons put the smaller element in front.
    """

    def __init__(self, op: SortOp, build: Builder, with_places: bool) -> None:
        self._op, self._build = op, build
        self._rounds = _log2(op.length)
        self._padded = 1 << self._rounds
        shape = [*op.lines, self._padded]
        self._keys = scratch(build, f"{op.src.buffer.name}_keys", shape, op.src.dtype, Scope.SHARED).buffer
        self._places: Buffer | None = None
        if with_places:
            self._places = scratch(build, f"{op.src.buffer.name}_places", shape, INT32, Scope.SHARED).buffer

    def extents(self, last: int) -> list[Expr]:
        """The extents of a loop over lines and so many elements of each."""
        return [const(e, INT32) for e in (*self._op.lines, last)]

    def place(self, at: At) -> Expr:
        """Where the element was that is now there."""
        assert self._places is not None
        return Load(self._places, at, INT32)

    def run(self) -> None:
        """Puts the padded lines in order."""
        parallel(self._build, self.extents(self._padded), self._fill)
        for number in range(self._rounds):
            self._compare(1 << number, mirrored=True)
            for step in reversed(range(number)):
                self._compare(1 << step, mirrored=False)

    def _fill(self, at: tuple[Var, ...]) -> None:
        """An element, or behind the line's end one that comes last."""
        op, (*line, j) = self._op, at
        key: Expr = _read(op, op.src, tuple(line), j)
        if self._padded != op.length:
            key = select(j < op.length, key, const(_last(op), op.src.dtype))
        self._build.emit(Store(self._keys, at, key))
        if self._places is not None:
            self._build.emit(Store(self._places, at, cast(j, INT32)))

    def _compare(self, half: int, *, mirrored: bool) -> None:
        """Orders pairs of elements at the distance of half a block, or mirrored in the block's middle."""

        def pair(at: tuple[Var, ...]) -> None:
            build, (*line, number) = self._build, at
            block, within = number // half, number % half
            low, high = Var("low", INT32, index=True), Var("high", INT32, index=True)
            build.emit(Bind(low, block * (half * 2) + within))
            build.emit(Bind(high, block * (half * 2) + (half * 2 - 1 - within) if mirrored else low + half))
            at_low, at_high = (*line, low), (*line, high)
            a, b = (self._bound(name, self._keys, place) for name, place in (("a", at_low), ("b", at_high)))
            places = None
            if self._places is not None:
                places = self._bound("i", self._places, at_low), self._bound("j", self._places, at_high)
            with build.block() as swap:
                build.emit(Store(self._keys, at_low, b))
                build.emit(Store(self._keys, at_high, a))
                if self._places is not None and places is not None:
                    build.emit(Store(self._places, at_low, places[1]))
                    build.emit(Store(self._places, at_high, places[0]))
            wrong = comes_after(a, b, places, descending=self._op.descending)
            build.emit(If(wrong, as_body(swap, build.loc)))

        parallel(self._build, self.extents(self._padded // 2), pair)

    def _bound(self, name: str, buffer: Buffer, at: At) -> Var:
        var = Var(name, buffer.dtype)
        self._build.emit(Bind(var, Load(buffer, at, buffer.dtype)))
        return var

    def give(self, count: int) -> None:
        """Writes the first elements of each line, and where they were."""
        op = self._op

        def element(at: tuple[Var, ...]) -> None:
            *line, j = at
            for region, kept in ((op.dst, self._keys), (op.indices, self._places)):
                if region is not None and kept is not None:
                    value = cast(Load(kept, at, kept.dtype), region.dtype)
                    self._build.emit(Store(region.buffer, _there(op, region, line, j), value))

        parallel(self._build, self.extents(count), element)


def _last(op: SortOp) -> int | float:
    """A key that no other comes after."""
    dtype = op.src.dtype
    if op.descending:
        return neutral(ReduceOp.MAX, dtype)
    return math.nan if dtype.is_float else dtype.limits[1]


class _Folds:
    """The first few of each line one after the other: the extreme of those that come after the one before."""

    def __init__(self, op: TopK, build: Builder) -> None:
        self._op, self._build = op, build
        self._dtype = INT32 if op.src.dtype.is_bool else accumulator(op.src.dtype, op.src.dtype)
        self._lines = list(op.lines) or [1]
        self._best, self._last = self._tile("best", self._dtype), self._tile("last", self._dtype)
        self._where, self._last_where = self._tile("where", INT32), self._tile("last_where", INT32)
        self._keys = self._tile("keys", self._dtype, op.length)
        self._first = _last(op)

    def _tile(self, name: str, dtype: DType, *more: int) -> Buffer:
        extents = [*self._lines, *more]
        return scratch(self._build, f"{self._op.src.buffer.name}_{name}", extents, dtype, Scope.FRAGMENT).buffer

    def run(self) -> None:
        """One round for each."""
        self._each(self._op.length, self._keep)
        for number in range(self._op.count):
            self._each(0, self._start)
            self._each(self._op.length, partial(self._extreme, later=number > 0))
            self._each(self._op.length, partial(self._place, later=number > 0))
            self._each(0, partial(self._give, number=number))

    def _each(self, last: int, element: Callable[[At, Expr], None]) -> None:
        """A loop over lines, and over the elements of each if there are any."""
        extents = [const(e, INT32) for e in (*self._lines, *([last] if last else []))]
        count = len(self._lines)
        parallel(self._build, extents, lambda at: element(at[:count], at[count] if last else ZERO))

    def _there(self, line: At) -> At:
        """A line's coordinates in the operands, which may have only one."""
        return line if self._op.lines else ()

    def _keep(self, line: At, j: Expr) -> None:
        key = cast(_read(self._op, self._op.src, self._there(line), j), self._dtype)
        self._build.emit(Store(self._keys, (*line, j), key))

    def _start(self, line: At, _: Expr) -> None:
        self._build.emit(Store(self._best, line, const(self._first, self._dtype)))
        self._build.emit(Store(self._where, line, const(self._op.length, INT32)))

    def _is_left(self, key: Expr, line: At, j: Expr, *, later: bool) -> Expr:
        """Whether an element comes after the one that was found last."""
        if not later:
            return as_bool(True)
        places = (j, Load(self._last_where, line, INT32))
        return comes_after(key, Load(self._last, line, self._dtype), places, descending=self._op.descending)

    def _extreme(self, line: At, j: Expr, *, later: bool) -> None:
        key = Load(self._keys, (*line, j), self._dtype)
        left = select(self._is_left(key, line, j, later=later), key, const(self._first, self._dtype))
        step = BinaryOp.MAX if self._op.descending else BinaryOp.FMIN  # which is MIN of integers
        self._build.emit(Store(self._best, line, binary(step, Load(self._best, line, self._dtype), left)))

    def _place(self, line: At, j: Expr, *, later: bool) -> None:
        key = Load(self._keys, (*line, j), self._dtype)
        found = same(key, Load(self._best, line, self._dtype))
        if later:
            found = both(found, self._is_left(key, line, j, later=later))
        index = select(found, j, const(self._op.length, INT32))
        self._build.emit(Store(self._where, line, binary(BinaryOp.MIN, Load(self._where, line, INT32), index)))

    def _give(self, line: At, _: Expr, *, number: int) -> None:
        best, where = Load(self._best, line, self._dtype), Load(self._where, line, INT32)
        self._build.emit(Store(self._last, line, best))
        self._build.emit(Store(self._last_where, line, where))
        for region, value in ((self._op.dst, best), (self._op.indices, where)):
            if region is not None:
                at = _there(self._op, region, self._there(line), const(number, INT32))
                self._build.emit(Store(region.buffer, at, cast(value, region.dtype)))
