"""Random fragments, and the tables that layouts are checked against."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tilelang.layout.digits import DigitMap, Mode, unit
from tilelang.layout.thread_values import Fragment, fragment


@st.composite
def fragments(draw: st.DrawFn, max_rank: int = 2, pad: bool = False) -> Fragment:
    """Any fragment: the digits of its dimensions shuffled over threads and values, with idle digits among them.

    With `pad` it may cover more than its tile.
    """
    dims = draw(st.lists(st.lists(st.sampled_from([2, 3, 4]), max_size=3), min_size=1, max_size=max_rank))
    shape = tuple(math.prod(sizes) for sizes in dims)
    digits = []
    for axis, sizes in enumerate(dims):
        place = 1
        for size in sizes:
            digits.append(Mode(size, unit(len(dims), axis, place)))
            place *= size
    digits = draw(st.permutations(digits))
    cut = draw(st.integers(0, len(digits)))
    thread, value = list(digits[:cut]), list(digits[cut:])
    if draw(st.booleans()):
        thread.insert(draw(st.integers(0, len(thread))), Mode(draw(st.sampled_from([2, 3])), (0,) * len(dims)))
    if pad:  # the last digit of a dimension may reach beyond the tile, but begins inside
        shape = tuple(e - draw(st.integers(0, _top(sizes) - 1)) for e, sizes in zip(shape, dims, strict=True))
    return fragment(shape, thread, value)


def _top(sizes: list[int]) -> int:
    return math.prod(sizes[:-1]) * (sizes[-1] - 1) if sizes else 1


def drop_dim(shape: Sequence[int], dim: int, *, keep: bool = False) -> DigitMap:
    """The map that forgets one coordinate, or makes it 0 if `keep`.

    Shapes: (e0, ..., en) -> (e0, ..., en) without `dim`, or with extent 1 there.
    """
    left = [axis for axis in range(len(shape)) if axis != dim or keep]
    inputs = tuple(
        (Mode(extent, tuple(1 if axis == other and axis != dim else 0 for other in left)),)
        for axis, extent in enumerate(shape)
    )
    return DigitMap(inputs, tuple(1 if axis == dim else shape[axis] for axis in left))


def owners(layout: Fragment) -> np.ndarray:
    """Which threads hold each element, told by the table alone.

    Shapes: (*shape, threads).
    """
    held = np.zeros((*layout.shape, layout.threads), bool)
    table = layout.table
    thread = np.broadcast_to(np.arange(layout.threads)[:, None], table.shape[:-1])
    inside = (table < np.array(layout.shape)).all(axis=-1)
    held[(*np.moveaxis(table[inside], -1, 0), thread[inside])] = True
    return held
