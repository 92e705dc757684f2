import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import drop_dim, fragments, owners
from warps import blocked

from tilelang.layout.digits import DigitMap, Mode, NotDigitMap, identity
from tilelang.layout.propagate import (
    element_layout,
    extended_layout,
    layout_of_view,
    nest_layout,
    reshape_map,
    run_length,
    vectorized,
)
from tilelang.layout.thread_values import Fragment, digit, fragment


@st.composite
def accesses(draw: st.DrawFn, extents: tuple[int, ...]) -> tuple[DigitMap, int]:
    """A map from a nest of these extents to the elements of a tile, and how many inputs each thread walks alone.

    Dimensions of the tile are dimensions of the nest, or digits of them, in any order; some are forgotten.
    """
    places: list[tuple[int, int, int]] = []  # dimension of the nest, place in it, size
    for axis, extent in enumerate(extents):
        low = draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0]))
        places += [(axis, 1, low), (axis, low, extent // low)]
    order = [p for p in draw(st.permutations(places)) if p[2] > 1 and draw(st.integers(0, 3))]
    free = draw(st.sampled_from([(), (2,), (3,)]))
    shape: list[int] = []
    strides: dict[tuple[int, int], tuple[int, int]] = {}
    for axis, place, size in order:
        if shape and draw(st.booleans()):
            strides[axis, place] = (len(shape) - 1, shape[-1])
            shape[-1] *= size
        else:
            strides[axis, place] = (len(shape), 1)
            shape.append(size)
    rank = len(shape) + len(free)
    inputs: list[tuple[Mode, ...]] = []
    for axis in range(len(extents)):
        modes = [
            Mode(size, tuple(strides[a, p][1] if (a, p) in strides and strides[a, p][0] == k else 0 for k in range(rank)))
            for a, p, size in places
            if a == axis
        ]
        inputs.append(tuple(modes))
    inputs += [(Mode(size, tuple(1 if k == len(shape) + n else 0 for k in range(rank))),) for n, size in enumerate(free)]
    return DigitMap(tuple(inputs), (*shape, *free)), len(free)


def executing(access: DigitMap, nest: Fragment, free: int) -> np.ndarray:
    """Which threads run an iteration that leads to an element, by going through all iterations.

    Shapes: (*access.out_shape, threads).
    """
    run = owners(nest)
    found = np.zeros((*access.out_shape, nest.threads), bool)
    walked = [range(n) for n in access.in_shape[len(access.inputs) - free :]]
    for x in np.ndindex(*nest.shape):
        for y in itertools.product(*walked):
            found[access(*x, *y)] |= run[x]
    return found


@given(fragments(), st.data())
def test_elements_are_held_by_the_threads_that_lead_there(nest: Fragment, data: st.DataObject) -> None:
    access, free = data.draw(accesses(nest.shape))
    try:
        layout = element_layout(access, nest, free)
    except NotDigitMap:
        return
    assert np.array_equal(executing(access, nest, free), owners(layout))


@given(fragments(pad=True), st.data())
def test_padded_nests_lead_to_padded_tiles(nest: Fragment, data: st.DataObject) -> None:
    access, free = data.draw(accesses(nest.shape))
    try:
        layout = element_layout(access, nest, free)
    except NotDigitMap:
        return
    assert (executing(access, nest, free) <= owners(layout)).all()


@given(fragments(), st.data())
def test_iterations_run_where_their_elements_are(nest: Fragment, data: st.DataObject) -> None:
    access, free = data.draw(accesses(nest.shape))
    try:
        elements = element_layout(access, nest, free)
        back = nest_layout(access, elements, free)
    except NotDigitMap:
        return
    assert back.same_owners(nest)


@given(fragments(max_rank=1), st.integers(1, 40), st.sampled_from([1, 2, 4]))
def test_copies_share_what_an_access_forgets(rows: Fragment, columns: int, vector: int) -> None:
    access = drop_dim((*rows.shape, columns * vector), 1)
    nest = extended_layout(access, rows, vector)
    assert (rows.shape[0], columns * vector) == nest.shape
    assert rows.same_owners(element_layout(access, nest)) or rows.holds(element_layout(access, nest))
    assert run_length(nest) % vector == 0
    assert owners(nest).any(axis=-1).all()


def test_a_row_vector_of_an_accumulator_has_four_copies() -> None:
    c = fragment((16, 8), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(2, 8, 0)])
    m = element_layout(drop_dim((16, 8), 1), c)
    assert fragment((16,), [digit(4, 0), digit(8, 1)], [digit(2, 8)]) == m
    assert c.same_owners(extended_layout(drop_dim((16, 8), 1), m, 2))


def test_a_fold_over_everything_is_held_by_all() -> None:
    nest = blocked((4, 64), 128, 2)
    assert 128 == element_layout(DigitMap(((Mode(4, (0,)),), (Mode(64, (0,)),)), (1,)), nest).replication


def test_a_serial_dimension_belongs_to_one_thread() -> None:
    rows = blocked((64,), 64)
    access = DigitMap(((Mode(64, (1, 0)),), (Mode(8, (0, 1)),)), (64, 8))
    tile = element_layout(access, rows, 1)
    assert (64, 8, 1) == (tile.threads, tile.values, tile.replication)
    assert rows.same_owners(nest_layout(access, tile, 1))
    spread = blocked((64, 8), 64)
    with pytest.raises(NotDigitMap, match="different owners"):
        nest_layout(access, spread, 1)


def test_what_cannot_follow() -> None:
    with pytest.raises(NotDigitMap, match="one element"):
        nest_layout(drop_dim((4, 8), 1), blocked((4,), 32))
    with pytest.raises(NotDigitMap, match="without an owner"):
        element_layout(DigitMap(((Mode(8, (1,)),),), (32,)), blocked((8,), 8))
    diagonal = DigitMap(((Mode(4, (1,)),), (Mode(4, (1,)),)), (7,))
    with pytest.raises(NotDigitMap):
        element_layout(diagonal, blocked((4, 4), 16))


@given(fragments(pad=True), st.sampled_from([1, 2, 3, 4]))
def test_vectors_come_first(layout: Fragment, vector: int) -> None:
    if run_length(layout) % vector == 0:
        split = vectorized(layout, vector)
        assert layout.same_owners(split)
        assert math.prod(m.size for m in split.value) == layout.normalized.values
        if vector > 1:
            assert (vector, (*(0,) * (len(layout.shape) - 1), 1)) == (split.value[0].size, split.value[0].stride)


def test_the_identity_changes_nothing() -> None:
    nest = blocked((6, 40), 96, 4)
    assert nest.same_owners(element_layout(identity((6, 40)), nest))


@st.composite
def names(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of one number of elements."""
    factors = draw(st.lists(st.sampled_from([2, 2, 3, 4, 5]), min_size=1, max_size=5))
    shapes: list[tuple[int, ...]] = []
    for _ in range(2):
        shape = [1]
        for factor in factors if draw(st.integers(0, 3)) else draw(st.permutations(factors)):
            if draw(st.booleans()):
                shape.append(1)
            shape[-1] *= factor
        shapes.append(tuple(shape))
    return shapes[0], shapes[1]


@given(names())
def test_elements_are_found_under_another_shape(shapes):
    old, new = shapes
    flat = np.arange(math.prod(old)).reshape(new)
    try:
        found = reshape_map(old, new)
    except NotDigitMap:
        ends = [{math.prod(shape[n:]) for n in range(len(shape))} for shape in shapes]
        assert any(max(a, b) % min(a, b) for a in ends[0] for b in ends[1])
        return
    assert np.array_equal(np.moveaxis(found.table, -1, 0), np.unravel_index(np.arange(flat.size).reshape(old), new))


@given(names(), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_registers_keep_their_places_under_another_shape(shapes, threads, vector):
    old, new = shapes
    layout = blocked(old, threads, vector)
    try:
        found = layout_of_view(reshape_map(old, new), layout)
    except NotDigitMap:
        return
    assert (layout.threads, layout.values) == (found.threads, found.values)
    for flat in range(math.prod(old)):
        at = [tuple(int(c) for c in np.unravel_index(flat, shape)) for shape in shapes]
        assert layout.owner(*at[0]) == found.owner(*at[1])
