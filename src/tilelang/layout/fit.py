"""Recovers digit maps from tables: index functions become maps that can be composed and inverted.

Takes tables of integers, gives `DigitMap`s and `Fragment`s. Invariant: the result agrees with the table at every
coordinate; None if there is no digit map.
"""

from __future__ import annotations

import numpy as np

from tilelang.layout.digits import DigitMap, Mode, NotDigitMap, coalesced, unit
from tilelang.layout.thread_values import Fragment


def fit(table: np.ndarray, out_shape: tuple[int, ...]) -> DigitMap | None:
    """The digit map with this table, or None if there is none.

    Shapes: table (*in_shape, rank of the output).
    """
    extents = table.shape[:-1]
    rank = table.shape[-1]
    if table.size and table[(0,) * len(extents)].any():
        return None  # digit maps map 0 to 0
    inputs = []
    for axis in range(len(extents)):
        line = table[tuple(slice(None) if a == axis else 0 for a in range(len(extents)))]
        inputs.append(_digits(line) if len(line) else (Mode(1, (0,) * rank),))
    found = DigitMap(tuple(inputs), out_shape)
    if any(stride < 0 for modes in found.inputs for mode in modes for stride in mode.stride):
        return None
    grid = np.indices(extents, dtype=np.int64, sparse=True)
    for stride, expected in zip(found(*grid), np.moveaxis(table, -1, 0), strict=True):
        if not np.array_equal(np.broadcast_to(np.asarray(stride), extents), expected):
            return None
    return found


def _digits(line: np.ndarray) -> tuple[Mode, ...]:
    """Candidate digits of one coordinate: each is as long as its steps are equal.

    Shapes: line (extent, rank of the output).
    """
    extent, stride = len(line), 1
    modes: list[Mode] = []
    while stride < extent:
        steps = line[::stride]
        straight = steps == np.arange(len(steps))[:, None] * steps[1]
        size = len(steps) if straight.all() else int(np.argmin(straight.all(axis=1)))
        modes.append(Mode(size, tuple(int(s) for s in steps[1])))
        stride *= size
    return tuple(modes) or (Mode(1, (0,) * line.shape[-1]),)


def fragment_of_owners(owners: DigitMap, threads: int) -> Fragment:
    """The fragment in which element x is value `owners(x)[1]` of thread `owners(x)[0]`, and of its replicas.

    Thread indices between those of `owners`, up to `threads`, hold replicas.

    Raises:
        NotDigitMap: Two elements share a value, or the digits of the threads have gaps or overlap.
    """
    rank = len(owners.inputs)
    per_output: tuple[list[tuple[int, Mode]], ...] = ([], [])
    for axis, modes in enumerate(owners.inputs):
        stride = 1
        for mode in modes:
            if mode.size > 1:
                moved = [k for k, stride in enumerate(mode.stride) if stride]
                if len(moved) != 1:
                    raise NotDigitMap("a digit of a coordinate moves the thread and the value, or neither")
                per_output[moved[0]].append((mode.stride[moved[0]], Mode(mode.size, unit(rank, axis, stride))))
            stride *= mode.size
    thread, value = (_with_gaps(digits, (0,) * rank) for digits in per_output)
    held = int(np.prod([mode.size for mode in thread]))
    if threads % held:
        raise NotDigitMap(f"{threads} threads are no multiple of the {held} that hold different elements")
    shape = tuple(int(np.prod([mode.size for mode in modes])) for modes in owners.inputs)
    return Fragment(shape, coalesced((*thread, Mode(threads // held, (0,) * rank))), coalesced(value))


def _with_gaps(digits: list[tuple[int, Mode]], idle: tuple[int, ...]) -> list[Mode]:
    """Digits in order of their strides, with stride-0 digits in the gaps."""
    out, expected = [], 1
    for stride, mode in sorted(digits, key=lambda pair: pair[0]):
        if stride % expected:
            raise NotDigitMap(f"a digit of stride {stride} overlaps one that ends at {expected}")
        if stride > expected:
            out.append(Mode(stride // expected, idle))
        out.append(mode)
        expected = stride * mode.size
    return out
