"""`Fragment`: a tile spread over the registers of a group of threads.

Takes digits of the thread index and of the value index, gives a map (thread, value) -> coordinate. Invariant: every
coordinate of the tile is owned by at least one thread; a fragment may cover more than the tile, and what lies beyond
the tile's extents is never stored anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.layout.digits import DigitMap, Mode


@dataclass(frozen=True)
class Fragment:
    """Which thread holds which elements of a tile, and at which place among its values.

    Threads are counted from 0 within the group that holds the tile. A thread digit of stride 0 means copies: threads
    that differ only there hold the same elements.

    Attributes:
        shape: The tile's extents.
        thread: Digits of the thread index, least significant first; their sizes multiply to the number of threads.
        value: Digits of the value index, least significant first; their sizes multiply to the values a thread holds.
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

    @property
    def threads(self) -> int:
        """Threads in the group."""
        return math.prod(mode.size for mode in self.thread)

    @property
    def values(self) -> int:
        """Values that each thread holds, those beyond the tile included."""
        return math.prod(mode.size for mode in self.value)

    @property
    def replication(self) -> int:
        """How many threads hold each element."""
        return math.prod(mode.size for mode in self.thread if mode.is_idle)

    @cached_property
    def cover(self) -> tuple[int, ...]:
        """The extents that the digits reach, at least those of the tile."""
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

    def coordinates(self, thread: Any, value: Any) -> tuple[Any, ...]:
        """The coordinate of a value of a thread: ints, arrays or expressions, as those given."""
        return self.map(thread, value)

    @cached_property
    def owners(self) -> DigitMap:
        """The map coordinate -> (thread, value), for the first of the copies.

        Raises:
            NotDigits: The digits leave gaps or overlap.
        """
        return self.map.inverse()

    def owner(self, *coordinate: Any) -> tuple[Any, Any]:
        """The first thread that holds an element, and the element's place among its values."""
        thread, value = self.owners(*coordinate)
        return thread, value

    def __repr__(self) -> str:
        digits = ", ".join(f"{mode.size}:{mode.stride}" for mode in self.thread)
        values = ", ".join(f"{mode.size}:{mode.stride}" for mode in self.value)
        return f"Fragment({self.shape}, thread=[{digits}], value=[{values}])"


def digit(size: int, *stride: int) -> Mode:
    """A digit, as one writes it in tables: `digit(8, 1, 0)` has 8 values that step along dimension 0."""
    return Mode(size, stride)


def fragment(shape: Sequence[int], thread: Sequence[Mode], value: Sequence[Mode]) -> Fragment:
    """A fragment from its digits, least significant first; digits of one value are left out."""
    drop = [tuple(mode for mode in modes if mode.size > 1) for modes in (thread, value)]
    return Fragment(tuple(shape), drop[0], drop[1])


def replicated(shape: Sequence[int], threads: int) -> Fragment:
    """The fragment of which every thread holds all elements, in row-major order."""
    rank = len(shape)
    value = []
    for axis in reversed(range(rank)):
        value.append(Mode(shape[axis], tuple(1 if k == axis else 0 for k in range(rank))))
    return fragment(shape, [Mode(threads, (0,) * rank)], value)
