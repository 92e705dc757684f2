"""Kernels with few blocks are split, and their parts combined."""

import level1_programs as graphs
import numpy as np
import pytest

from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner, Graph
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.split import can_split, split


def split_graph(graph: Graph, parts: int) -> tuple[Graph, list[list[str]]]:
    (kernel,) = fused_kernels(graph)
    assert can_split(kernel, 2)
    made = split(graph, kernel, parts)
    kernels = fused_kernels(made.graph, made.partial)
    return made.graph, [[output.array.name for output in kernel.outputs] for kernel in kernels]


def test_attention_becomes_a_kernel_over_ranges_of_keys_and_one_that_joins_them() -> None:
    graph, kernels = split_graph(graphs.attention((1, 2, 3, 1024, 16), dtype="float32"), 4)
    assert [{"largest_part", "total_part", "o_part"}, {"o"}] == [set(kernel) for kernel in kernels]
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 1024, 16)).astype(np.float32)
    arguments = [q[:, :, :3].copy(), k, v]
    whole = evaluate_graph(graphs.attention((1, 2, 3, 1024, 16), dtype="float32"), arguments, {})
    np.testing.assert_allclose(evaluate_graph(graph, arguments, {})[0], whole[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("combiner", [Combiner.SUM, Combiner.MAX, Combiner.MIN, Combiner.PROD])
@pytest.mark.parametrize("size", [512, 1000])
def test_a_reduction_of_parts_is_the_reduction(combiner: Combiner, size: int) -> None:
    g = graphs.Builder()
    x = g.parameter("x", (size,))
    graph = g.graph("f", g.reduction("y", (), (size,), combiner, lambda r: graphs.at(x, r)))
    values = np.random.default_rng(0).uniform(0.99, 1.01, size).astype(np.float32)
    made, kernels = split_graph(graph, 3)
    assert [["y_part"], ["y"]] == kernels
    expected = evaluate_graph(graph, [values], {})[0]
    if size == 512:  # ranges of equal length, which the reference can evaluate
        np.testing.assert_allclose(evaluate_graph(made, [values], {})[0], expected, rtol=1e-5)


def test_positions_are_not_split() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (1000,))
    (kernel,) = fused_kernels(g.graph("f", g.reduction("y", (), (1000,), Combiner.ARGMAX, lambda r: graphs.at(x, r))))
    assert not can_split(kernel, 2)


def test_one_range_is_no_split() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (4, 512))
    (kernel,) = fused_kernels(
        g.graph("f", g.reduction("y", (4,), (512,), Combiner.SUM, lambda i, r: graphs.at(x, i, r)))
    )
    assert [False, True, True] == [can_split(kernel, parts) for parts in (1, 2, 8)]
