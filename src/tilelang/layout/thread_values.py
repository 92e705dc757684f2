"""`Fragment`: a tile distributed over the registers of a group of threads (a thread-value layout, as in CuTe).

Takes digits of the thread index and of the value index, gives a map (thread, value) -> coordinate. Invariant: every
coordinate of the tile is owned by at least one thread; a fragment may cover more than the tile, and elements beyond its
extents are padding.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.layout.digits import DigitMap, Mode, coalesced, unit
from tilelang.records import record


@record
class Fragment:
    """A distribution of a tile: the coordinate of each value of each thread.

    Threads are counted from 0 within the group that holds the tile. A thread digit of stride 0 is a broadcast: threads
    that differ only in it hold the same elements.

    Attributes:
        shape: The extents of the tile.
        thread: Digits of the thread index, least significant first; the product of their sizes is the number of
            threads.
        value: Digits of the value index, least significant first; the product of their sizes is the values per thread.
    """

    shape: tuple[int, ...]
    thread: tuple[Mode, ...]
    value: tuple[Mode, ...]

    @cached_property
    def map(self) -> DigitMap:
        """The map (thread, value) -> coordinate."""
        return DigitMap((self.thread or (self._idle,), self.value or (self._idle,)), self.shape)

    @property
    def _idle(self) -> Mode:
        return Mode(1, (0,) * len(self.shape))

    @cached_property
    def threads(self) -> int:
        """Threads in the group."""
        return math.prod(mode.size for mode in self.thread)

    @cached_property
    def values(self) -> int:
        """Values per thread, including padding."""
        return math.prod(mode.size for mode in self.value)

    @cached_property
    def replication(self) -> int:
        """The number of threads that hold each element."""
        return math.prod(mode.size for mode in self.thread if mode.is_broadcast)

    @cached_property
    def cover(self) -> tuple[int, ...]:
        """The extents that the digits cover, at least those of the tile."""
        reach = [1] * len(self.shape)
        for mode in (*self.thread, *self.value):
            for axis, stride in enumerate(mode.stride):
                reach[axis] += (mode.size - 1) * stride
        return tuple(reach)

    @property
    def table(self) -> np.ndarray:
        """The coordinate of every value of every thread.

        Shapes: (threads, values, rank).
        """
        return self.map.table

    @cached_property
    def places(self) -> tuple[np.ndarray, ...]:
        """The same by dimension of the tile: an index that takes from a tile what every thread holds of it.

        Shapes: (threads, values) each.
        """
        return tuple(np.moveaxis(self.table, -1, 0))

    def coordinates(self, thread: Any, value: Any) -> tuple[Any, ...]:
        """The coordinate of a value of a thread, as ints, arrays or expressions like the input."""
        return self.map(thread, value)

    @cached_property
    def owners(self) -> DigitMap:
        """The map coordinate -> (thread, value), for the first replica.

        Raises:
            NotDigitMap: The digits have gaps or overlap.
        """
        return self.map.inverse()

    def owner(self, *coordinate: Any) -> tuple[Any, Any]:
        """The first thread that holds an element, and the value index of the element."""
        thread, value = self.owners(*coordinate)
        return thread, value

    @cached_property
    def normalized(self) -> Fragment:
        """The fragment with the same owners whose values are numbered along the last dimension first.

        Digits are coalesced, and value digits of stride 0 are dropped.
        """
        rank = len(self.shape)
        moving = [mode for mode in self.value if not mode.is_broadcast]

        def place(mode: Mode) -> tuple[int, int]:
            axis = next(axis for axis in reversed(range(rank)) if mode.stride[axis])
            return -axis, mode.stride[axis]

        return Fragment(self.shape, coalesced(self.thread), coalesced(sorted(moving, key=place)))

    @cached_property
    def first_thread(self) -> np.ndarray:
        """The first thread that holds each element.

        Shapes: the tile's.

        Raises:
            NotDigitMap: The digits leave gaps or overlap.
        """
        thread, _ = self.owners(*np.indices(self.shape, dtype=np.int64, sparse=True))
        return np.broadcast_to(np.asarray(thread, np.int64), self.shape)

    @cached_property
    def copies(self) -> np.ndarray:
        """The thread offsets of the replicas of an element from the first one, which is included.

        Shapes: (replication,).
        """
        steps = np.zeros(1, np.int64)
        stride = 1
        for mode in self.thread:
            if mode.is_broadcast:
                steps = (steps[None, :] + stride * np.arange(mode.size)[:, None]).reshape(-1)
            stride *= mode.size
        return steps

    def first_copy(self, thread: Any) -> Any:
        """The first thread with the same elements as this one, as int, array or expression like the input."""
        first: Any = 0
        stride = 1
        for mode in self.thread:
            value, thread = thread % mode.size, thread // mode.size
            if not mode.is_broadcast:
                first = first + value * stride
            stride *= mode.size
        return first

    def holds(self, other: Fragment) -> bool:
        """Whether every thread that holds an element of `other` holds that element in this fragment as well."""
        if self.shape != other.shape or self.threads != other.threads:
            return False
        if self.thread == other.thread and self._value_digits == other._value_digits:
            return True
        return _holds(self, other)

    def same_owners(self, other: Fragment) -> bool:
        """Whether every element is held by the same threads in both; the order of values may differ."""
        return self.replication == other.replication and self.holds(other)

    @property
    def _value_digits(self) -> frozenset[Mode]:
        return frozenset(mode for mode in self.value if not mode.is_broadcast)

    def __repr__(self) -> str:
        digits = ", ".join(f"{mode.size}:{mode.stride}" for mode in self.thread)
        values = ", ".join(f"{mode.size}:{mode.stride}" for mode in self.value)
        return f"Fragment({self.shape}, thread=[{digits}], value=[{values}])"


@functools.lru_cache(maxsize=1024)
def _holds(held: Fragment, other: Fragment) -> bool:
    """Whether the threads with an element of `other` have it in `held`, by enumeration."""
    theirs = other.first_thread[..., None] + other.copies
    return bool((held.first_copy(theirs) == held.first_thread[..., None]).all())


def digit(size: int, *stride: int) -> Mode:
    """A digit: `digit(8, 1, 0)` has 8 values with stride 1 along dimension 0."""
    return Mode(size, stride)


def fragment(shape: Sequence[int], thread: Sequence[Mode], value: Sequence[Mode]) -> Fragment:
    """A fragment from its digits, least significant first; digits of size 1 are dropped."""
    drop = [tuple(mode for mode in modes if mode.size > 1) for modes in (thread, value)]
    return Fragment(tuple(shape), drop[0], drop[1])


def over_threads(layout: Fragment, threads: int) -> Fragment | None:
    """A fragment extended to more threads, which hold replicas or padding.

    None if it has more threads than these, or if the additional threads would hold elements of others.
    """
    if threads % layout.threads == 0:
        others = Mode(threads // layout.threads, (0,) * len(layout.shape))
        return layout if others.size == 1 else dataclasses.replace(layout, thread=(*layout.thread, others))
    *inner, last = layout.thread
    size, rest = divmod(threads, layout.threads // last.size)
    ends = all(not step or step * last.size >= extent for step, extent in zip(last.stride, layout.shape, strict=True))
    if rest or size < last.size or not ends:
        return None
    return dataclasses.replace(layout, thread=(*inner, Mode(size, last.stride)))


def replicated(shape: Sequence[int], threads: int) -> Fragment:
    """The fragment of which every thread holds all elements, in row-major order."""
    rank = len(shape)
    value = []
    for axis in reversed(range(rank)):
        value.append(Mode(shape[axis], unit(rank, axis)))
    return fragment(shape, [Mode(threads, (0,) * rank)], value)
