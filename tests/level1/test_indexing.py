"""Tests for tilelang.level1.indexing: every form of index beside NumPy's, symbolic bounds, errors."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tilelang
import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError
from tilelang.level1.graph import Graph, Parameter, define
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.values import TracedArray


@given(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5), st.data())
@settings(max_examples=2 * settings().max_examples)
def test_views(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbers(*shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6))
    assert_close(run(lambda a: a[key], x), x[key])


_I, _J, _K = np.array([[2, -1, 0]], np.int32), np.array([[1], [0]], np.int64), np.array([3, 0, 3, 1], np.uint8)


@pytest.mark.parametrize(
    "key",
    [
        lambda i, j, k: i, lambda i, j, k: (i, j), lambda i, j, k: (slice(None), k), lambda i, j, k: (i, slice(None), j),
        lambda i, j, k: (0, slice(None), k), lambda i, j, k: (slice(None), i, 0), lambda i, j, k: (Ellipsis, k),
        lambda i, j, k: (None, i), lambda i, j, k: (i, None, j), lambda i, j, k: (slice(1, None), i, j),
        lambda i, j, k: (i, 1, j), lambda i, j, k: (j[0, 0],), lambda i, j, k: (slice(0, 2), j[1, 0], slice(None, None, -1)),
        lambda i, j, k: (slice(None), slice(None), None, j), lambda i, j, k: (i, i, i),
    ],
)  # fmt: skip
def test_gathers(key: Any) -> None:
    x = numbers(3, 4, 5)
    assert_close(run(lambda a, i, j, k: a[key(i, j, k)], x, _I, _J, _K), x[key(_I, _J, _K)])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_gather(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    x = numbers(*shape)
    places = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(min_dims=0, max_dims=2, max_side=3)))
    places = tuple(np.asarray(place, np.int32) for place in places)
    assert_close(run(lambda a, *i: a[i], x, *places), x[places])


def test_no_elements_to_gather() -> None:
    x, i = numbers(3, 4), np.zeros((0, 2), np.int32)
    assert_close(run(lambda a, n: a[n], x, i), x[i])


def test_iteration_and_length() -> None:
    x = numbers(3, 4)
    assert 3 == len(traced(3, 4))
    for found, expected in zip(run(lambda a: list(a), x), x, strict=True):
        assert_close(found, expected)


def symbolic(*shape: Any) -> TracedArray:
    return TracedArray(define("x", shape, DType("float32"), Parameter(0)))


@pytest.mark.parametrize(
    ("key", "shape", "body"),
    [
        (slice(None), "(n, 4)", "x[i, j]"),
        (slice(None, None, -1), "(n, 4)", "x[n - 1 + i * -1, j]"),
        (slice(None, -2), "(T.max(n - 2, 0), 4)", "x[i, j]"),
        (slice(1, None), "(T.max(n - 1, 0), 4)", "x[1 + i, j]"),
        (slice(-3, None), "(n - T.max(n + -3, 0), 4)", "x[T.max(n + -3, 0) + i, j]"),
        (slice(None, 3), "(T.min(3, n), 4)", "x[i, j]"),
        ((slice(None), slice(1, 3)), "(n, 2)", "x[i, 1 + j]"),
        (-1, "(4,)", "x[n + -1, i]"),
    ],
    ids=str,
)
def test_symbolic_extents(key: Any, shape: str, body: str) -> None:
    x = symbolic(T.dynamic("n"), 4)
    graph = trace(lambda: x[key])
    text = str(graph)
    assert body in text
    assert f"[{shape[1:-1].rstrip(',')}] ;" in text


def test_neighbors_along_a_symbolic_extent() -> None:
    x = symbolic(T.dynamic("n"), 4)
    assert 2 == (x[1:] - x[:-1]).ndim


@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "key", [slice(1, None), slice(None, -1), slice(-3, None), slice(2, 4), slice(None, None, -1), slice(3, 0, -2), slice(-2, None, -1), slice(7, None)]
)  # fmt: skip
def test_slices_of_symbolic_extents_are_those_of_numpy(key: slice, size: int) -> None:
    n = T.dynamic("n")
    graph = trace(lambda: symbolic(n)[key])
    x = numbers(size)
    parameter = graph.arrays[0]
    graph = Graph("f", (parameter,), graph.results)
    assert_close(evaluate_graph(graph, (x,), {n: size})[0], x[key])


def test_a_symbolic_bound_of_a_static_extent() -> None:
    x = symbolic(T.dynamic("n"), 8)
    (n, _) = x.shape
    assert "[T.min(n, 8)]" in str(trace(lambda: x[0, :n]))


# -- errors --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "message"),
    [
        (4, "x[...]: the index 4 is out of range of a dimension of extent 4"),
        ((0, -6), "x[...]: the index -6 is out of range of a dimension of extent 5"),
        ((0, 0, 0), "x[...]: 3 indices for an array of shape (4, 5)"),
        ((Ellipsis, Ellipsis), "x[...]: an index can only have a single ellipsis ('...')"),
        (slice(None, None, 0), "x[...]: the step of a slice is an int other than 0, got 0"),
    ],
    ids=str,
)
def test_indices_that_are_out_of_range(key: Any, message: str) -> None:
    with pytest.raises(ProgramIndexError) as error:
        traced(4, 5)[key]
    assert str(error.value) == message


@pytest.mark.parametrize("key", [2, -3])
@pytest.mark.parametrize("backend", ["reference", None])
def test_indices_that_are_out_of_range_of_a_symbolic_size(key: int, backend: str | None) -> None:
    @tilelang.compute(target="cpu", execution_backend=backend)
    def picked(x: T.Tensor((T.dynamic("n"),), "float32")) -> Any:
        return x[key] + x.at[key].set(1.0)

    assert_close(picked(np.zeros(3, np.float32)), np.eye(3, dtype=np.float32)[key])
    with pytest.raises(ProgramValueError) as error:
        picked(np.zeros(2, np.float32))
    assert f"x[...]: the index {key} is out of range of n, which is less than 3" == error.value.message


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (lambda x: 1.5, 'x[...]: an index is float32\nhint: indices are integers: i.astype("int32"), or i // n in place of i / n'),
        (lambda x: True, "x[...]: an index is a bool\nhint: write x[None] for a new dimension, and tnp.where to choose by a condition"),
        (lambda x: [1, 2], "x[...]: an index is a list\nhint: write x[i] for each of its integers i, and tnp.stack or tnp.concat"),
        (
            lambda x: x > 0,
            "x[...]: an index is an array of bools, so that the number of elements would depend on values\n"
            "hint: write tnp.where(condition, x, y), which keeps the shape",
        ),
    ],
)
def test_indices_that_are_no_integers(key: Any, message: str) -> None:
    x = traced(4, 5)
    with pytest.raises(ProgramTypeError) as error:
        x[key(x)]
    assert str(error.value) == message


def test_a_bound_that_depends_on_values() -> None:
    with pytest.raises(ProgramIndexError) as error:
        traced(4)[: traced(3, dtype="int32")[0]]
    assert str(error.value) == (
        "x[...]: a bound of a slice depends on values of an array, so that the shape would, too\n"
        "hint: write tnp.where(condition, x, y), which keeps the shape, or gather by tnp.take"
    )
