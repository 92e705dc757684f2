"""Tests for tilelang.level1.split_calls."""

import numpy as np
from array_functions import assert_close, numbers, trace
from level1_kernels import scaled_and_shifted

import tilelang.numpy as tnp
from tilelang.level1.graph import Graph, KernelResult
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.split_calls import has_calls, split_at_calls


def _graph() -> Graph:
    kernel = scaled_and_shifted(execution_backend="reference")

    def f(x, w):
        y, z = kernel(tnp.exp(x) + w, 2.0)
        (y, _) = kernel(y - z, 3.0)
        return tnp.sum(y) + w, z

    return trace(f, numbers(5), numbers(5))


def test_parts_have_no_calls_and_take_what_they_read() -> None:
    graph = _graph()
    assert has_calls(graph)
    segments = split_at_calls(graph)
    assert [False] * 3 == [has_calls(segment.graph) for segment in segments]
    assert [["x0", "x1"], ["y", "z"], ["x1", "z", "y"]] == [[a.name for a in segment.inputs] for segment in segments]
    assert [2, 1, 0] == [len(segment.made) for segment in segments]
    assert graph.results == segments[-1].outputs
    assert ["f_0", "f_1", "f_2"] == [segment.graph.name for segment in segments]


def test_parts_compute_what_the_whole_does() -> None:
    graph = _graph()
    x, w = numbers(5), numbers(5, seed=1)
    values = dict(zip(graph.parameters, (x, w), strict=True))
    for segment in split_at_calls(graph):
        results = evaluate_graph(segment.graph, [values[array] for array in segment.inputs], {})
        values.update(zip(segment.outputs, results, strict=True))
        if segment.call is not None:
            (given,), number = [values[a] for a in segment.call.arguments[:1]], np.float32(segment.call.arguments[1])
            for array in segment.made:
                assert isinstance(array.definition, KernelResult)
                values[array] = given + number if array.definition.position else given * number
    for array, expected in zip(graph.results, evaluate_graph(graph, (x, w), {}), strict=True):
        assert_close(values[array], expected)


def test_a_graph_without_calls_is_one_part() -> None:
    graph = trace(lambda x: x.at[x.astype("int32")].add(1.0) + tnp.cumulative_sum(x), numbers(4))
    (segment,) = split_at_calls(graph)
    assert not has_calls(graph)
    x = np.abs(numbers(4))
    assert_close(evaluate_graph(segment.graph, (x,), {})[0], evaluate_graph(graph, (x,), {})[0])
