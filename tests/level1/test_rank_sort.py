"""Sorts by ranks give the results of sorts."""

import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.deduplicate import with_arrays
from tilelang.level1.graph import Sort
from tilelang.level1.rank_sort import sorted_by_rank
from tilelang.level1.reference import evaluate_graph

DTYPES = ["float16", "float32", "float64", "int8", "int64", "uint8", "bool"]


def data(dtype: str, *shape: int) -> np.ndarray:
    """Values of which many are equal; of floats, some are special."""
    values = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 12, shape).astype(dtype)
    if np.issubdtype(values.dtype, np.floating):
        values.flat[3::7] = np.nan
        values.flat[5::11] = -np.inf
        values.flat[2::13] = np.inf
    return values


@pytest.mark.parametrize("shape", [(3, 37, 2), (1, 1, 1), (2, 2, 3)])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_elements(dtype: str, descending: bool, shape: tuple[int, ...]) -> None:
    x = data(dtype, *shape)
    options = {"axis": 1, "descending": descending}
    graph = trace(lambda a: [tnp.sort(a, **options), tnp.argsort(a, **options)], x)
    made = {array: sorted_by_rank(array, sort) for array in graph.results if isinstance(sort := array.definition, Sort)}
    found = evaluate_graph(with_arrays(graph, made), [x], {})
    for one, other in zip(found, evaluate_graph(graph, [x], {}), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("largest", [False, True])
def test_the_first_elements(largest: bool) -> None:
    x = data("float32", 2, 40)
    graph = trace(lambda a: tnp.topk(a * 2, 7, largest=largest), x)
    made = {array: sorted_by_rank(array, array.definition) for array in graph.results}
    found = evaluate_graph(with_arrays(graph, made), [x], {})
    for one, other in zip(found, evaluate_graph(graph, [x], {}), strict=True):
        np.testing.assert_array_equal(one, other)
