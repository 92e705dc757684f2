"""Layout propagation: from a loop nest to the fragments it accesses, and back.

Takes the access map from iterations to elements, gives the `Fragment` of the other side. Invariant: the threads that
hold element `access(x)` are exactly those that run an iteration x' with `access(x') == access(x)`.

An access map may have more inputs than the nest has dimensions: the last `free` of them are iterated by each thread on
its own, such as a serial loop inside of the nest or around it, so that all their elements have one owner.

The last results are cached, since a solver asks for the same ones repeatedly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tilelang.layout.digits import DigitMap, Mode, NotDigitMap, coalesced, compose, unit
from tilelang.layout.thread_values import Fragment


@functools.lru_cache(maxsize=1024)
def element_layout(access: DigitMap, nest: Fragment, free: int = 0) -> Fragment:
    """The layout of the elements `access(x)`, given the threads that run x.

    Shapes: nest (threads, values) -> extents; the result (threads, values) -> `access.out_shape`.

    Raises:
        NotDigitMap: The result is no digit map, or elements have no owner.
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
    _require_owners(layout)
    return layout


@functools.lru_cache(maxsize=1024)
def nest_layout(access: DigitMap, elements: Fragment, free: int = 0) -> Fragment:
    """The layout of a nest in which every iteration x runs where element `access(x)` is.

    Raises:
        NotDigitMap: Several iterations access one element, elements of one iteration have different owners, or the
            result is no digit map.
    """
    nested = len(access.inputs) - free
    for modes in access.inputs[:nested]:
        if any(mode.is_broadcast and mode.size > 1 for mode in modes):
            raise NotDigitMap("different iterations access one element")
    layout = _as_nest_digits(access, elements, nested)
    _require_owners(layout)
    return layout


@functools.lru_cache(maxsize=1024)
def extended_layout(access: DigitMap, elements: Fragment, vector: int = 1, free: int = 0) -> Fragment:
    """A layout of a nest for an access that is invariant in some of its dimensions: replicas share these dimensions.

    Args:
        access: Iterations to elements, each dimension either used or invariant.
        elements: The layout of the elements.
        vector: Consecutive elements along the last dimension per thread, if the access is invariant in it.
        free: Number of per-thread inputs of `access`, the last ones.

    Raises:
        NotDigitMap: The result is no digit map.
    """
    nested = len(access.inputs) - free
    extents = access.in_shape[:nested]
    base = _as_nest_digits(access, elements, nested)
    forgotten = [axis for axis in reversed(range(nested)) if all(mode.is_broadcast for mode in access.inputs[axis])]
    reach = {axis: vector if axis == nested - 1 else 1 for axis in forgotten}
    thread = []
    for mode in base.thread:
        axis = next((a for a in forgotten if reach[a] * mode.size < 2 * extents[a]), None)
        if mode.is_broadcast and mode.size > 1 and axis is not None:
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
    _require_owners(layout)
    return layout


def _as_nest_digits(access: DigitMap, elements: Fragment, nested: int) -> Fragment:
    """The digits of `elements` as strides of the nest's dimensions; 0 along invariant ones."""
    back = access.inverse()
    thread, value = compose(back, elements.map).inputs
    if any(mode.size > 1 and any(mode.stride[nested:]) for mode in thread):
        raise NotDigitMap("elements that one iteration accesses have different owners")
    steps = [
        tuple(Mode(mode.size, mode.stride[:nested]) for mode in modes if mode.size > 1) for modes in (thread, value)
    ]
    return Fragment(access.in_shape[:nested], coalesced(steps[0]), steps[1]).normalized


def reshape_map(old: Sequence[int], new: Sequence[int]) -> DigitMap:
    """The map from the elements of a tile of one shape to those of another shape, both row-major.

    Raises:
        NotDigitMap: Rows of the two shapes do not divide each other.
    """
    stride, steps = 1, []
    for extent in reversed(old):
        steps.append((Mode(extent, (stride,)),))
        stride *= extent
    digits = tuple(Mode(new[axis], unit(len(new), axis)) for axis in reversed(range(len(new))) if new[axis] > 1)
    flat = DigitMap((digits or (Mode(1, (0,) * len(new)),),), tuple(new))
    return compose(flat, DigitMap(tuple(reversed(steps)), (stride,)))


def layout_of_view(names: DigitMap, layout: Fragment) -> Fragment:
    """The layout of a view with another shape: each value keeps its register.

    Args:
        names: The map from the old shape to the new one, see `reshape_map`.
        layout: The layout in the old shape.

    Raises:
        NotDigitMap: The result is no digit map.
    """
    thread, value = compose(names, layout.map).inputs
    modes = [tuple(mode for mode in digits if mode.size > 1) for digits in (thread, value)]
    found = Fragment(names.out_shape, modes[0], modes[1])
    _require_owners(found)
    return found


def _require_owners(layout: Fragment) -> None:
    """Raises if elements of the tile have no owner."""
    for modes, extent in zip(layout.owners.inputs, layout.shape, strict=True):
        if math.prod(mode.size for mode in modes) < extent:
            raise NotDigitMap("elements are left without an owner")


def vectorized(layout: Fragment, vector: int) -> Fragment:
    """The normalized layout whose first value digit is `vector` consecutive elements along the last dimension.

    `vector` must divide `run_length`.
    """
    layout = layout.normalized
    if vector == 1 or layout.value[0].size == vector:
        return layout
    first, rank = layout.value[0], len(layout.shape)
    split = (Mode(vector, first.stride), Mode(first.size // vector, unit(rank, rank - 1, vector)))
    return Fragment(layout.shape, layout.thread, (*split, *layout.value[1:]))


def run_length(layout: Fragment) -> int:
    """The number of consecutive elements along the last dimension that a thread holds."""
    first = next(iter(layout.normalized.value), None)
    rank = len(layout.shape)
    return first.size if first is not None and rank and first.stride == unit(rank, rank - 1) else 1
