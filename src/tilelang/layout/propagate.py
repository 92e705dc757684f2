"""Layout propagation: from a loop nest to the fragments it accesses, and back.

Takes the map from iterations to elements, gives `Fragment`s of the other side. Invariant: in what is given, the threads
that hold element `access(x)` are exactly those that run an iteration which leads there.

An access map may have more inputs than the nest has dimensions: the last `free` of them are walked by each thread
alone, such as a serial loop inside the nest or around it, so that all their elements have one owner.

A solver asks the same question for every access, so the last answers are kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tilelang.layout.digits import DigitMap, Mode, NotDigits, compose, merged, unit
from tilelang.layout.thread_values import Fragment


@functools.lru_cache(maxsize=1024)
def element_layout(access: DigitMap, nest: Fragment, free: int = 0) -> Fragment:
    """The layout of the elements `access(x)`, given the threads that run x.

    Shapes: nest (threads, values) -> extents; the result (threads, values) -> `access.out_shape`.

    Raises:
        NotDigits: It cannot be told by digits, or elements are left without an owner.
    """
    rank = len(access.inputs)
    nested = rank - free
    padding = (0,) * free
    thread = tuple(Mode(mode.size, mode.stride + padding) for mode in nest.thread)
    value = [Mode(mode.size, mode.stride + padding) for mode in nest.value]
    for axis in range(nested, rank):
        value.append(Mode(access.in_shape[axis], unit(rank, axis)))
    composed = compose(access, DigitMap((thread, tuple(value)), access.in_shape))
    threads, values = (tuple(mode for mode in modes if mode.size > 1) for modes in composed.inputs)
    layout = Fragment(access.out_shape, threads, values).normalized
    _check_covered(layout)
    return layout


@functools.lru_cache(maxsize=1024)
def nest_layout(access: DigitMap, elements: Fragment, free: int = 0) -> Fragment:
    """The layout of a nest in which every iteration x runs where element `access(x)` is.

    Raises:
        NotDigits: Different iterations access one element, elements that one iteration accesses have different owners,
            or digits do not tell it.
    """
    nested = len(access.inputs) - free
    for modes in access.inputs[:nested]:
        if any(mode.is_idle and mode.size > 1 for mode in modes):
            raise NotDigits("different iterations access one element")
    layout = _followed(access, elements, nested)
    _check_covered(layout)
    return layout


@functools.lru_cache(maxsize=1024)
def lifted_layout(access: DigitMap, elements: Fragment, vector: int = 1, free: int = 0) -> Fragment:
    """A layout of a nest for an access that forgets some of its dimensions: copies share these dimensions.

    Args:
        access: Iterations to elements; a dimension either leads somewhere or is forgotten as a whole.
        elements: The layout of the elements.
        vector: Neighbors along the last dimension that a thread takes at a time, if that one is forgotten.
        free: Inputs of `access` beyond those of the nest.

    Raises:
        NotDigits: Digits do not tell it.
    """
    nested = len(access.inputs) - free
    extents = access.in_shape[:nested]
    base = _followed(access, elements, nested)
    forgotten = [axis for axis in reversed(range(nested)) if all(mode.is_idle for mode in access.inputs[axis])]
    reach = {axis: vector if axis == nested - 1 else 1 for axis in forgotten}
    thread = []
    for mode in base.thread:
        axis = next((a for a in forgotten if reach[a] * mode.size < 2 * extents[a]), None)
        if mode.is_idle and mode.size > 1 and axis is not None:
            thread.append(Mode(mode.size, unit(nested, axis, reach[axis])))
            reach[axis] *= mode.size
        else:
            thread.append(mode)
    value = list(base.value)
    for axis in forgotten:
        if axis == nested - 1:
            value.append(Mode(vector, unit(nested, axis)))
        value.append(Mode(-(-extents[axis] // reach[axis]), unit(nested, axis, reach[axis])))
    layout = Fragment(extents, tuple(thread), tuple(mode for mode in value if mode.size > 1)).normalized
    _check_covered(layout)
    return layout


def _followed(access: DigitMap, elements: Fragment, nested: int) -> Fragment:
    """The digits of `elements` as steps of the nest's dimensions; what an access forgets is not moved."""
    back = access.inverse()
    thread, value = compose(back, elements.map).inputs
    if any(mode.size > 1 and any(mode.stride[nested:]) for mode in thread):
        raise NotDigits("elements that one iteration accesses have different owners")
    steps = [
        tuple(Mode(mode.size, mode.stride[:nested]) for mode in modes if mode.size > 1) for modes in (thread, value)
    ]
    return Fragment(access.in_shape[:nested], merged(steps[0]), steps[1]).normalized


def renaming(old: Sequence[int], new: Sequence[int]) -> DigitMap:
    """Where the elements of a tile of one shape are found in another shape, both row-major.

    Raises:
        NotDigits: Rows of the two shapes end at places that do not divide each other.
    """
    place, steps = 1, []
    for extent in reversed(old):
        steps.append((Mode(extent, (place,)),))
        place *= extent
    digits = tuple(Mode(new[axis], unit(len(new), axis)) for axis in reversed(range(len(new))) if new[axis] > 1)
    flat = DigitMap((digits or (Mode(1, (0,) * len(new)),),), tuple(new))
    return compose(flat, DigitMap(tuple(reversed(steps)), (place,)))


def renamed(names: DigitMap, layout: Fragment) -> Fragment:
    """The layout of the same registers under another shape: each value keeps its place among those of its thread.

    Args:
        names: Where the elements are found, see `renaming`.
        layout: How they are spread under the old shape.

    Raises:
        NotDigits: It cannot be told by digits.
    """
    thread, value = compose(names, layout.map).inputs
    modes = [tuple(mode for mode in digits if mode.size > 1) for digits in (thread, value)]
    found = Fragment(names.out_shape, modes[0], modes[1])
    _check_covered(found)
    return found


def _check_covered(layout: Fragment) -> None:
    """Raises if elements of the tile have no owner, or cannot be found."""
    for modes, extent in zip(layout.owners.inputs, layout.shape, strict=True):
        if math.prod(mode.size for mode in modes) < extent:
            raise NotDigits("elements are left without an owner")


def vectorized(layout: Fragment, vector: int) -> Fragment:
    """The same layout, normalized, with the first value digit made of `vector` neighbors along the last dimension.

    `vector` must divide the run of neighbors that a thread has there, see `run_length`.
    """
    layout = layout.normalized
    if vector == 1 or layout.value[0].size == vector:
        return layout
    first, rank = layout.value[0], len(layout.shape)
    split = (Mode(vector, first.stride), Mode(first.size // vector, unit(rank, rank - 1, vector)))
    return Fragment(layout.shape, layout.thread, (*split, *layout.value[1:]))


def run_length(layout: Fragment) -> int:
    """How many neighbors along the last dimension a thread has at a time."""
    first = next(iter(layout.normalized.value), None)
    rank = len(layout.shape)
    return first.size if first is not None and rank and first.stride == unit(rank, rank - 1) else 1
