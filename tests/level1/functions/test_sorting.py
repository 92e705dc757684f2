"""Tests for tilelang.level1.functions.sorting."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import OptionError, ProgramIndexError, ProgramValueError
from tilelang.level1.graph import Map, Parameter, define
from tilelang.level1.trace import tracing
from tilelang.level1.values import TracedArray


@given(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5), st.data())
@settings(max_examples=40, deadline=None)
def test_sorting(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = numbers(*shape, dtype="int8")  # with equal elements
    assert_close(run(lambda a: tnp.sort(a, axis=axis), x), np.sort(x, axis))
    assert_close(run(lambda a: tnp.argsort(a, axis=axis), x), np.argsort(x, axis, kind="stable"))
    wide = -x.astype(np.int32)
    assert_close(run(lambda a: tnp.sort(a, axis=axis, descending=True), x), -np.sort(wide, axis))
    assert_close(run(lambda a: tnp.argsort(a, axis=axis, descending=True), x), np.argsort(wide, axis, kind="stable"))
    k = data.draw(st.integers(0, shape[axis]))
    values, positions = run(lambda a: tnp.topk(a, k, axis=axis), x)
    first = np.take(np.argsort(wide, axis, kind="stable"), np.arange(k), axis)
    assert_close(positions, first)
    assert_close(values, np.take_along_axis(x, first, axis))


def test_nan_is_sorted_last() -> None:
    x = np.array([np.nan, 1, -np.inf, np.inf, np.nan, -1], np.float32)
    assert_close(run(tnp.sort, x), np.sort(x))
    assert_close(run(tnp.argsort, x), np.argsort(x, kind="stable"))


def test_the_smallest() -> None:
    x = numbers(3, 8)
    values, positions = run(lambda a: tnp.topk(a, 3, largest=False), x)
    assert_close(values, np.sort(x, -1)[:, :3])
    assert_close(positions, np.argsort(x, -1, kind="stable")[:, :3])


@pytest.mark.parametrize(("shape", "axis"), [((5,), None), ((3, 4), 0), ((3, 4), -1), ((2, 0), 1), ((0, 2), 1)])
def test_cumulative(shape: tuple[int, ...], axis: int | None) -> None:
    x = numbers(*shape)
    wide = x.astype(np.float64)
    assert_close(run(lambda a: tnp.cumulative_sum(a, axis=axis), x), np.cumsum(wide, axis))
    assert_close(run(lambda a: tnp.cumulative_prod(a, axis=axis), x), np.cumprod(wide, axis))
    expected = np.cumulative_sum(wide, axis=axis, include_initial=True)
    assert_close(run(lambda a: tnp.cumulative_sum(a, axis=axis, include_initial=True), x), expected)
    expected = np.cumulative_prod(wide, axis=axis, include_initial=True)
    assert_close(run(lambda a: tnp.cumulative_prod(a, axis=axis, include_initial=True), x), expected)


def test_cumulative_dtypes() -> None:
    assert "int32" == tnp.cumulative_sum(traced(3, dtype="int8")).dtype
    x = np.ones(4096, np.float16)
    assert 4096 == run(tnp.cumulative_sum, x)[-1]
    assert "float64" == run(lambda a: tnp.cumulative_sum(a, dtype="float64"), x).dtype


def test_one_element_is_in_order() -> None:
    x = numbers(3, 1)
    graph = trace(lambda a: [tnp.sort(a), tnp.argsort(a), tnp.cumulative_sum(a, axis=1)], x)
    assert all(isinstance(array.definition, Map) for array in graph.results)
    values, positions, sums = run(lambda a: [tnp.sort(a), tnp.argsort(a), tnp.cumulative_sum(a, axis=1)], x)
    assert_close(values, x)
    assert_close(positions, np.zeros((3, 1), np.int32))
    assert_close(sums, x)


def test_too_many() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.topk(traced(3, 4), 5)
    assert str(error.value) == "tnp.topk: k is 5, but axis 1 has the extent 4"


def test_no_axis_to_accumulate_along() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.cumulative_sum(traced(3, 4))
    assert str(error.value) == "tnp.cumulative_sum: an array of 2 dimensions needs an axis\nhint: write axis=0"


def test_no_axis_to_sort_along() -> None:
    with pytest.raises(ProgramIndexError) as error:
        tnp.sort(traced())
    assert str(error.value) == (
        "tnp.sort: axis -1 is out of range of an array of shape ()\nhint: an array without dimensions has no axes"
    )


def test_a_negative_count() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.topk(traced(3, 4), -1)
    assert str(error.value) == "tnp.topk: k is -1"


def test_an_axis_of_a_symbolic_extent() -> None:
    n = T.dynamic("n")
    x = TracedArray(define("x", (4, n), DType("float32"), Parameter(0)))
    for function in (tnp.sort, tnp.argsort, tnp.cumulative_sum):
        assert n is function(x, axis=1).node.shape[1]
    with tracing() as required:
        values, positions = tnp.topk(x, 3)
    assert [(4, 3)] * 2 == [values.shape, positions.shape]
    message = "tnp.topk: k is 3, but axis 1 has fewer elements"
    assert [(True, 3, message)] * 2 == [(each.extent is n, each.least, each.message) for each in required]


@pytest.mark.parametrize("size", [0, 1, 9])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_order(side: Any, size: int) -> None:
    x = np.sort(np.random.default_rng(0).integers(-2, 3, size).astype(np.float32))
    values = np.array([[-3, -2, 0, 1], [2, 3, np.nan, np.inf]], np.float32)
    x[7:] = np.nan
    assert_close(run(lambda a, v: tnp.searchsorted(a, v, side=side), x, values), np.searchsorted(x, values, side))


def test_places_in_what_is_no_vector() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.searchsorted(traced(2, 3), traced(2))
    assert str(error.value) == "tnp.searchsorted: x1 has 2 dimensions, and must have one"
    with pytest.raises(OptionError) as option:
        tnp.searchsorted(traced(3), traced(2), side="middle")
    assert str(option.value).startswith("side: unknown name 'middle'")
