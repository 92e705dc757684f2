"""Tests for tilelang.level1.graph."""

import math

import pytest
from level1_graphs import F16, F32, I32, matmul, parameter

from tilelang.dtypes import DType
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Var
from tilelang.level1.graph import (
    Combiner,
    Graph,
    KernelCall,
    KernelResult,
    Map,
    Scatter,
    axes_for,
    body_at,
    define,
    element,
)


def test_arrays_are_told_apart_by_identity() -> None:
    a, b = parameter("a", (4,)), parameter("a", (4,))
    assert a != b
    assert 2 == len({a, b})


def test_an_array_stores_its_dtype_unless_another_one_is_given() -> None:
    graph = matmul()
    assert (F16, F16) == (graph.parameters[0].dtype, graph.parameters[0].stored_dtype)
    assert (F32, F16) == (graph.results[0].dtype, graph.results[0].stored_dtype)


def test_sources_are_what_the_definition_reads_each_once() -> None:
    a, axes = parameter("a", (4,)), axes_for((4,))
    square = define("s", (4,), F16, Map(axes, element(a, axes) * element(a, axes)))
    assert (a,) == square.sources
    assert 2 == len(square.loads)


def test_a_scatter_reads_its_base_and_its_updates() -> None:
    base, updates, at = parameter("x", (8,), F32), parameter("y", (3,), F32, 1), parameter("i", (3,), I32, 2)
    axes = axes_for((3,))
    definition = Scatter(base, axes, updates.shape, (element(at, axes),), element(updates, axes), Combiner.SUM)
    assert (base, at, updates) == define("z", (8,), F32, definition).sources


def test_the_result_of_a_kernel_reads_the_arrays_among_its_arguments() -> None:
    a = parameter("a", (4,))
    assert (a,) == define("r", (4,), F16, KernelResult(KernelCall(print, (a, 3)), 0)).sources


def test_arrays_come_after_those_they_read_and_only_if_results_need_them() -> None:
    a, unused = parameter("a", (4,), F32), parameter("u", (4,), F32, 1)
    axes = axes_for((4,))
    double = define("d", (4,), F32, Map(axes, element(a, axes) * 2.0))
    define("nowhere", (4,), F32, Map(axes, element(a, axes) * 3.0))
    both = define("b", (4,), F32, Map(axes, element(a, axes) + element(double, axes)))
    assert (a, unused, double, both) == Graph("f", (a, unused), (both, double)).arrays


def test_long_chains_do_not_recurse() -> None:
    array = first = parameter("a", (4,), F32)
    axes = axes_for((4,))
    for _ in range(3000):
        array = define("x", (4,), F32, Map(axes, element(array, axes) + 1.0))
    assert 3001 == len(Graph("f", (first,), (array,)).arrays)


def test_symbols_are_those_of_the_parameters_in_order() -> None:
    n, m = Var("n", I32, index=True), Var("m", I32, index=True)
    a, b = parameter("a", (m, 4)), parameter("b", (n * 2, m), position=1)
    assert (m, n) == Graph("f", (a, b), ()).symbols


def test_the_body_of_a_map_stands_in_place_of_a_read() -> None:
    a = parameter("a", (4, 5), F32)
    i, j = axes_for((5, 4))
    transposed = define("t", (5, 4), F32, Map((i, j), element(a, (j, i))))
    x, y = axes_for((5, 4), "xy")
    expected: Expr = element(a, (y + 1, x))
    assert same_expr(expected, body_at(transposed, (x, y + 1)))


@pytest.mark.parametrize(
    ("combiner", "dtype", "expected"),
    [
        (Combiner.SUM, "float32", 0), (Combiner.PROD, "int32", 1), (Combiner.MAX, "float32", -math.inf),
        (Combiner.MIN, "float16", math.inf), (Combiner.MAX, "int8", -128), (Combiner.MIN, "uint8", 255),
        (Combiner.MAX, "bool", 0), (Combiner.MIN, "bool", 1), (Combiner.ARGMAX, "float32", -math.inf),
    ],
)  # fmt: skip
def test_neutral_elements(combiner: Combiner, dtype: str, expected: float) -> None:
    assert expected == combiner.neutral(DType(dtype))
