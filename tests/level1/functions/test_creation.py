"""Tests for tilelang.level1.functions.creation."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, traced

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import OptionError, ProgramTypeError, ProgramValueError
from tilelang.level1.graph import Parameter, define
from tilelang.level1.values import TracedArray


@pytest.mark.parametrize(
    "bounds", [(5,), (0,), (-3,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -3), (0, 10, -1), (1.5,), (0.0, 1.0, 0.25), (0, 2, 0.5)]
)
def test_ranges(bounds: tuple[Any, ...]) -> None:
    expected = np.arange(*bounds)
    assert_close(run(lambda: tnp.arange(*bounds)), expected.astype(np.float32 if expected.dtype.kind == "f" else np.int32))


def test_dtypes_of_ranges() -> None:
    assert "int32" == run(lambda: tnp.arange(3)).dtype
    assert "int64" == run(lambda: tnp.arange(3, dtype="int64")).dtype
    assert_close(run(lambda: tnp.arange(3, dtype="float16")), np.arange(3, dtype=np.float16))


def test_a_range_of_a_symbolic_size() -> None:
    n = T.dynamic("n")
    x = TracedArray(define("x", (n, 4), DType("float32"), Parameter(0)))
    assert tnp.arange(x.shape[0]).node.shape[0] is n
    assert (x + tnp.arange(x.shape[0])[:, None]).node.shape[0] is n


@pytest.mark.parametrize(("start", "stop", "num", "endpoint"), [(0.0, 1.0, 5, True), (2.0, -1.0, 4, False), (1.0, 1.0, 1, True), (0, 1, 0, True)])
def test_linspace(start: float, stop: float, num: int, endpoint: bool) -> None:
    assert_close(run(lambda: tnp.linspace(start, stop, num, endpoint=endpoint)), np.linspace(start, stop, num, endpoint=endpoint))


def test_filled_arrays() -> None:
    x = numbers(2, 3, dtype="int8")
    assert_close(run(lambda: tnp.zeros((2, 3))), np.zeros((2, 3)))
    assert_close(run(lambda: tnp.ones(4, dtype="int32")), np.ones(4, np.int32))
    assert_close(run(lambda: tnp.full((2, 0), 7)), np.full((2, 0), 7))
    assert_close(run(lambda: tnp.full((), 2.5)), np.full((), 2.5))
    assert_close(run(lambda a: tnp.full((2, 2), a[0, 0]), x), np.full((2, 2), x[0, 0]))
    assert_close(run(tnp.zeros_like, x), np.zeros_like(x))
    assert_close(run(lambda a: tnp.ones_like(a, dtype="float32"), x), np.ones((2, 3)))
    assert_close(run(lambda a: tnp.full_like(a, 3), x), np.full_like(x, 3))
    assert ["float32", "int32", "float32", "bool", "int8"] == [
        tnp.zeros(3).dtype, tnp.full(3, 1).dtype, tnp.full(3, 1.0).dtype, tnp.full(3, True).dtype, tnp.zeros_like(traced(2, dtype="int8")).dtype,
    ]  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "k"), [(3, None, 0), (3, 5, 1), (5, 3, -2), (0, 3, 0), (2, 2, 5)])
def test_eye(rows: int, columns: Any, k: int) -> None:
    assert_close(run(lambda: tnp.eye(rows, columns, k=k)), np.eye(rows, columns, k))


@pytest.mark.parametrize("k", [0, 1, -2])
def test_triangles(k: int) -> None:
    x = numbers(2, 4, 5)
    assert_close(run(lambda a: tnp.tril(a, k=k), x), np.tril(x, k))
    assert_close(run(lambda a: tnp.triu(a, k=k), x), np.triu(x, k))


# -- errors --------------------------------------------------------------------------------------------------
def test_a_range_with_an_array() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.arange(traced())
    assert str(error.value) == (
        "tnp.arange: an argument is an array\nhint: the length of an array is known beforehand"
    )


def test_a_range_without_a_step() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.arange(0, 5, 0)
    assert str(error.value) == "tnp.arange: step is 0, not an int other than 0"


def test_a_value_with_dimensions() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.full((2, 3), traced(3))
    assert str(error.value) == (
        "tnp.full: the value is an array with dimensions\nhint: write tnp.broadcast_to(x, shape)"
    )


def test_the_triangle_of_a_vector() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.tril(traced(3))
    assert str(error.value) == "tnp.tril: takes matrices, got an array of 1 dimensions"


def test_arrays_of_lists() -> None:
    x = numbers(2)
    assert_close(run(lambda a: tnp.asarray([[1, 2], [3, 4.5]]), x), np.array([[1, 2], [3, 4.5]], np.float32))
    assert_close(run(lambda a: tnp.asarray([a, (0.5, a[1])]), x), np.array([x, [0.5, x[1]]]))
    assert "int8" == tnp.asarray([1, 2], dtype="int8").dtype
    array = traced(3)
    assert tnp.asarray(array) is array
    for given, message in (([], "tnp.asarray: a list is empty"), ([1, [2, 3]], "tnp.stack: ")):
        with pytest.raises(ProgramValueError) as error:
            tnp.asarray(given)
        assert error.value.message.startswith(message)


@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (2, 3, 4), (1, 0)])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_coordinates(sizes: tuple[int, ...], indexing: str) -> None:
    vectors = [numbers(size, seed=size) for size in sizes]
    expected = np.meshgrid(*vectors, indexing=indexing)
    found = tnp.meshgrid(*[traced(size) for size in sizes], indexing=indexing)
    assert [each.shape for each in expected] == [each.shape for each in found]
    if len(sizes) > 1:
        for one, other in zip(run(lambda *x: tnp.meshgrid(*x, indexing=indexing), *vectors), expected, strict=True):
            assert_close(one, other)


def test_coordinates_of_what_is_no_vector() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.meshgrid(traced(2, 3))
    assert str(error.value) == "tnp.meshgrid: takes vectors, got an array of 2 dimensions"
    with pytest.raises(OptionError) as option:
        tnp.meshgrid(traced(2), indexing="yx")
    assert str(option.value).startswith("indexing: unknown name 'yx'")
