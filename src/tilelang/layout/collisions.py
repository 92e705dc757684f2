"""Injectivity of a map given by its table: finds two coordinates with the same output.

Takes tables, gives row numbers. Invariant: the answer is exact for the given rows.
"""

from __future__ import annotations

import math

import numpy as np


def first_collision(outputs: np.ndarray) -> tuple[int, int] | None:
    """The numbers of two equal rows, or None. Shapes: outputs (n, rank), not negative."""
    if not len(outputs) or _are_distinct(outputs):
        return None
    _, inverse, counts = np.unique(outputs, axis=0, return_inverse=True, return_counts=True)
    doubled = int(np.argmax(counts > 1))
    one, other = np.flatnonzero(inverse.reshape(-1) == doubled)[:2]
    return int(one), int(other)


def _are_distinct(outputs: np.ndarray) -> bool:
    """Whether no two rows are equal. Shapes: outputs (n, rank), not negative."""
    box = [int(n) + 1 for n in outputs.max(axis=0)]
    if math.prod(box) > 64 * len(outputs) + 4096:  # too sparse to count
        return len(np.unique(outputs, axis=0)) == len(outputs)
    flat = np.ravel_multi_index(tuple(outputs.T), tuple(box)) if box else np.zeros(len(outputs), np.int64)
    return int(np.bincount(flat).max()) <= 1
