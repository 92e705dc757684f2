"""The elements that the threads of a block access, enumerated for all of them.

Takes tables of first elements per thread, gives `Elements`, or None where they are too many. Invariant: all elements of
all threads are in them, with the thread of each.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tilelang.records import record

MANY = 1 << 17  # elements that are enumerated


@record(slots=True)
class Elements:
    """The elements that all threads access: a box for each thread and combination of free variables.

    Attributes:
        starts: The first element of each box, of shape (boxes, dimensions).
        extents: The elements of a box per dimension, of shape (dimensions,).
        threads: The thread of each box, in ascending order.
    """

    starts: np.ndarray
    extents: np.ndarray
    threads: np.ndarray

    def moved(self, distance: int) -> Elements:
        """The same elements at a distance along every dimension."""
        return dataclasses.replace(self, starts=self.starts + distance)

    def ends(self) -> np.ndarray:
        """One more than the largest index per dimension."""
        largest: np.ndarray = self.starts.max(axis=0) + self.extents
        return largest

    def last(self) -> np.ndarray:
        """The last element of the last box."""
        element: np.ndarray = self.starts[-1] + self.extents - 1
        return element

    def owners_of(self, element: np.ndarray) -> np.ndarray:
        """The threads that access an element."""
        in_box = (self.starts <= element) & (element < self.starts + self.extents)
        owners: np.ndarray = self.threads[in_box.all(axis=1)]
        return owners

    def numbered(self, low: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Linear indices of all elements, box by box."""
        box = np.indices(self.extents.tolist())  # one that starts at 0
        inside = box.reshape(len(self.extents), math.prod(self.extents))
        numbers: np.ndarray = np.add.outer((self.starts - low) @ weights, weights @ inside)
        return numbers.reshape(-1)

    def owners(self) -> np.ndarray:
        """The threads of all elements, box by box."""
        return np.repeat(self.threads, math.prod(self.extents))


def enumerated(starts: list[np.ndarray], extents: list[int], mask: np.ndarray | None, threads: int) -> Elements | None:
    """All elements that each thread accesses; None if there are too many.

    Args:
        starts: The first element of each box in each dimension, of shape (threads, combinations).
        extents: The elements of a box per dimension.
        mask: Which boxes are accessed, of the same shape; all of them without it.
        threads: How many there are.
    """
    (width,) = np.broadcast_shapes((1,), *(s.shape[1:] for s in starts), () if mask is None else mask.shape[1:])
    if threads * width > MANY:
        return None
    owner = np.broadcast_to(np.arange(threads)[:, None], (threads, width)).reshape(-1)
    keep = slice(None) if mask is None else np.broadcast_to(mask, (threads, width)).reshape(-1)
    owner = owner[keep]
    if len(owner) * math.prod(extents) > MANY:
        return None
    spread = [np.broadcast_to(s, (threads, width)).reshape(-1)[keep] for s in starts]
    positions = np.stack(spread, axis=-1).astype(np.int64) if spread else np.zeros((len(owner), 0), np.int64)
    return Elements(positions, np.array(extents, np.int64), owner)


def share_elements(mine: Elements, other: Elements, subgroup_size: int) -> bool:
    """Whether threads of different subgroups of `subgroup_size` neighbors share an element."""
    if not len(mine.threads) or not len(other.threads):
        return False
    for one, another in ((mine, other), (other, mine)):  # of most that share any, they share the last one
        if (another.owners_of(one.last()) // subgroup_size != one.threads[-1] // subgroup_size).any():
            return True
    low = np.minimum(mine.starts.min(axis=0), other.starts.min(axis=0))
    size = np.maximum(mine.ends(), other.ends()) - low
    weights = np.concatenate([np.cumprod(size[::-1])[::-1][1:], [1]]) if len(size) else size
    positions, other_positions = mine.numbered(low, weights), other.numbered(low, weights)
    count = int(size.prod())
    if count > MANY * 4:  # renumber the positions that occur
        used, closer = np.unique(np.concatenate([positions, other_positions]), return_inverse=True)
        positions, other_positions, count = closer[: len(positions)], closer[len(positions) :], len(used)
    first, last = _owners(positions, mine.owners() // subgroup_size, count)
    other_first, other_last = _owners(other_positions, other.owners() // subgroup_size, count)
    single_thread = (first == last) & (other_first == other_last) & (first == other_first)
    return bool(((first >= 0) & (other_first >= 0) & ~single_thread).any())


def _owners(positions: np.ndarray, threads: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last thread at each position, -1 where there is none; `threads` ascend."""
    first, last = np.full(count, -1), np.full(count, -1)
    first[positions[::-1]] = threads[::-1]  # the last assignment to a position wins
    last[positions] = threads
    return first, last
