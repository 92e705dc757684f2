"""`T.Fragment`: a fragment as a user writes it, by functions from an element to its thread and to its place there.

Takes index functions, gives a `Fragment`. Invariant: the digits that are found agree with the functions for every
element and every copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.errors import ProgramError, TileLangError
from tilelang.layout import thread_values
from tilelang.layout.digits import NotDigits
from tilelang.layout.fit import fit, fragment_of_owners

_HINT = "write T.Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2)), or two functions"


def Fragment(
    shape: Sequence[int] | int,
    forward_fn: Callable[..., Any] | None = None,
    forward_thread_fn: Callable[..., Any] | None = None,
    replicate: int = 1,
    forward_index_fn: Callable[..., Any] | None = None,
) -> thread_values.Fragment:
    """Which thread holds which element of a tile, and at which place among its values.

    Args:
        shape: The tile's extents.
        forward_fn: Gives (thread, place) of an element.
        forward_thread_fn: Gives the thread alone.
        replicate: How many threads hold each element. With more than one, the functions take the number of the copy
            as a last argument.
        forward_index_fn: Gives the place; without it a thread's elements lie in row-major order.

    Raises:
        ProgramError: The functions do not fit the shape, are not made of quotients, remainders and multiples of the
            coordinates, or put two elements in one place.

    Example:
        `T.annotate_layout({C_f: T.Fragment((64, 64), lambda i, j: (j // 4 + i % 8 * 16, i // 8 * 4 + j % 4))})`
    """
    extents = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    for extent in (*extents, replicate):
        if isinstance(extent, bool) or not isinstance(extent, int | np.integer) or extent < 1:
            raise ProgramError(f"T.Fragment: {extent!r:.40} is not a positive int")
    if (forward_fn is None) == (forward_thread_fn is None):
        raise ProgramError("T.Fragment: needs either forward_fn or forward_thread_fn", hint=_HINT)
    thread, place = _tables(tuple(map(int, extents)), forward_fn, forward_thread_fn, replicate, forward_index_fn)
    count = int(thread.max()) + 1
    found = fit(np.stack([thread[..., 0], place], axis=-1), (count, int(place.max()) + 1))
    try:
        if found is None:
            raise NotDigits("its functions are no sums of quotients, remainders and multiples of the coordinates")
        layout = fragment_of_owners(found, count)
        if not _agrees(layout, thread):
            raise NotDigits("copies of an element are not evenly spaced, or not where the first function says")
    except NotDigits as error:
        raise ProgramError(f"T.Fragment: {error}", hint=_HINT) from None
    return layout


def _tables(
    shape: tuple[int, ...],
    forward_fn: Callable[..., Any] | None,
    forward_thread_fn: Callable[..., Any] | None,
    replicate: int,
    forward_index_fn: Callable[..., Any] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The threads of every element, and its place.

    Shapes: (*shape, replicate), (*shape).
    """
    both = forward_fn is not None
    threads = _values(forward_fn or forward_thread_fn, shape, replicate)
    if both:
        if len(threads) != 2:
            raise ProgramError("T.Fragment: forward_fn gives a pair, the thread and the place", hint=_HINT)
        return threads[0], threads[1][..., 0]
    if forward_index_fn is not None:
        places = _values(forward_index_fn, shape, 1)
        if len(places) == 1:
            return threads[0], places[0][..., 0]
        raise ProgramError("T.Fragment: forward_index_fn gives one number", hint=_HINT)
    first = threads[0][..., 0].reshape(-1)
    order = np.argsort(first, kind="stable")
    begins = np.searchsorted(first[order], first[order])
    place = np.empty(math.prod(shape), np.int64)
    place[order] = np.arange(len(order)) - begins
    return threads[0], place.reshape(shape)


def _values(function: Callable[..., Any] | None, shape: tuple[int, ...], replicate: int) -> list[np.ndarray]:
    """What a function gives for every element and copy. Shapes: (*shape, replicate) each."""
    assert function is not None
    full = (*shape, replicate)
    grid = np.indices(full if replicate > 1 else shape, dtype=np.int64)
    try:
        values = [np.asarray(value) for value in _outputs(function(*grid))]
    except Exception:  # the function decides with Python's `if`, or calls `T.` functions: ask it one by one
        values = _one_by_one(function, grid)
    values = [np.broadcast_to(v if replicate > 1 or not v.ndim else v[..., None], full) for v in values]
    if any(value.dtype.kind not in "iu" or value.min() < 0 for value in values):
        raise ProgramError("T.Fragment: a function gives something other than integers from 0 on", hint=_HINT)
    return values


def _outputs(given: Any) -> Sequence[Any]:
    return given if isinstance(given, tuple | list) else (given,)


def _one_by_one(function: Callable[..., Any], grid: np.ndarray) -> list[np.ndarray]:
    """What a function gives for plain numbers. Shapes: grid (rank, *extents) -> (*extents) each."""
    try:
        rows = [_outputs(function(*map(int, at))) for at in grid.reshape(len(grid), -1).T]
        return [np.asarray(column).reshape(grid.shape[1:]) for column in zip(*rows, strict=True)]
    except TileLangError:
        raise
    except Exception as error:
        raise ProgramError(f"T.Fragment: a function fails: {type(error).__name__}: {error}", hint=_HINT) from None


def _agrees(layout: thread_values.Fragment, threads: np.ndarray) -> bool:
    """Whether a fragment has exactly the copies that were asked for. Shapes: threads (*shape, copies)."""
    if layout.replication != threads.shape[-1]:
        return False
    theirs = np.sort(layout.first_thread[..., None] + layout.copies, axis=-1)
    return bool((theirs == np.sort(threads, axis=-1)).all())
