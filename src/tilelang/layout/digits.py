"""Digit maps: each input coordinate is a mixed-radix number, and each digit moves the output by a stride.

These are the layouts of CuTe, a shape and a stride per mode, with several outputs. Takes digits, gives `DigitMap`s,
which apply to ints, NumPy arrays and expressions with the same code (only `+ * // %`). Invariant: `compose` and
`inverse` give an exact result or raise `NotDigitMap`; `table` decides any question about a map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.records import record


class NotDigitMap(ValueError):
    """The requested map is no digit map."""


@record(slots=True)
class Mode:
    """One digit of an input coordinate.

    Attributes:
        size: Number of values.
        stride: Offset of the output per step, per output dimension.
    """

    size: int
    stride: tuple[int, ...]

    @property
    def is_broadcast(self) -> bool:
        """Whether its stride is 0."""
        return self.size == 1 or not any(self.stride)


@record
class DigitMap:
    """A map from input coordinates to output coordinates.

    Attributes:
        inputs: The digits of each input coordinate, least significant first.
        out_shape: Extents of the output; outputs beyond them are padding.
    """

    inputs: tuple[tuple[Mode, ...], ...]
    out_shape: tuple[int, ...]

    def __call__(self, *coordinates: Any) -> tuple[Any, ...]:
        """The output coordinates, as ints, arrays or expressions like the input."""
        out: list[Any] = [0] * len(self.out_shape)
        for coordinate, modes in zip(coordinates, self.inputs, strict=True):
            for digit, mode in zip(split(coordinate, modes), modes, strict=True):
                for axis, stride in enumerate(mode.stride):
                    if stride and mode.size > 1:
                        moved = digit if stride == 1 else digit * stride
                        out[axis] = moved if isinstance(out[axis], int) and out[axis] == 0 else out[axis] + moved
        return tuple(out)

    @property
    def in_shape(self) -> tuple[int, ...]:
        """The extent of each input coordinate."""
        return tuple(math.prod(mode.size for mode in modes) for modes in self.inputs)

    @cached_property
    def table(self) -> np.ndarray:
        """The output of every input.

        Shapes: (*in_shape, rank of the output).
        """
        table = np.zeros((*self.in_shape, len(self.out_shape)), np.int64)
        for axis, place in enumerate(self(*np.indices(self.in_shape, dtype=np.int64, sparse=True))):
            table[..., axis] = place
        return table

    def inverse(self) -> DigitMap:
        """The map from output to input coordinates; stride-0 digits of the input are 0.

        Post-condition: `self(*inverse(*x)) == x` for every x below `in_shape` of the result.

        Raises:
            NotDigitMap: A digit changes two dimensions, or the digits of a dimension have gaps or overlap.
        """
        per_axis: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in self.out_shape]
        for position, modes in enumerate(self.inputs):
            scale = 1
            for mode in modes:
                moved = [(axis, stride) for axis, stride in enumerate(mode.stride) if stride]
                if mode.size > 1 and len(moved) > 1:
                    raise NotDigitMap("a digit moves two dimensions")
                if mode.size > 1 and moved:
                    axis, stride = moved[0]
                    step = tuple(scale if k == position else 0 for k in range(len(self.inputs)))
                    per_axis[axis].append((stride, mode.size, step))
                scale *= mode.size
        rank = len(self.inputs)
        return DigitMap(tuple(_dense(axis, digits, rank) for axis, digits in enumerate(per_axis)), self.in_shape)


def _dense(axis: int, digits: list[tuple[int, int, tuple[int, ...]]], rank: int) -> tuple[Mode, ...]:
    expected, modes = 1, []
    for stride, size, step in sorted(digits):
        if stride != expected:
            raise NotDigitMap(f"dimension {axis}: gap or overlap at stride {stride}, expected {expected}")
        modes.append(Mode(size, step))
        expected *= size
    return tuple(modes) or (Mode(1, (0,) * rank),)


def split(coordinate: Any, modes: Sequence[Mode]) -> list[Any]:
    """The digits of a coordinate, least significant first; the last one is not reduced by its size."""
    digits = []
    for position, mode in enumerate(modes):
        last = position == len(modes) - 1
        digits.append(coordinate if last else coordinate % mode.size)
        if not last:
            coordinate = coordinate // mode.size
    return digits


def compose(outer: DigitMap, inner: DigitMap) -> DigitMap:
    """`outer` after `inner`.

    Post-condition: `compose(f, g)(*x) == f(*g(*x))` for every x, also where `g` exceeds the last digit of `f`.

    Raises:
        NotDigitMap: A digit of `inner` changes two dimensions, straddles digits of `outer`, or may carry into another.
    """
    for axis, digits in enumerate(outer.inputs):
        if len(digits) > 1:
            _check_carries(inner, axis)
    idle = (0,) * len(outer.out_shape)
    inputs = []
    for modes in inner.inputs:
        new: list[Mode] = []
        for mode in modes:
            moved = [(axis, stride) for axis, stride in enumerate(mode.stride) if stride]
            if mode.size == 1 or not moved:
                new.append(Mode(mode.size, idle))
            elif len(moved) > 1:
                raise NotDigitMap("a digit moves two dimensions")
            else:
                new.extend(_access_layout(outer.inputs[moved[0][0]], moved[0][1], mode.size))
        inputs.append(tuple(new) or (Mode(1, idle),))
    return DigitMap(tuple(inputs), outer.out_shape)


def _check_carries(inner: DigitMap, axis: int) -> None:
    """Raises if the digits of a dimension overlap, so that their sum may carry."""
    reach = 0
    moving = [(mode.stride[axis], mode.size) for modes in inner.inputs for mode in modes if mode.size > 1]
    for stride, size in sorted(pair for pair in moving if pair[0]):
        if stride <= reach:
            raise NotDigitMap(f"dimension {axis}: digits overlap at stride {stride}")
        reach += stride * (size - 1)


def _access_layout(digits: tuple[Mode, ...], stride: int, size: int) -> list[Mode]:
    """The output digits of `size` steps of `stride` in a coordinate with these digits."""
    out: list[Mode] = []
    scale = 1
    for position, digit in enumerate(digits):
        top = scale * digit.size
        last = position == len(digits) - 1
        if size > 1 and (last or stride < top):
            if stride % scale:
                raise NotDigitMap(f"stride {stride} falls inside a digit of place {scale}")
            step = stride // scale
            if not last and digit.size % step:
                raise NotDigitMap(f"step {step} does not divide a digit of {digit.size}")
            taken = size if last else min(size, digit.size // step)
            if size % taken:
                raise NotDigitMap(f"{size} steps straddle a digit of {digit.size}")
            out.append(Mode(taken, tuple(s * step for s in digit.stride)))
            size //= taken
            stride = top
        scale = top
    return out


def coalesced(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """Coalesces adjacent digits whose strides are contiguous; digits of size 1 are dropped."""
    out: list[Mode] = []
    for mode in modes:
        if mode.size == 1:
            continue
        if out and mode.stride == tuple(out[-1].size * s for s in out[-1].stride):
            out[-1] = Mode(out[-1].size * mode.size, out[-1].stride)
        else:
            out.append(mode)
    return tuple(out)


def identity(shape: Sequence[int]) -> DigitMap:
    """The identity map."""
    rank = len(shape)
    return DigitMap(tuple((Mode(e, unit(rank, axis)),) for axis, e in enumerate(shape)), tuple(shape))


def unit(rank: int, axis: int, step: int = 1) -> tuple[int, ...]:
    """The stride along one dimension."""
    return tuple(step if k == axis else 0 for k in range(rank))
