"""The default (blocked) layout of a loop nest: consecutive threads along the last dimension, a vector per thread.

Takes extents, a number of threads and a vector width, gives a `Fragment`. Invariant: every coordinate is covered;
coverage beyond the extents is the least that keeps accesses coalesced, and no vector is partly out of bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from tilelang.layout.digits import Mode, unit
from tilelang.layout.thread_values import Fragment, fragment

LINE_BYTES = 128
"""The optimal bytes of a request of a warp. Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global
Memory": accesses of a warp become as many transactions of 32 bytes as are needed, four of which make a cache line."""

_HALVING = 1.25  # cost factor per halving of the contiguous bytes of a request, below one line


def blocked(
    extents: Sequence[int],
    threads: int,
    vector: int = 1,
    *,
    warp_size: int,
    bytes_per_element: int = 4,
    copies: bool = True,
    row_threads: int | None = None,
) -> Fragment:
    """A coalesced layout of a nest over a group of threads.

    Args:
        extents: The extents of the nest.
        threads: The number of threads of the group.
        vector: Consecutive elements along the last dimension per thread; divides its extent.
        warp_size: Threads of a warp.
        bytes_per_element: Size of the accessed elements, for coalescing.
        copies: Whether idle threads replicate elements of others if possible; otherwise they are placed beyond the
            extents.
        row_threads: Threads along the last dimension; chosen by cost if None.

    Shapes: (threads, values) -> extents.
    """
    return _blocked(tuple(extents), threads, vector, warp_size, bytes_per_element, copies, row_threads)


@functools.lru_cache(maxsize=1024)
def _blocked(
    extents: tuple[int, ...],
    threads: int,
    vector: int,
    warp_size: int,
    size: int,
    copies: bool,
    row_threads: int | None,
) -> Fragment:
    rank = len(extents)
    if rank == 0:
        return fragment((), [Mode(threads, ())], [])
    units = (*extents[:-1], -(-extents[-1] // vector))
    splits = [split for split in _splits(units, threads) if row_threads in (None, split[-1])]
    splits = splits or list(_splits(units, threads))
    counts = min(splits, key=lambda split: _cost(split, units, threads, vector, warp_size, size))
    idle = threads // math.prod(counts)
    reach = [vector * counts[axis] if axis == rank - 1 else counts[axis] for axis in range(rank)]
    thread = [Mode(counts[axis], unit(rank, axis, vector if axis == rank - 1 else 1)) for axis in reversed(range(rank))]
    # idle threads are placed beyond the first dimension if nothing else is, so that one comparison masks them
    rounds = [-(-extents[axis] // reach[axis]) for axis in range(rank)]
    beyond = not copies and idle > 1
    thread.append(Mode(idle, unit(rank, 0, reach[0] * rounds[0]) if beyond else (0,) * rank))
    value = [Mode(vector, unit(rank, rank - 1))]
    value += [Mode(rounds[axis], unit(rank, axis, reach[axis])) for axis in reversed(range(rank))]
    return fragment(extents, thread, value)


def _splits(units: Sequence[int], threads: int) -> Iterator[tuple[int, ...]]:
    """Possible numbers of threads per dimension: divisors that leave at most half of a dimension idle."""
    if not units:
        yield ()
        return
    for count in _divisors(threads):
        if count == 1 or count < 2 * units[-1]:
            for rest in _splits(units[:-1], threads // count):
                yield (*rest, count)


def row_variants(
    extents: Sequence[int],
    threads: int,
    vector: int,
    *,
    warp_size: int,
    bytes_per_element: int = 4,
) -> tuple[Fragment, ...]:
    """Alternative layouts of a nest, equally coalesced, with other numbers of threads per row and without copies."""
    if not extents:
        return ()
    layout_with = functools.partial(
        blocked, extents, threads, vector, warp_size=warp_size, bytes_per_element=bytes_per_element, copies=False
    )
    best = layout_with()
    found = []
    for count in _divisors(threads):
        run = count * vector
        if run * bytes_per_element >= min(LINE_BYTES, extents[-1] * bytes_per_element) and count <= 2 * warp_size:
            layout = layout_with(row_threads=count)
            if layout != best and layout.values <= best.values and layout not in found:
                found.append(layout)
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, number + 1) if number % n == 0)


def _cost(
    counts: tuple[int, ...], units: tuple[int, ...], threads: int, vector: int, warp_size: int, size: int
) -> tuple[float, int, int, tuple[int, ...]]:
    """The cost of a distribution: rounds of the threads, weighted by their coalescing."""
    rounds = math.prod(-(-extent // count) for extent, count in zip(units, counts, strict=True))
    row = min(LINE_BYTES, units[-1] * vector * size)
    run = min(row, counts[-1] * vector * size)
    coalescing = _HALVING ** math.log2(row / run) if run else 1.0
    # among equals: a row for one warp, so that what is folded along rows stays in it; then longer rows; fewer idle
    return (rounds * coalescing, abs(min(counts[-1], threads) - min(warp_size, threads)), -math.prod(counts), counts)
