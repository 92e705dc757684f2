"""`Layout`: where each coordinate of a tile lies in memory.

Takes a shape and an index function, gives a map that applies to ints, NumPy arrays and expressions with the same code.
Invariant: no two coordinates of a layout lie in one place; this is settled by looking at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.errors import ProgramError, TileLangError

Coordinate = Any  # an int, a NumPy array or an expression of the IR: whatever has integer arithmetic
IndexFunction = Callable[..., Any]


class Layout:
    """A map from the coordinates of a tile to offsets or coordinates in memory.

    `forward` takes one argument per dimension and gives an int expression, or a tuple of them, built with `+ - * // %`
    and `^ & << >>`.

    Raises:
        ProgramError: `forward` does not fit the shape, gives something other than integers, or puts two coordinates in
            one place.

    Example:
        `T.Layout((8, 8), lambda i, j: (i, j ^ i))`
    """

    def __init__(self, shape: Sequence[int] | int, forward: IndexFunction) -> None:
        extents = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        if not callable(forward):
            raise ProgramError(
                f"T.Layout: the index function is {forward!r:.40}",
                hint="write a lambda, as in T.Layout((8, 8), lambda i, j: i * 8 + j)",
            )
        for extent in extents:
            if isinstance(extent, bool) or not isinstance(extent, int | np.integer) or extent < 0:
                raise ProgramError(
                    f"T.Layout: extent {extent!r:.40} is not a constant", hint="a layout has a shape of plain ints"
                )
        self.shape: tuple[int, ...] = tuple(int(extent) for extent in extents)
        self.forward = forward
        self._check_injective()

    def __call__(self, *coordinates: Coordinate) -> tuple[Coordinate, ...]:
        """Where a coordinate lies, as a tuple.

        Raises:
            ProgramError: The number of coordinates differs from the rank.
        """
        if len(coordinates) != len(self.shape):
            raise ProgramError(f"T.Layout: has {len(self.shape)} dimensions, given {len(coordinates)} coordinates")
        place = self.forward(*coordinates)
        return tuple(place) if isinstance(place, tuple | list) else (place,)

    @cached_property
    def table(self) -> np.ndarray:
        """Where every coordinate lies.

        Shapes: (*shape, number of outputs).
        """
        grid = np.indices(self.shape, dtype=np.int64) if self.shape else np.zeros((0,), np.int64)
        try:
            places = self(*grid)
            table = np.stack([np.broadcast_to(np.asarray(p), self.shape) for p in places], axis=-1)
        except Exception:  # the function decides with Python's `if`, or calls `T.` functions: ask it one by one
            table = self._table_one_by_one()
        if table.dtype.kind not in "iu":
            raise ProgramError("T.Layout: the index function gives no integers", hint="divide with //, not with /")
        return table.astype(np.int64)

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The smallest box that holds all places."""
        if not self.table.size:
            return (0,) * int(self.table.shape[-1])
        return tuple(int(n) + 1 for n in self.table.reshape(-1, self.table.shape[-1]).max(axis=0))

    def _table_one_by_one(self) -> np.ndarray:
        try:
            rows = [self(*(int(c) for c in coordinate)) for coordinate in np.ndindex(*self.shape)]
            return np.asarray(rows).reshape(*self.shape, -1)
        except TileLangError:
            raise
        except Exception as error:
            raise ProgramError(
                f"T.Layout: the index function fails: {type(error).__name__}: {error}",
                hint=f"it takes {len(self.shape)} ints and gives an int or a tuple of them",
            ) from None

    def _check_injective(self) -> None:
        places = self.table.reshape(math.prod(self.shape), self.table.shape[-1])
        if not len(places):
            return
        if places.min() < 0:
            where = np.unravel_index(int(places.min(axis=1).argmin()), self.shape)
            raise ProgramError(f"T.Layout: {_coordinate(where)} lies at a negative place")
        if _are_distinct(places):
            return
        _, first, inverse, counts = np.unique(
            places, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        doubled = int(np.argmax(counts > 1))
        one, other = np.flatnonzero(inverse.reshape(-1) == doubled)[:2]
        raise ProgramError(
            f"T.Layout: {_coordinate(np.unravel_index(one, self.shape))} and "
            f"{_coordinate(np.unravel_index(other, self.shape))} lie in one place, {tuple(map(int, places[one]))}",
            hint="a layout gives every coordinate a place of its own",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self.shape == other.shape and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.shape, self.table.tobytes()))

    def __repr__(self) -> str:
        return f"Layout({self.shape} -> {self.output_shape})"


def _are_distinct(places: np.ndarray) -> bool:
    """Whether no two rows are equal. Shapes: places (n, rank), not negative."""
    box = [int(n) + 1 for n in places.max(axis=0)]
    if math.prod(box) > 64 * len(places) + 4096:  # too sparse to count
        return len(np.unique(places, axis=0)) == len(places)
    flat = np.ravel_multi_index(tuple(places.T), tuple(box)) if box else np.zeros(len(places), np.int64)
    return int(np.bincount(flat).max()) <= 1


def _coordinate(coordinate: Sequence[Any]) -> str:
    return f"({', '.join(str(int(c)) for c in coordinate)})"


def make_linear_layout(buffer: Any) -> Layout:
    """The row-major layout of a buffer: the last dimension's neighbors lie side by side.

    Shapes: (e0, ..., en) -> offset.
    """
    shape = static_shape(buffer, "make_linear_layout")

    def offset(*coordinates: Coordinate) -> Coordinate:
        place: Coordinate = 0
        for coordinate, extent in zip(coordinates, shape, strict=True):
            place = place * extent + coordinate
        return place

    return Layout(shape, offset)


def static_shape(buffer: Any, what: str) -> tuple[int, ...]:
    """The constant extents of anything with a `shape`.

    Raises:
        ProgramError: It has none, or they are not constant.
    """
    shape = getattr(buffer, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(extent, int) for extent in shape):
        raise ProgramError(f"{what}: needs a buffer of constant shape", hint="pass a buffer of T.alloc_shared")
    return shape
