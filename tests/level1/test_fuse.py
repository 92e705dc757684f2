"""Kernels grow over what shares axes; what does not is stored."""

from typing import Any

import level1_programs as graphs
import numpy as np
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.ir.expr import Expr
from tilelang.level1.deduplicate import without_duplicates
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.fused import FusedKernel
from tilelang.level1.graph import Combiner, Graph


def shown(graph: Graph) -> list[tuple[list[str], list[str]]]:
    """For each kernel, the names of its reductions and of its outputs."""
    return [
        ([r.array.name for r in kernel.reductions], [output.array.name for output in kernel.outputs])
        for kernel in fused_kernels(graph)
    ]


def axes(kernel: FusedKernel) -> str:
    return " ".join(axis.name for axis in kernel.extents)


def test_attention_is_one_kernel_over_common_axes() -> None:
    (kernel,) = fused_kernels(graphs.attention((2, 3, 40, 72, 32)))
    assert ["scores", "largest", "total", "o"] == [r.array.name for r in kernel.reductions]
    assert "b h i c j e" == axes(kernel)


def test_the_axis_of_a_row_is_the_one_that_reductions_of_it_reduce() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    assert "i j" == axes(kernel)
    (output,) = kernel.outputs
    assert "T.exp(x[i, j] - largest[i]) / total[i]" == repr(output.body)


def test_a_reduction_read_at_other_places_is_stored() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (9, 20))
    s = g.reduction("s", (20,), (9,), Combiner.SUM, lambda j, r: graphs.at(x, r, j))
    y = g.map("y", (9, 20), lambda i, j: graphs.at(x, i, j) + graphs.at(s, 19 - j))
    assert [(["s"], ["s"]), ([], ["y"])] == shown(g.graph("flipped", y))


def test_a_reduction_read_in_two_ways_is_stored() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (9, 9))
    s = g.reduction("s", (9,), (9,), Combiner.SUM, lambda j, r: graphs.at(x, r, j))
    y = g.map("y", (9, 9), lambda i, j: graphs.at(s, i) + graphs.at(s, j))
    assert [(["s"], ["s"]), ([], ["y"])] == shown(g.graph("outer", y))


def test_an_operand_that_blocks_would_compute_again_is_stored_whole() -> None:
    """rms_norm(x) @ w: columns of w are too many for one block, so the normalized rows are stored."""
    g = graphs.Builder()
    x, w = g.parameter("x", (64, 256)), g.parameter("w", (256, 4096))
    s = g.reduction("s", (64,), (256,), Combiner.SUM, lambda i, r: graphs.at(x, i, r) * graphs.at(x, i, r))
    normal = g.map("normal", (64, 256), lambda i, j: graphs.at(x, i, j) / graphs.at(s, i))

    def body(i: Expr, j: Expr, r: Expr) -> Expr:
        return graphs.at(normal, i, r) * graphs.at(w, r, j)

    y = g.reduction("y", (64, 4096), (256,), Combiner.SUM, body)
    assert [(["s"], ["normal"]), (["y"], ["y"])] == shown(g.graph("projection", y))


def test_a_reduction_over_nothing_is_its_neutral_value() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (5, 0))
    s = g.reduction("s", (5,), (0,), Combiner.SUM, lambda i, r: graphs.at(x, i, r))
    (kernel,) = fused_kernels(g.graph("empty", g.map("y", (5,), lambda i: graphs.at(s, i) + 1.0)))
    assert (1.0, ()) == (kernel.outputs[0].body.value, kernel.reductions)  # type: ignore[attr-defined]


def test_a_reshape_of_a_result_is_stored_by_its_kernel() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (6, 4, 20))
    s = g.reduction("s", (6, 4), (20,), Combiner.SUM, lambda i, j, r: graphs.at(x, i, j, r))
    y = g.map("y", (24,), lambda k: graphs.at(s, k // 4, k % 4))
    (kernel,) = fused_kernels(g.graph("reshaped", y))
    assert ["i0 * 4 + i1"] == [repr(index) for index in kernel.outputs[0].indices]


def test_results_over_the_same_elements_share_a_kernel() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (64, 40))
    s = g.reduction("s", (64,), (40,), Combiner.SUM, lambda i, r: graphs.at(x, i, r))
    m = g.reduction("m", (64,), (40,), Combiner.MAX, lambda i, r: graphs.at(x, i, r))
    assert [(["s", "m"], ["s", "m"])] == shown(g.graph("both", s, m))


def test_what_was_to_be_stored_until_its_readers_joined_is_not_stored() -> None:
    # the rows of the product read their largest element again, so that each map behind it was a boundary in its turn
    g = graphs.Builder()
    x, w = g.parameter("x", (100, 192)), g.parameter("w", (192, 1000))
    scale = g.reduction("scale", (100,), (192,), Combiner.MAX, lambda i, k: graphs.at(x, i, k))
    q = g.map("q", (100, 192), lambda i, k: graphs.at(x, i, k) / graphs.at(scale, i))
    p = g.reduction("p", (100, 1000), (192,), Combiner.SUM, lambda i, j, k: graphs.at(q, i, k) * graphs.at(w, k, j))
    y = g.map("y", (100, 1000), lambda i, j: graphs.at(p, i, j) * graphs.at(scale, i))
    z = g.map("z", (100, 1000), lambda i, j: graphs.at(y, i, j) + 1.0)
    outputs = [names for _, names in shown(g.graph("scaled", z))]
    assert ["z"] == outputs[-1]
    assert "y" not in {name for names in outputs for name in names}


def test_an_operand_is_stored_as_it_is_read() -> None:
    """Rows are quantized where their largest value is found, although what is stored reads that value, too."""
    a, w = np.zeros((64, 96), np.float32), np.zeros((4096, 96), np.int8)

    def quantized(a: Any, w: Any) -> Any:
        scale = tnp.max(tnp.abs(a), axis=1, keepdims=True) / 127
        return (tnp.round(a / scale).astype("int8") @ w.T).astype("float32") * scale

    first, second = fused_kernels(trace(quantized, a, w))
    assert ["int8", "float32"] == sorted((str(o.array.dtype) for o in first.outputs), reverse=True)
    assert 1 == len(second.reductions)


def test_results_of_the_same_rows_share_a_kernel() -> None:
    graph = trace(lambda x: (tnp.mean(x, axis=1), tnp.var(x, axis=1)), np.zeros((64, 300), np.float32))
    (kernel,) = fused_kernels(without_duplicates(graph))
    assert 2 == len(kernel.outputs)
    assert 2 == len(kernel.reductions)


def test_an_axis_that_is_reduced_and_stored_is_held_whole() -> None:
    """The scores are sums over the columns of x, which are those of the result, too."""
    x = np.zeros((40, 700), np.float32)
    assert 2 == len(fused_kernels(trace(lambda x: tnp.softmax(x @ x.T) @ x, x)))
    assert 1 == len(fused_kernels(trace(lambda x: tnp.softmax(x @ x.T) @ x, x[:, :64])))


def test_every_block_of_a_kernel_stores_something_else() -> None:
    x = np.zeros((40, 70), np.float32)
    assert [["subtract"], ["add"]] == [outputs for _, outputs in shown(trace(lambda x: (x - 1.0, x[:, 0] + 1.0), x))]


def test_arrays_without_elements_need_no_kernel() -> None:
    x = np.zeros((0, 70), np.float32)
    (kernel,) = fused_kernels(trace(lambda x: (tnp.sum(x, axis=0), tnp.sum(x, axis=1), tnp.exp(x)), x))
    assert [1] == [output.array.rank for output in kernel.outputs]
    updated = trace(lambda x, i: tnp.zeros((4,)).at[i].add(tnp.sum(x, axis=1)), x, np.zeros(0, np.int32))
    assert 1 == len(fused_kernels(updated))
