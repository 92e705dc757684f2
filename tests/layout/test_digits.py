import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import drop_dim, fragments

from tilelang.layout.digits import DigitMap, Mode, NotDigitMap, coalesced, compose, identity
from tilelang.layout.thread_values import Fragment


@st.composite
def maps(draw: st.DrawFn, in_shape: tuple[int, ...]) -> DigitMap:
    """A map from coordinates of a shape to somewhere, by any digits."""
    inputs = []
    for extent in in_shape:
        modes, left = [], extent
        while left > 1:
            size = draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0]))
            stride = tuple(draw(st.sampled_from([0, 1, 2, 5, 64])) for _ in range(2))
            modes.append(Mode(size, stride))
            left //= size
        inputs.append(tuple(modes) or (Mode(1, (0, 0)),))
    return DigitMap(tuple(inputs), (10**6, 10**6))


@given(fragments())
def test_the_inverse_finds_every_coordinate(layout: Fragment) -> None:
    grid = np.indices(layout.shape)
    thread, value = layout.map.inverse()(*grid)
    assert np.array_equal(np.moveaxis(grid, 0, -1), layout.table[thread, value].reshape(*layout.shape, -1))


@given(fragments(), st.data())
def test_composing_is_applying_one_after_the_other(layout: Fragment, data: st.DataObject) -> None:
    outer = data.draw(maps(layout.shape))
    try:
        composed = compose(outer, layout.map)
    except NotDigitMap:
        return
    expected = np.stack([np.broadcast_to(x, layout.table.shape[:-1]) for x in outer(*np.moveaxis(layout.table, -1, 0))])
    assert np.array_equal(np.moveaxis(expected, 0, -1), composed.table)


@given(fragments(pad=True), st.data())
def test_composing_holds_beyond_the_last_digit(layout: Fragment, data: st.DataObject) -> None:
    outer = data.draw(maps(layout.shape))
    try:
        composed = compose(outer, layout.map)
    except NotDigitMap:
        return
    expected = outer(*np.moveaxis(layout.table, -1, 0))
    for axis, place in enumerate(expected):
        assert (composed.table[..., axis] == place).all()


def test_digits_that_may_carry_do_not_compose() -> None:
    halves = DigitMap(((Mode(2, (1, 0)), Mode(2, (0, 1))),), (2, 2))
    diagonal = DigitMap(((Mode(2, (1,)),), (Mode(2, (1,)),)), (3,))
    with pytest.raises(NotDigitMap, match="overlap"):
        compose(halves, diagonal)


def test_what_has_no_digits_says_why() -> None:
    eights = DigitMap(((Mode(8, (1, 0)), Mode(2, (0, 1))),), (8, 2))
    with pytest.raises(NotDigitMap, match="straddle"):
        compose(eights, DigitMap(((Mode(12, (1,)),),), (12,)))
    with pytest.raises(NotDigitMap, match="two dimensions"):
        compose(identity((4, 4)), DigitMap(((Mode(4, (1, 1)),),), (4, 4)))
    with pytest.raises(NotDigitMap, match="gap or overlap"):
        DigitMap(((Mode(4, (2,)),),), (8,)).inverse()


def test_merged_digits_step_as_before() -> None:
    assert (Mode(8, (2,)), Mode(6, (0,))) == coalesced([Mode(4, (2,)), Mode(2, (8,)), Mode(1, (5,)), Mode(2, (0,)), Mode(3, (0,))])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data(), st.booleans())
def test_dropping_a_dimension_forgets_its_coordinate(shape: list[int], data: st.DataObject, keep: bool) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    table = drop_dim(shape, dim, keep=keep).table
    grid = np.moveaxis(np.indices(shape), 0, -1)
    expected = grid * (np.arange(len(shape)) != dim) if keep else np.delete(grid, dim, axis=-1)
    assert np.array_equal(expected, table)


def test_the_identity_moves_nothing() -> None:
    assert (3, 5) == identity((4, 8))(3, 5)
