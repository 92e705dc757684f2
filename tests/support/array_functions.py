"""Runs functions of `tilelang.numpy` by the reference, beside NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.dtypes import as_dtype
from tilelang.level1.elements import as_array
from tilelang.level1.graph import Graph, Parameter, define
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.values import TracedArray


def trace(function: Callable[..., Any], *arrays: np.ndarray) -> Graph:
    """The graph of a function on arrays of these shapes and dtypes."""
    parameters = [define(f"x{n}", a.shape, as_dtype(a.dtype), Parameter(n)) for n, a in enumerate(arrays)]
    result = function(*map(TracedArray, parameters))
    results = result if isinstance(result, list | tuple) else (result,)
    return Graph("f", tuple(parameters), tuple(as_array(each).node for each in results))


def run(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """What a function gives on arrays: one array, or a list."""
    values = evaluate_graph(trace(function, *arrays), arrays, {})
    return values[0] if len(values) == 1 else values


def traced(*shape: int, dtype: str = "float32") -> TracedArray:
    """An array without values."""
    return TracedArray(define("x", shape, as_dtype(dtype), Parameter(0)))


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Random numbers: of floats, some around 0 and none that is special; of integers, small ones of either sign."""
    rng = np.random.default_rng(seed)
    row = as_dtype(dtype)
    if row.is_float:
        return rng.standard_normal(shape).astype(row.numpy)
    return rng.integers(-9 if row.limits[0] < 0 else 0, 2 if row.is_bool else 10, shape).astype(row.numpy)


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    """Compares shapes and values; integers and bools exactly."""
    expected = np.asarray(expected)
    assert expected.shape == found.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(expected, found)
    else:
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)
