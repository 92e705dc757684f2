"""`T.Fragment`: which thread holds which element of a tile, as a user writes it, by functions of the coordinate.

Takes index functions, gives a `Layout` whose places are those among a thread's values, with a map to threads beside it.
Invariant: a fragment never changes. Whoever gives a buffer a fragment takes its digits, `thread_values`, which agree
with the functions for every element and every copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, TileLangError
from tilelang.layout.digits import NotDigitMap
from tilelang.layout.fit import fit, fragment_of_owners
from tilelang.layout.layout import (
    Coordinate,
    Layout,
    checked_extents,
    inverse_of,
    leading_extents,
    linearized,
    number,
    reshaping,
)
from tilelang.layout.symbols import symbols
from tilelang.layout.thread_values import Fragment as ThreadValues

_HINT = "write T.Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2)), or two functions"


@public
class Fragment(Layout):
    """Which thread holds which element of a tile, and at which place among its values.

    As a layout it leads a coordinate to the place.

    Args:
        shape: The tile's extents.
        forward_fn: Gives (thread, place) of an element.
        forward_thread_fn: Gives the thread alone.
        replicate: How many threads hold each element. With more than one, `forward_fn` and `forward_thread_fn` take
            the number of the copy as a last argument.
        forward_index_fn: Gives the place; without it a thread's elements lie in row-major order.

    Raises:
        ProgramTypeError: The functions do not fit the shape or give something else.
        ProgramError: They give something other than integers.

    Example:
        `T.annotate_layout({C_f: T.Fragment((64, 64), lambda i, j: (j // 4 + i % 8 * 16, i // 8 * 4 + j % 4))})`
    """

    def __init__(
        self,
        shape: Sequence[int] | int,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.shape = checked_extents("T.Fragment", shape)
        for extent in (*self.shape, replicate):
            if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
                raise ProgramTypeError(f"T.Fragment: {extent!r:.40} is not a positive int")
        if (forward_fn is None) == (forward_thread_fn is None):
            raise ProgramTypeError("T.Fragment: needs either forward_fn or forward_thread_fn", hint=_HINT)
        for function in (forward_fn, forward_thread_fn, forward_index_fn):
            if function is not None and not callable(function):
                raise ProgramTypeError(f"T.Fragment: {function!r:.40} is no function of indices", hint=_HINT)
        self.replicate_size = replicate
        self._both = forward_fn
        self._thread = forward_thread_fn
        self._index = forward_index_fn
        self.forward = self._place
        origin = (0,) * len(self.shape)
        self.map_forward_thread((*origin, 0))
        if self._both is not None or self._index is not None:
            self._place(*origin)

    def map_forward_thread(self, indices: Sequence[Coordinate]) -> Coordinate:
        """The thread that holds an element; with copies, the number of the copy is the last index (0 without it)."""
        at = tuple(indices)
        if len(at) == len(self.shape):
            at = (*at, 0)
        if len(at) != len(self.shape) + 1:
            raise ProgramError(f"T.Fragment: has {len(self.shape)} dimensions, given {len(at) - 1} coordinates")
        return self._pair(at)[0] if self._both is not None else self._called(self._thread, self._arguments(at))

    @property
    def thread(self) -> Any:
        """The thread that holds the element which `get_forward_vars` name, as an expression."""
        simplifier, copies = symbols(), self.replicate_size > 1
        variables = (*self._variables, self._copy) if copies else self._variables
        extents = (*self.shape, self.replicate_size) if copies else self.shape
        return simplifier.simplified(self.map_forward_thread((*self._variables, self._copy)), variables, extents)

    def get_thread_size(self) -> int:
        """The number of threads: one more than the largest that holds anything."""
        return int(self.thread_table.max()) + 1

    def get_forward_vars(self) -> tuple[Any, ...]:
        """The variables of `get_forward_index` and `thread`; where there are copies, the last one is its number."""
        return (*self._variables, self._copy) if self.replicate_size > 1 else self._variables

    @cached_property
    def _copy(self) -> Any:
        return symbols().variables(["_rep"])[0] if self.replicate_size > 1 else 0

    @cached_property
    def thread_table(self) -> np.ndarray:
        """The threads that hold each element.

        Shapes: (*shape, copies).
        """
        full = (*self.shape, self.replicate_size)
        return _table(full, lambda *at: self.map_forward_thread(at))[..., 0]

    @cached_property
    def table(self) -> np.ndarray:
        """The place of every element among its thread's values.

        Shapes: (*shape, number of outputs).
        """
        if self._both is not None or self._index is not None:
            return _table(self.shape, self._place)
        first = self.thread_table[..., 0].reshape(-1)
        order = np.argsort(first, kind="stable")
        begins = np.searchsorted(first[order], first[order])
        offsets = np.empty(math.prod(self.shape), np.int64)
        offsets[order] = np.arange(len(order)) - begins
        return offsets.reshape(*self.shape, 1)

    @cached_property
    def thread_values(self) -> ThreadValues:
        """The same as digits, which lowerings compute with; threads count from the first that holds anything.

        Raises:
            ProgramValueError: The functions are not made of quotients, remainders and multiples of the coordinates, or
                put two elements in one place, or copies are not evenly spaced.
        """
        thread = self.thread_table - self.thread_table.min()
        offsets = linearized(list(np.moveaxis(self.table, -1, 0)), self.output_shape)
        count = int(thread.max()) + 1
        found = fit(np.stack([thread[..., 0], offsets], axis=-1), (count, int(offsets.max()) + 1))
        try:
            if found is None:
                raise NotDigitMap("its functions are no sums of quotients, remainders and multiples of the coordinates")
            layout = fragment_of_owners(found, count)
            if not _agrees(layout, thread):
                raise NotDigitMap("copies of an element are not evenly spaced, or not where the first function says")
        except NotDigitMap as error:
            raise ProgramValueError(f"T.Fragment: {error}", hint=_HINT) from None
        return layout

    def repeat(  # type: ignore[override]  # tiles in all dimensions at once: published programs call it so
        self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True
    ) -> Fragment:
        """The fragment of `repeats` tiles per dimension.

        Args:
            repeats: How many, per dimension.
            repeat_on_thread: Each tile has threads of its own; otherwise each thread holds as much of every tile.
            lower_dim_first: Tiles are counted along the last dimension first; otherwise along the first one.

        Raises:
            ProgramValueError: The number of factors is not the rank, or one is below 1.
        """
        factors = tuple(repeats) if isinstance(repeats, list | tuple) else ()
        rank, shape = len(self.shape), self.shape
        if len(factors) != rank or not all(isinstance(f, int | np.integer) and f > 0 for f in factors):
            raise ProgramValueError(f"Fragment.repeat: needs {rank} positive ints, given {repeats!r:.60}")
        values, threads = math.prod(self.output_shape), self.get_thread_size()

        def tile(at: Sequence[Coordinate]) -> Coordinate:
            numbers = [c // e for c, e in zip(at, shape, strict=True)]
            if not lower_dim_first:
                return linearized(numbers[::-1], factors[::-1])
            return linearized(numbers, factors)

        def inner(at: Sequence[Coordinate]) -> tuple[Coordinate, ...]:
            return tuple(c % e for c, e in zip(at, shape, strict=True))

        def thread(*at: Coordinate) -> Coordinate:
            own = self.map_forward_thread((*inner(at[:rank]), *at[rank:]))
            return tile(at[:rank]) * threads + own if repeat_on_thread else own

        def place(*at: Coordinate) -> Coordinate:
            own = linearized(self(*inner(at)), self.output_shape)
            return own if repeat_on_thread else tile(at) * values + own

        extents = tuple(int(f) * e for f, e in zip(factors, shape, strict=True))
        return Fragment(extents, None, thread, self.replicate_size, place)

    def replicate(self, replicate: int) -> Fragment:
        """The same tile held once more by each further group of as many threads.

        Raises:
            ProgramValueError: The number is below 1.
        """
        if isinstance(replicate, bool) or not isinstance(replicate, int | np.integer) or replicate < 1:
            raise ProgramValueError(f"Fragment.replicate: {replicate!r:.40} is not a positive int")
        threads, before, rank = self.get_thread_size(), self.replicate_size, len(self.shape)

        def thread(*at: Coordinate) -> Coordinate:
            copy = at[rank] if len(at) > rank else 0
            return copy // before * threads + self.map_forward_thread((*at[:rank], copy % before))

        return Fragment(self.shape, None, thread, before * int(replicate), self)

    def condense_rep_var(self) -> Fragment:
        """The same fragment without the copies that are on threads which have the element already."""
        threads = self.thread_table
        lines = threads.reshape(-1, self.replicate_size)
        _, first = np.unique(lines, axis=1, return_index=True)
        kept = np.sort(first)
        if len(kept) == self.replicate_size:
            return self
        digits = fit(kept[:, None], (self.replicate_size,))
        if digits is None:
            return self

        def thread(*at: Coordinate) -> Coordinate:
            copy = digits(at[-1])[0] if len(kept) > 1 else 0
            return self.map_forward_thread((*at[: len(self.shape)], copy))

        return Fragment(self.shape, None, thread, len(kept), self)

    def expand(self, leading: int | Sequence[int]) -> Layout:
        """The fragment of a tile with further leading dimensions, of which each thread holds all."""
        extents = leading_extents(leading)
        if not extents:
            return self
        count = len(extents)
        return Fragment(
            (*extents, *self.shape),
            None,
            lambda *at: self.map_forward_thread(at[count:]),
            self.replicate_size,
            lambda *at: (*at[:count], *self(*at[count:])),
        )

    def reshape(self, shape: Sequence[Any], rescale_num: int = 1, rescale_den: int = 1) -> Layout:
        """The fragment of the same bytes under another shape; arguments and errors of `Layout.reshape`."""
        from_old, grow, join = reshaping("Fragment.reshape", self.shape, shape, rescale_num, rescale_den)
        if join > 1:
            self._check_joins(join)
        rank = len(checked_extents("Fragment.reshape", shape))

        def thread(*at: Coordinate) -> Coordinate:
            return self.map_forward_thread((*from_old(at[:rank])[0], *at[rank:]))

        def place(*at: Coordinate) -> tuple[Coordinate, ...]:
            old, within = from_old(at)
            *outer, last = self(*old)
            return (*outer, last * grow + within if grow > 1 else last // join if join > 1 else last)

        return Fragment(tuple(shape), None, thread, self.replicate_size, place)

    def _check_joins(self, count: int) -> None:
        threads = self.thread_table.reshape(-1, count, self.replicate_size)
        places = self.table.reshape(-1, count, self.table.shape[-1])[..., -1]
        together = (places == places[:, :1] + np.arange(count)).all() and not (places[:, 0] % count).any()
        if not together or (threads != threads[:, :1]).any():
            raise ProgramValueError(f"Fragment.reshape: {count} neighbors that a wider element is made of lie apart")

    def inverse(self) -> Layout:
        """From (place, thread) back to the coordinate and the number of the copy.

        Shapes: (*places, threads) -> (*coordinate, copy).

        Raises:
            ProgramValueError: Some thread holds nothing at some place, or two elements are in one.
        """
        places = np.broadcast_to(self.table[..., None, :], (*self.thread_table.shape, self.table.shape[-1]))
        table = np.concatenate([places, self.thread_table[..., None]], axis=-1)
        return inverse_of("Fragment.inverse", table, (*self.output_shape, self.get_thread_size()))

    def _place(self, *at: Coordinate) -> tuple[Coordinate, ...]:
        if self._both is not None:
            given = self._pair((*at, 0))[1]
        elif self._index is not None:
            given = self._called(self._index, at)
        else:
            given = self._derived(at)
        places = tuple(given) if isinstance(given, tuple | list) else (given,)
        for place in places:
            _check_integer(place)
        return places

    def _derived(self, at: Sequence[Coordinate]) -> Coordinate:
        """The place that row-major order gives."""
        if not any(hasattr(c, "is_index") for c in at):
            return self.table[..., 0][tuple(at)]
        digits = fit(self.table, self.output_shape)
        if digits is None:
            raise ProgramValueError(
                "T.Fragment: the places that follow from the threads are no sum of quotients and remainders",
                hint="say them with forward_index_fn",
            )
        return digits(*at)[0]

    def _pair(self, at: Sequence[Coordinate]) -> tuple[Coordinate, Coordinate]:
        given = self._called(self._both, self._arguments(at))
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ProgramTypeError("T.Fragment: forward_fn gives a pair, the thread and the place", hint=_HINT)
        return given[0], given[1]

    def _arguments(self, at: Sequence[Coordinate]) -> Sequence[Coordinate]:
        """Return the leading arguments of a function of the copies: their number, only if there are several."""
        return at if self.replicate_size > 1 else at[:-1]

    def _called(self, function: Any, coordinates: Sequence[Coordinate] = ()) -> Any:  # type: ignore[override]
        try:
            given = function(*coordinates)
        except TileLangError:
            raise
        except Exception as error:
            if any(isinstance(c, np.ndarray) for c in coordinates):
                raise  # callers with arrays try again with numbers
            message = f"T.Fragment: a function fails: {type(error).__name__}: {error}"
            raise ProgramTypeError(message, hint=_HINT) from None
        if function is self._thread:
            _check_integer(given)
        return given

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fragment):
            return NotImplemented
        return (
            self.shape == other.shape
            and np.array_equal(self.thread_table, other.thread_table)
            and np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.table.tobytes(), self.thread_table.tobytes()))

    def __repr__(self) -> str:
        size = f"replicate={self.replicate_size}, threads={self.get_thread_size()}"
        return f"Fragment({self.shape} -> {self.output_shape}, {size})"


def _table(shape: tuple[int, ...], function: Callable[..., Any]) -> np.ndarray:
    """Evaluate a function at every coordinate. Shapes: (*shape, number of outputs)."""
    try:
        columns = _outputs(function(*np.indices(shape, dtype=np.int64)))
        table = np.stack([np.broadcast_to(np.asarray(number(column)), shape) for column in columns], axis=-1)
    except Exception:  # the function decides with Python's `if`, or calls `T.` functions: ask it one by one
        rows = [_outputs(function(*map(int, at))) for at in np.ndindex(*shape)]
        table = np.asarray([[int(number(place)) for place in row] for row in rows]).reshape(*shape, -1)
    if table.dtype.kind not in "iu" or table.min() < 0:
        raise ProgramError("T.Fragment: a function gives something other than integers from 0 on", hint=_HINT)
    return table.astype(np.int64)


def _outputs(given: Any) -> Sequence[Any]:
    return given if isinstance(given, tuple | list) else (given,)


def _check_integer(given: Any) -> None:
    if not isinstance(given, int | np.integer | np.ndarray) and not hasattr(given, "is_index"):
        raise ProgramError("T.Fragment: a function gives something other than integers from 0 on", hint=_HINT)


def _agrees(layout: ThreadValues, threads: np.ndarray) -> bool:
    """Whether a fragment has exactly the copies that were asked for. Shapes: threads (*shape, copies)."""
    if layout.replication != threads.shape[-1]:
        return False
    theirs = np.sort(layout.first_thread[..., None] + layout.copies, axis=-1)
    return bool((theirs == np.sort(threads, axis=-1)).all())


@public
def make_gemm_fragment_8x8() -> Fragment:
    """The fragment of an 8 x 8 tile over 32 threads as matrix instructions hold their results, two values each.

    Source: PTX ISA, "Matrix Fragments for mma.m16n8k16", of which it is the upper half of C.
    """
    return Fragment((8, 8), lambda i, j: (4 * i + j // 2, j % 2))


@public
def make_gemm_fragment_8x8_transposed() -> Fragment:
    """`make_gemm_fragment_8x8` with rows and columns exchanged."""
    return Fragment((8, 8), lambda i, j: (4 * j + i // 2, i % 2))


@public
def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> Fragment:
    """The fragment of which every thread holds all elements, in row-major order.

    Args:
        buffer: Anything with a constant `shape`, or the shape.
        threads: How many hold it.
    """
    shape = checked_extents("make_fully_replicated_layout_fragment", getattr(buffer, "shape", buffer))
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ProgramValueError(f"make_fully_replicated_layout_fragment: {threads!r:.40} is not a number of threads")

    def thread(*at: Coordinate) -> Coordinate:
        return at[-1] if threads > 1 else 0

    return Fragment(shape, None, thread, threads, lambda *at: linearized(at, shape))
