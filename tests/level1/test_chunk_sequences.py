"""Scans and top-k in chunks give the results of whole ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_functions import trace

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType, as_dtype
from tilelang.ir.expr import int_const
from tilelang.level1 import chunk_sequences
from tilelang.level1.chunk_sequences import with_chunked_sequences
from tilelang.level1.graph import Graph, Parameter, Scan, Sort, define
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.values import TracedArray
from tilelang.targets.target import parse_target

H200 = {"kind": "cuda", "arch": "sm_90a"}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_sequences, "MAX_SEQUENCE", 32)
    monkeypatch.setattr(chunk_sequences, "_CHUNK", 8)


def results(function: Callable[..., Any], x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Those of the graph in chunks, and of the graph as it is."""
    graph = trace(function, x)
    chunked = with_chunked_sequences(graph, parse_target(H200))
    assert chunked is not graph
    return evaluate_graph(chunked, [x], {}), evaluate_graph(graph, [x], {})


def data(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "float32":
        values = rng.integers(-20, 20, shape).astype(dtype)
        values.flat[3::17] = np.nan
        values.flat[5::19] = -np.inf
        values.flat[7::23] = np.inf
        return values
    return rng.integers(-128, 127, shape).astype(dtype)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("size", [33, 64, 301])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_first_elements(size: int, largest: bool, dtype: str) -> None:
    found, expected = results(lambda x: tnp.topk(x, 4, axis=1, largest=largest), data(dtype, 3, size, 2))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float4_e2m1fn"])
def test_the_first_of_equal_elements(largest: bool, dtype: str) -> None:
    x = np.full((1, 33), -448 if largest else 448).astype(as_dtype(dtype).numpy)
    found, expected = results(lambda x: tnp.topk(x, 4, axis=1, largest=largest), x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("size", [33, 64, 301])
@pytest.mark.parametrize("function", [tnp.cumulative_sum, tnp.cumulative_prod])
def test_scans(size: int, function: Callable[..., Any]) -> None:
    x = np.random.default_rng(0).integers(1, 3, (3, size, 2)).astype(np.int32)
    (found,), (expected,) = results(lambda x: function(x, axis=1), x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("short")
def test_a_scan_of_a_scan() -> None:
    x = np.random.default_rng(0).integers(0, 9, (2, 100)).astype(np.int32)
    (found,), (expected,) = results(lambda x: tnp.cumulative_sum(tnp.cumulative_sum(x, axis=1), axis=1), x)
    np.testing.assert_array_equal(found, expected)


def test_what_a_block_holds_stays_whole() -> None:
    graph = trace(lambda x: tnp.cumulative_sum(x, axis=1), np.zeros((2, 16384), np.float32))
    assert with_chunked_sequences(graph, parse_target(H200)) is graph
    longer = trace(lambda x: tnp.cumulative_sum(x, axis=1), np.zeros((2, 16385), np.float32))
    assert with_chunked_sequences(longer, parse_target("cpu")) is longer


def test_on_the_simulator() -> None:
    @tilelang.compute(target=H200, execution_backend="simulator")
    def both(x):  # type: ignore[no-untyped-def]
        return tnp.cumulative_sum(x, axis=1), tnp.topk(x, 3)

    x = np.random.default_rng(0).permutation(17000).astype(np.float32)[None]
    sums, (values, places) = both(x)
    np.testing.assert_allclose(sums, np.cumsum(x, axis=1, dtype=np.float64), rtol=1e-5)
    order = np.argsort(-x[0])[:3]
    np.testing.assert_array_equal(values[0], x[0, order])
    np.testing.assert_array_equal(places[0], order)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_symbolic_extents(size: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_sequences, "_SYMBOLIC_CHUNK", 8)
    n = T.dynamic("n")
    array = TracedArray(define("x", (3, n), DType("int32"), Parameter(0)))
    functions = {
        "scan": lambda: [tnp.cumulative_sum(array, axis=1), tnp.cumulative_prod(array, axis=1)],
        "sort": lambda: [tnp.sort(array), tnp.argsort(array, descending=True)],
        "select": lambda: [*tnp.topk(array, 4), *tnp.topk(array, 5, largest=False)] if size >= 5 else [],
    }
    x = np.random.default_rng(0).integers(-3, 3, (3, size)).astype(np.int32)
    for function in functions.values():
        graph = Graph("f", (array.node,), tuple(each.node for each in function()))
        divided = with_chunked_sequences(graph, parse_target(H200 if kind == "cuda" else "cpu"))
        assert not any(
            isinstance(each.definition, Scan | Sort) and int_const(each.shape[each.definition.along]) is None
            for each in divided.arrays
        )
        expected = evaluate_graph(graph, [x], {n: size})
        for one, other in zip(evaluate_graph(divided, [x], {n: size}), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_sorts_that_no_block_holds() -> None:
    target = parse_target(H200)
    for function, size, is_divided in (
        (tnp.sort, 32768, False), (tnp.argsort, 16384, False), (tnp.argsort, 16385, True), (tnp.sort, 40000, True),
        (lambda x: tnp.topk(x, 3000)[1], 20000, True),
    ):  # fmt: skip
        graph = trace(function, np.zeros((2, size), np.float32))
        assert is_divided == (with_chunked_sequences(graph, target) is not graph)
