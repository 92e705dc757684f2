"""Finds the digits of a map that is given by its table: how index functions become maps one can compose and invert.

Takes tables of integers, gives `DigitMap`s and `Fragment`s. Invariant: what is found agrees with the table at every
coordinate; where no digits do, the answer is None.
"""

from __future__ import annotations

import numpy as np

from tilelang.layout.digits import DigitMap, Mode, NotDigits, merged, unit
from tilelang.layout.thread_values import Fragment


def fit(table: np.ndarray, out_shape: tuple[int, ...]) -> DigitMap | None:
    """The map whose table this is, or None if it is not one of digits.

    Shapes: table (*in_shape, rank of the output).
    """
    extents = table.shape[:-1]
    rank = table.shape[-1]
    if table.size and table[(0,) * len(extents)].any():
        return None  # digits lead from the origin to the origin
    inputs = []
    for axis in range(len(extents)):
        line = table[tuple(slice(None) if a == axis else 0 for a in range(len(extents)))]
        inputs.append(_digits(line) if len(line) else (Mode(1, (0,) * rank),))
    found = DigitMap(tuple(inputs), out_shape)
    if any(stride < 0 for modes in found.inputs for mode in modes for stride in mode.stride):
        return None
    grid = np.indices(extents, dtype=np.int64, sparse=True)
    for place, expected in zip(found(*grid), np.moveaxis(table, -1, 0), strict=True):
        if not np.array_equal(np.broadcast_to(np.asarray(place), extents), expected):
            return None
    return found


def _digits(line: np.ndarray) -> tuple[Mode, ...]:
    """Digits that would lead along one coordinate: each is as long as its steps stay equal.

    Shapes: line (extent, rank of the output).
    """
    extent, place = len(line), 1
    modes: list[Mode] = []
    while place < extent:
        steps = line[::place]
        straight = steps == np.arange(len(steps))[:, None] * steps[1]
        size = len(steps) if straight.all() else int(np.argmin(straight.all(axis=1)))
        modes.append(Mode(size, tuple(int(s) for s in steps[1])))
        place *= size
    return tuple(modes) or (Mode(1, (0,) * line.shape[-1]),)


def fragment_of_owners(owners: DigitMap, threads: int) -> Fragment:
    """The fragment in which element x is value `owners(x)[1]` of thread `owners(x)[0]`, and of the copies of it.

    Thread indices that `owners` steps over, up to `threads`, hold copies.

    Raises:
        NotDigits: Two elements share a value, or the digits of the threads do not fit together.
    """
    rank = len(owners.inputs)
    per_output: tuple[list[tuple[int, Mode]], ...] = ([], [])
    for axis, modes in enumerate(owners.inputs):
        place = 1
        for mode in modes:
            if mode.size > 1:
                moved = [k for k, stride in enumerate(mode.stride) if stride]
                if len(moved) != 1:
                    raise NotDigits("a digit of a coordinate moves the thread and the value, or neither")
                per_output[moved[0]].append((mode.stride[moved[0]], Mode(mode.size, unit(rank, axis, place))))
            place *= mode.size
    thread, value = (_in_places(digits, (0,) * rank) for digits in per_output)
    held = int(np.prod([mode.size for mode in thread]))
    if threads % held:
        raise NotDigits(f"{threads} threads are no multiple of the {held} that hold different elements")
    shape = tuple(int(np.prod([mode.size for mode in modes])) for modes in owners.inputs)
    return Fragment(shape, merged((*thread, Mode(threads // held, (0,) * rank))), merged(value))


def _in_places(digits: list[tuple[int, Mode]], idle: tuple[int, ...]) -> list[Mode]:
    """Digits put at their places, with idle ones in the gaps."""
    out, expected = [], 1
    for place, mode in sorted(digits, key=lambda pair: pair[0]):
        if place % expected:
            raise NotDigits(f"a digit of place {place} overlaps one that ends at {expected}")
        if place > expected:
            out.append(Mode(place // expected, idle))
        out.append(mode)
        expected = place * mode.size
    return out
