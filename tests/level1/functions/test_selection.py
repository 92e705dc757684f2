"""Tests for tilelang.level1.functions.selection."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tilelang.numpy as tnp
from tilelang.errors import ProgramTypeError, ProgramValueError, UnknownAttribute


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_side=3))
@settings(max_examples=30, deadline=None)
def test_where(shapes: hnp.BroadcastableShapes) -> None:
    condition, x, y = (numbers(*s, dtype=d, seed=n) for n, (s, d) in enumerate(zip(shapes.input_shapes, ("bool", "int32", "int32"))))
    assert_close(run(tnp.where, condition, x, y), np.where(condition, x, y))


def test_where_with_numbers() -> None:
    x = numbers(5)
    assert_close(run(lambda a: tnp.where(a > 0, a, -tnp.inf), x), np.where(x > 0, x, -np.inf))
    assert_close(run(lambda a: tnp.where(a > 0, 1, 0), x), np.where(x > 0, 1, 0))
    assert "float16" == tnp.where(traced(3) > 0, traced(3, dtype="float16"), 0.0).dtype


def test_the_other_side_of_where_does_not_matter() -> None:
    x = np.array([-1.0, 4.0], np.float32)
    assert_close(run(lambda a: tnp.where(a > 0, tnp.sqrt(a), 0.0), x), np.array([0.0, 2.0]))


@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (None, 0.5), (-0.5, None), (0.5, -0.5)])
def test_clip(bounds: tuple[Any, Any]) -> None:
    x = numbers(3, 4)
    assert_close(run(lambda a: tnp.clip(a, *bounds), x), np.clip(x, *bounds))


def test_clip_by_arrays_and_by_nothing() -> None:
    x, low, high = numbers(3, 4), numbers(4, seed=1), numbers(3, 1, seed=2)
    assert_close(run(tnp.clip, x, low, high), np.clip(x, low, high))
    assert_close(run(tnp.clip, x), x)


@pytest.mark.parametrize(("shape", "positions", "axis"), [((5,), (3,), None), ((4, 5), (2, 3), 1), ((4, 5), (), 0), ((4, 5), (0,), 1)])
def test_take(shape: tuple[int, ...], positions: tuple[int, ...], axis: Any) -> None:
    x, i = numbers(*shape), (numbers(*positions, dtype="int32") % 4).astype(np.int32)
    assert_close(run(lambda a, n: tnp.take(a, n, axis), x, i), np.take(x, i, axis))


@pytest.mark.parametrize(("shape", "positions", "axis"), [((4, 5), (4, 2), 1), ((4, 5), (1, 5), 0), ((4, 1), (2, 3), 0), ((3,), (7,), -1)])
def test_take_along_axis(shape: tuple[int, ...], positions: tuple[int, ...], axis: int) -> None:
    x, i = numbers(*shape), (numbers(*positions, dtype="int32") % shape[axis]).astype(np.int32)
    assert_close(run(lambda a, n: tnp.take_along_axis(a, n, axis), x, i), np.take_along_axis(x, i, axis))


def test_negative_positions_count_from_the_end() -> None:
    x, i = numbers(5), np.array([-1, 0, -5], np.int64)
    assert_close(run(tnp.take, x, i), x[i])


# -- updates -------------------------------------------------------------------------------------------------
_KEYS = [0, (slice(1, 3), 2), (Ellipsis, slice(None, None, 2)), (slice(None), None, 1)]


@pytest.mark.parametrize("key", _KEYS, ids=str)
def test_updates_of_views(key: Any) -> None:
    x = numbers(4, 5)
    y = numbers(*x[key].shape, seed=1)
    expected = x.copy()
    expected[key] += y
    assert_close(run(lambda a, b: a.at[key].add(b), x, y), expected)
    expected[key] = 2.5
    assert_close(run(lambda a: a.at[key].set(2.5), x), np.where(expected == 2.5, 2.5, x))


@pytest.mark.parametrize(("method", "ufunc"), [("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)])
def test_updates_at_repeated_positions(method: str, ufunc: Any) -> None:
    x, y = numbers(6), numbers(20, seed=1)
    i = np.random.default_rng(0).integers(-6, 6, 20).astype(np.int32)
    expected = x.copy()
    ufunc.at(expected, i, y)
    assert_close(run(lambda a, n, b: getattr(a.at[n], method)(b), x, i, y), expected)


def test_updates_of_rows_by_positions() -> None:
    x, y, i = numbers(6, 3), numbers(4, 3, seed=1), np.array([0, 2, 2, 5], np.int32)
    expected = x.copy()
    np.add.at(expected, i, y)
    assert_close(run(lambda a, n, b: a.at[n].add(b), x, i, y), expected)


def test_updates_outside_are_ignored() -> None:
    x, i = numbers(3), np.array([3, 1, -4], np.int32)
    expected = x.copy()
    expected[1] += 1
    assert_close(run(lambda a, n: a.at[n].add(1.0), x, i), expected)


# -- errors --------------------------------------------------------------------------------------------------
def test_a_condition_that_is_no_bool() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.where(traced(3), 1, 0)
    assert str(error.value) == (
        "tnp.where: the condition is float32, not bool\nhint: write tnp.where(x != 0, ...), or a comparison"
    )


def test_positions_that_are_no_integers() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.take(traced(3), traced(3))
    assert str(error.value) == (
        'tnp.take: indices are float32, not integers\nhint: convert them first: i.astype("int32")'
    )


def test_take_without_an_axis() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.take(traced(3, 4), traced(3, dtype="int32"))
    assert str(error.value) == "tnp.take: an array of 2 dimensions needs an axis\nhint: write axis=0"


def test_take_along_axis_of_another_rank() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.take_along_axis(traced(3, 4), traced(3, dtype="int32"))
    assert str(error.value) == (
        "tnp.take_along_axis: x has 2 dimensions, and indices have 1\n"
        "hint: add dimensions to indices, as i[:, None]; or write tnp.take(x, i, axis)"
    )


def test_updates_that_do_not_broadcast() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(3, 4).at[0].add(traced(2, 4))
    assert str(error.value) == (
        "array.at[...].add: values of shape (2, 4) do not broadcast to the elements, of shape (4,)"
    )


def test_unknown_updates() -> None:
    with pytest.raises(UnknownAttribute) as error:
        traced(3).at[0].sub(1.0)
    assert str(error.value) == (
        "array.at[...] has no attribute 'sub'\nhint: it has add, max, min, multiply and set; x.at[i].add(-y) subtracts"
    )
    assert "x.at[...]" == repr(traced(3).at[0])


def test_updates_of_a_wider_dtype() -> None:
    with pytest.raises(ProgramTypeError) as error:
        traced(3, dtype="float16").at[0].add(traced(1))
    assert str(error.value) == (
        "array.at[...].add: the values are float32, and float16, the dtype of the array, lacks some\n"
        'hint: convert the values: y.astype("float16")'
    )


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_a_gather_of_a_scatter(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    i = np.array(data.draw(st.permutations(range(n))), np.int32)
    x, y = numbers(n), numbers(n, seed=1)
    assert_close(run(lambda a, p, b: a.at[p].set(b)[p], x, i, y), y)
