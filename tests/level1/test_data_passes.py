"""Which reductions share a loop."""

import level1_programs as graphs

from tilelang.level1.data_passes import data_passes
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph


def shown(graph: Graph) -> list[list[str]]:
    (kernel,) = fused_kernels(graph)
    return [
        [a.reduction.array.name for a in each.accumulations] + [f"store {o.array.name}" for o in each.outputs]
        for each in data_passes(kernel)
    ]


def test_attention_needs_one_pass() -> None:
    assert [["largest", "total", "o"]] == shown(graphs.attention((2, 3, 40, 72, 32)))


def test_softmax_needs_one_pass_to_reduce_and_one_to_store() -> None:
    assert [["largest", "total"], ["store y"]] == shown(graphs.softmax(5, 33))


def test_the_variance_needs_the_mean() -> None:
    graph = graphs.layer_norm(5, 33)
    assert [["s"], ["squares"], ["store y"]] == shown(graph)
    (kernel,) = fused_kernels(graph)
    assert "change by different factors" in data_passes(kernel)[1].reasons[0]


def test_factors_move_behind_the_loop() -> None:
    (kernel,) = fused_kernels(graphs.attention((2, 3, 40, 72, 32)))
    last = data_passes(kernel)[0].accumulations[-1]
    assert last.body is not last.reduction.body
    assert "o[b, h, i, c] * (1.0 / total[b, h, i])" == repr(last.final(last.reduction.result))
