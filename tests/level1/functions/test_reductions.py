"""Tests for tilelang.level1.functions.reductions."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tilelang.numpy as tnp
from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError
from tilelang.level1.functions import reductions

_FUNCTIONS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "var": np.var, "std": np.std,
    "any": np.any, "all": np.all, "count_nonzero": np.count_nonzero,
}  # fmt: skip
_OF_NOTHING = ("sum", "prod", "any", "all", "count_nonzero")


def test_every_function_is_compared() -> None:
    assert set(reductions.__all__) == {*_FUNCTIONS, "argmax", "argmin"}


@st.composite
def _reduced(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    axes = st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1), hnp.valid_tuple_axes(len(shape)))
    return shape, draw(axes)


@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
@given(_reduced(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_floats_over_any_axes(name: str, reduced: tuple[tuple[int, ...], Any], keepdims: bool) -> None:
    shape, axis = reduced
    x = numbers(*shape)
    expected = _FUNCTIONS[name](x.astype(np.float64) if name in ("sum", "mean", "var", "std") else x, axis, keepdims=keepdims)
    assert_close(run(lambda a: getattr(tnp, name)(a, axis, keepdims=keepdims), x), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5), st.data())
@settings(max_examples=25, deadline=None)
def test_positions(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    x = numbers(*shape, dtype="int8")  # with equal elements
    expected = getattr(np, name)(x, axis, keepdims=True)
    found = run(lambda a: getattr(tnp, name)(a, axis, keepdims=True), x)
    assert "int32" == found.dtype
    assert_close(found, expected)


def test_nan_is_the_greatest_and_the_smallest() -> None:
    x = np.array([[1.0, np.nan, 3.0], [5.0, 4.0, np.inf]], np.float32)
    assert_close(run(lambda a: [tnp.max(a, 1), tnp.argmax(a, 1)], x)[1], np.argmax(x, 1))
    assert_close(run(lambda a: tnp.max(a, 1), x), np.max(x, 1))
    assert_close(run(lambda a: tnp.min(a, 1), x), np.min(x, 1))


@pytest.mark.parametrize("name", _OF_NOTHING)
def test_no_elements(name: str) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    assert_close(run(lambda a: getattr(tnp, name)(a, 1), x), _FUNCTIONS[name](x, 1))
    assert_close(run(lambda a: getattr(tnp, name)(a, 0), x), _FUNCTIONS[name](x, 0))


def test_no_axes_and_no_dimensions() -> None:
    x = numbers(2, 3)
    assert_close(run(lambda a: tnp.sum(a, ()), x), x)
    assert_close(run(lambda a: tnp.max(a[0, 0]), x), x[0, 0])
    assert_close(run(lambda a: tnp.argmax(a[0, 0]), x), 0)


@pytest.mark.parametrize(
    ("given", "result"),
    [("float16", "float16"), ("int8", "int32"), ("uint8", "int32"), ("int64", "int64"), ("bool", "int32"), ("uint32", "uint32")],
)
def test_dtypes_of_sums(given: str, result: str) -> None:
    assert result == tnp.sum(traced(4, dtype=given)).dtype


def test_sums_of_narrow_floats_are_float32() -> None:
    x = np.full(5000, 1.0, np.float16)
    assert 5000.0 == run(lambda a: tnp.sum(a, dtype="float32"), x)
    assert 2048.0 < run(lambda a: tnp.sum(a), x) < np.inf
    assert "float16" == trace(lambda a: tnp.sum(a, accumulate="float16"), x).results[0].dtype
    assert "float64" == trace(lambda a: tnp.sum(a, accumulate="float64"), x).results[0].dtype


def test_sums_in_another_dtype() -> None:
    x = numbers(100, dtype="int8")
    assert_close(run(lambda a: tnp.sum(a, dtype="int8"), x), np.sum(x, dtype=np.int8))
    assert_close(run(lambda a: tnp.sum(a, dtype="float32"), x), np.sum(x, dtype=np.float32))
    assert_close(run(lambda a: tnp.sum(a, dtype="int64"), x), np.sum(x, dtype=np.int64))
    assert 2 == run(lambda a: tnp.sum(a, dtype="int32"), np.full(5, 0.5, np.float16))


@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variances_with_a_correction(correction: float) -> None:
    x = numbers(5, 7)
    assert_close(run(lambda a: tnp.var(a, 1, correction=correction), x), np.var(x, 1, correction=correction))
    assert_close(run(lambda a: tnp.std(a, correction=correction), x), np.std(x, correction=correction))


def test_variances_do_not_cancel() -> None:
    x = numbers(100) + np.float32(10000)
    assert_close(run(tnp.var, x), np.var(x.astype(np.float64)), 1e-4)


def test_truth_of_numbers() -> None:
    x = np.array([[0, 0], [0, 2], [-1, 3]], np.int32)
    assert_close(run(lambda a: tnp.any(a, 1), x), np.any(x, 1))
    assert_close(run(lambda a: tnp.all(a, 1), x), np.all(x, 1))


# -- errors --------------------------------------------------------------------------------------------------
def test_an_axis_that_there_is_not() -> None:
    with pytest.raises(ProgramIndexError) as error:
        tnp.sum(traced(4, 5), axis=2)
    assert str(error.value) == (
        "tnp.sum: axis 2 is out of range of an array of shape (4, 5)\nhint: axes go from -2 to 1"
    )


def test_an_axis_twice() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.max(traced(4, 5), axis=(1, -1))
    assert str(error.value) == "tnp.max: axis (1, -1) names an axis twice"


@pytest.mark.parametrize("name", ["max", "min", "mean", "var", "argmax"])
def test_reductions_over_nothing(name: str) -> None:
    with pytest.raises(ProgramValueError) as error:
        getattr(tnp, name)(traced(4, 0), axis=1)
    assert str(error.value) == (
        f"tnp.{name}: the axis has no elements, and there is no {name} of nothing\n"
        "hint: only sum, prod, any, all and logsumexp have a value for no elements"
    )


def test_a_mean_of_integers_that_floats_lack() -> None:
    with pytest.raises(ProgramTypeError, match="tnp.mean: int32 with float32 would lose precision silently"):
        tnp.mean(traced(4, dtype="int32"))


def test_a_position_along_several_axes() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.argmax(traced(4, 5), axis=(0, 1))
    assert str(error.value) == "tnp.argmax: axis is (0, 1), not an int"


def test_an_array_over_an_axis_of_index_notation() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.sum(traced(4), axis=tnp.reduce_axis(4))
    assert str(error.value) == (
        "tnp.sum: an array is reduced over an axis of tnp.reduce_axis\n"
        "hint: index the array by it, tnp.sum(x[i, k], axis=k), or name the axis by an int"
    )


def test_an_expression_over_an_axis_of_an_array() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.compute((4,), lambda i: tnp.sum(traced(4, 5)[i, tnp.reduce_axis(5)], axis=1))
    assert str(error.value) == (
        "tnp.sum: an expression of tnp.compute is reduced over axes of tnp.reduce_axis\n"
        "hint: write k = tnp.reduce_axis(K) before, and tnp.sum(x[i, k], axis=k)"
    )
