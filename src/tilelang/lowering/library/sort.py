"""`T.sort` and `T.topk`: a sorting network in shared memory, or for a small k rounds that each find one element.

Takes a `SortOp`, emits parallel loops. Invariant: if indices are requested they are part of the comparison, so that no
two elements are equal and the order is that of the operator's reference.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from tilelang.dtypes import BOOL, INT32, DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Var, binary, cast, const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Store
from tilelang.lowering.library.sort_order import both, comes_after, follows, same
from tilelang.lowering.library.sorting_network import sort_lines
from tilelang.lowering.loops import parallel, scratch, serial
from tilelang.lowering.regions import ZERO, axes, indices
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.sort import Sort, SortOp, TopK, last_key

At = tuple[Expr, ...]

# The cost of a reduction over a row, in comparison steps of the network: if many threads execute a block, and if one
# does, for which the elements of a row are lanes of vectors in a reduction, but not in a step.
_REDUCTION_STEPS, _REDUCTION_STEPS_OF_ONE_THREAD = 3, 1
_LANES = 16  # rows that one thread handles as lanes of vectors, at least
_SELECTED_IN_A_STEP = 7  # elements of each row that it finds so while it would do a step of the network


def expand_sort(op: Sort, build: Builder) -> None:
    """Sorts whole rows."""
    moved = [_copied(op, tile, build) for tile in op.payload]
    keys, positions = _sorted(op, build, with_positions=bool(op.indices or moved))
    _store_first(op, build, keys, positions, op.length)
    for tile, old in zip(op.payload, moved, strict=True):

        def element(at: tuple[Var, ...], tile: Region = tile, old: Region = old) -> None:
            *line, j = at
            assert positions is not None
            value = Load(old.buffer, (*line, Load(positions, at, INT32)), old.dtype)
            build.emit(Store(tile.buffer, _indices(op, tile, line, j), value))

        parallel(build, _extents(op, op.length), element)


def expand_topk(op: TopK, build: Builder, *, many_threads: bool) -> None:
    """K rounds for small k, else the start of sorted rows."""
    stages = _log2(op.length)
    steps = stages * (stages + 1) // 2
    found: tuple[Buffer, Buffer | None]
    if not many_threads and math.prod(op.outer_extents) >= _LANES and op.count <= _SELECTED_IN_A_STEP * steps:
        found = _TopKByColumns(op, build).run()
    elif (_REDUCTION_STEPS if many_threads else _REDUCTION_STEPS_OF_ONE_THREAD) * op.count <= steps:
        found = _TopKByReductions(op, build).run()
    else:
        found = _sorted(op, build, with_positions=op.indices is not None)
    _store_first(op, build, *found, op.count)


def _log2(length: int) -> int:
    """The binary logarithm, rounded up."""
    return (length - 1).bit_length()


def _read(op: SortOp, region: Region, line: Sequence[Expr], j: Expr) -> Load:
    """An element of a tile of the operator's shape."""
    return Load(region.buffer, _indices(op, region, line, j), region.dtype)


def _indices(op: SortOp, region: Region, line: Sequence[Expr], j: Expr) -> tuple[Expr, ...]:
    """The coordinates of element j of a row, in a tile whose last dimension is the sorted one."""
    along = list(axes(region))
    has_last = len(along) > len(op.outer_extents)
    return indices(region, (*line, j) if has_last else tuple(line), along)


def _copied(op: SortOp, region: Region, build: Builder) -> Region:
    """A copy in shared memory, which all threads can access."""
    old = scratch(build, f"{region.buffer.name}_old", [*op.outer_extents, op.length], region.dtype, Scope.SHARED)

    def element(at: tuple[Var, ...]) -> None:
        *line, j = at
        build.emit(Store(old.buffer, at, _read(op, region, line, j)))

    parallel(build, [const(e, INT32) for e in (*op.outer_extents, op.length)], element)
    return old


def _sorted(op: SortOp, build: Builder, *, with_positions: bool) -> tuple[Buffer, Buffer | None]:
    """The sorted rows and their indices, padded at the end with elements that sort last."""
    padded, name, dtype = 1 << _log2(op.length), op.src.buffer.name, op.src.dtype
    keys = scratch(build, f"{name}_keys", [*op.outer_extents, padded], dtype, Scope.SHARED).buffer
    positions = None
    if with_positions:
        positions = scratch(build, f"{name}_places", [*op.outer_extents, padded], INT32, Scope.SHARED).buffer

    def element(at: tuple[Var, ...]) -> None:
        *line, j = at
        key: Expr = _read(op, op.src, line, j)
        if padded != op.length:
            key = select(j < op.length, key, const(last_key(dtype, descending=op.descending), dtype))
        build.emit(Store(keys, at, key))
        if positions is not None:
            build.emit(Store(positions, at, cast(j, INT32)))

    parallel(build, _extents(op, padded), element)
    sort_lines(build, keys, positions, descending=op.descending)
    return keys, positions


def _store_first(op: SortOp, build: Builder, keys: Buffer, positions: Buffer | None, count: int) -> None:
    """Stores the first elements of each row, and their indices."""

    def element(at: tuple[Var, ...]) -> None:
        *line, j = at
        for region, kept in ((op.dst, keys), (op.indices, positions)):
            if region is not None and kept is not None:
                value = cast(Load(kept, at, kept.dtype), region.dtype)
                build.emit(Store(region.buffer, _indices(op, region, line, j), value))

    parallel(build, _extents(op, count), element)


def _extents(op: SortOp, last: int) -> list[Expr]:
    """The extents of a loop over rows and `last` elements of each."""
    return [const(e, INT32) for e in (*op.outer_extents, last)]


class _TopKRounds(ABC):
    """The first k elements of each row in k rounds, each over the elements that sort after the previous result."""

    keys_by_row = True  # else by column

    def __init__(self, op: TopK, build: Builder) -> None:
        self._op, self._build = op, build
        self._dtype = INT32 if op.src.dtype.is_bool else accumulator_dtype(op.src.dtype, op.src.dtype)
        self._lines = list(op.outer_extents) or [1]
        self._best, self._last = self._tile("best", self._dtype), self._tile("last", self._dtype)
        self._where, self._last_where = self._tile("where", INT32), self._tile("last_where", INT32)
        extents = [*self._lines, op.length] if self.keys_by_row else [op.length, *self._lines]
        self._keys = scratch(build, f"{op.src.buffer.name}_keys", extents, self._dtype, Scope.FRAGMENT).buffer
        self._before_all, self._after_all = (
            const(last_key(op.src.dtype, descending=order), self._dtype) for order in (not op.descending, op.descending)
        )
        found = [*op.outer_extents, op.count]
        name = op.src.buffer.name
        self._found = scratch(build, f"{name}_found", found, self._dtype, Scope.SHARED).buffer
        self._positions = scratch(build, f"{name}_places", found, INT32, Scope.SHARED).buffer

    def _tile(self, name: str, dtype: DType) -> Buffer:
        name = f"{self._op.src.buffer.name}_{name}"
        return scratch(self._build, name, self._lines, dtype, Scope.FRAGMENT).buffer

    def run(self) -> tuple[Buffer, Buffer]:
        """Emits a loop of rounds; returns the first elements of each row and their indices."""
        self._each(self._op.length, self._keep)
        self._each(0, self._init_previous)
        serial(self._build, "number", ZERO, const(self._op.count, INT32), self._round)
        return self._found, self._positions

    def _round(self, number: Var) -> None:
        self._each(0, self._start_round)
        self._find()
        self._each(0, partial(self._note, number=number))

    @abstractmethod
    def _find(self) -> None:
        """Finds the first of the elements that are left, and its index."""

    def _each(self, last: int, element: Callable[[At, Expr], None]) -> None:
        """A parallel loop over rows, and over the elements of each if `last` is not 0."""
        extents = [const(e, INT32) for e in (*self._lines, *([last] if last else []))]
        count = len(self._lines)
        parallel(self._build, extents, lambda at: element(at[:count], at[count] if last else ZERO))

    def _row_indices(self, line: At) -> At:
        """The coordinates of a row in the operands, which may have only one."""
        return line if self._op.outer_extents else ()

    def _keep(self, line: At, j: Expr) -> None:
        key = cast(_read(self._op, self._op.src, self._row_indices(line), j), self._dtype)
        self._build.emit(Store(self._keys, self._key_at(line, j), key))

    def _key_at(self, line: At, j: Expr) -> At:
        return (*line, j) if self.keys_by_row else (j, *line)

    def _init_previous(self, line: At, _: Expr) -> None:
        """Initializes the previous result so that all elements sort after it."""
        self._build.emit(Store(self._last, line, self._before_all))
        self._build.emit(Store(self._last_where, line, const(-1, INT32)))

    def _start_round(self, line: At, _: Expr) -> None:
        self._build.emit(Store(self._best, line, self._after_all))
        self._build.emit(Store(self._where, line, const(self._op.length, INT32)))

    def _is_after_previous(self, key: Expr, line: At, j: Expr) -> Expr:
        """Whether an element sorts after the previous result."""
        positions = (j, Load(self._last_where, line, INT32))
        return comes_after(key, Load(self._last, line, self._dtype), positions, descending=self._op.descending)

    def _note(self, line: At, _: Expr, *, number: Var) -> None:
        at = (*self._row_indices(line), number)
        best, where = Load(self._best, line, self._dtype), Load(self._where, line, INT32)
        for buffer, value in ((self._last, best), (self._last_where, where)):
            self._build.emit(Store(buffer, line, value))
        for buffer, value in ((self._found, best), (self._positions, where)):
            self._build.emit(Store(buffer, at, value))


class _TopKByReductions(_TopKRounds):
    """Each round is two reductions, of elements and then of indices."""

    def _find(self) -> None:
        self._each(self._op.length, self._extreme)
        self._each(self._op.length, self._position)

    def _extreme(self, line: At, j: Expr) -> None:
        key = Load(self._keys, (*line, j), self._dtype)
        left = select(self._is_after_previous(key, line, j), key, self._after_all)
        step = BinaryOp.MAX if self._op.descending else BinaryOp.FMIN  # equals MIN for integers
        self._build.emit(Store(self._best, line, binary(step, Load(self._best, line, self._dtype), left)))

    def _position(self, line: At, j: Expr) -> None:
        key = Load(self._keys, (*line, j), self._dtype)
        found = both(same(key, Load(self._best, line, self._dtype)), self._is_after_previous(key, line, j))
        index = select(found, j, const(self._op.length, INT32))
        self._build.emit(Store(self._where, line, binary(BinaryOp.MIN, Load(self._where, line, INT32), index)))


class _TopKByColumns(_TopKRounds):
    """Each round goes through the columns, with rows as lanes of vectors."""

    keys_by_row = False

    def _find(self) -> None:
        serial(self._build, "j", ZERO, const(self._op.length, INT32), lambda j: self._each(0, partial(self._take, j=j)))

    def _take(self, line: At, _: Expr, *, j: Expr) -> None:
        key, best = Load(self._keys, (j, *line), self._dtype), Load(self._best, line, self._dtype)
        where = Load(self._where, line, INT32)
        first = follows(key, best) if self._op.descending else follows(best, key)
        is_first = binary(BinaryOp.BITOR, first, where == self._op.length)
        taken = Var("taken", BOOL)
        self._build.emit(Bind(taken, binary(BinaryOp.BITAND, self._is_after_previous(key, line, j), is_first)))
        for buffer, value, old in ((self._best, key, best), (self._where, cast(j, INT32), where)):
            self._build.emit(Store(buffer, line, select(taken, value, old)))
