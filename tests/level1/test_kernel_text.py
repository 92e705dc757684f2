"""The statements of a kernel."""

from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import numbers, trace

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.execution import load_program
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph
from tilelang.level1.kernel_text import kernel_text
from tilelang.level1.placement import Tiling, place_axes


def text_of(graph: Graph, **blocks: int) -> str:
    (kernel,) = fused_kernels(graph)
    axis = {each.name: each for each in kernel.extents}
    tiling = Tiling({axis[name]: size for name, size in blocks.items()}, 128, 2)
    return "\n".join(kernel_text(kernel, tiling, place_axes(kernel, tiling), ExprPrinter()))


def test_rows_that_are_held_whole() -> None:
    expected = """
with T.Kernel(T.ceildiv(5, block_i), threads=128) as bx:
    largest = T.alloc_fragment((block_i,), "float32")
    x_tile = T.alloc_fragment((block_i, 33), "float32")
    total = T.alloc_fragment((block_i,), "float32")
    total_tile = T.alloc_fragment((block_i, 33), "float32")
    T.copy(x[bx * block_i, 0], x_tile)
    T.reduce_max(x_tile, largest, dim=1)
    for i, j in T.Parallel(block_i, 33):
        total_tile[i, j] = T.exp(x_tile[i, j] - largest[i])
    T.reduce_sum(total_tile, total, dim=1)
    for i, j in T.Parallel(block_i, 33):
        y[bx * block_i + i, j] = total_tile[i, j] / total[i]"""
    assert expected.strip() == text_of(graphs.softmax(5, 33), i=2)


def test_rows_that_are_streamed() -> None:
    text = text_of(graphs.softmax(5, 33), i=2, j=16)
    restored = 'largest[i] = T.if_then_else(largest[i] == T.min_value("float32"), -T.infinity("float32"), largest[i])'
    assert restored in text
    assert 2 == text.count("for j_step in T.Pipelined(T.ceildiv(33, block_j), num_stages=2):")
    assert "if_then_else(j_step * block_j + j < 33, x[bx * block_i + i, j_step * block_j + j], -T.infinity" in text


def test_operands_are_copied_at_the_head_of_the_loop() -> None:
    text = text_of(graphs.matmul(70, 50, 90), i=32, j=32, k=16)
    head = text[text.index("for k_step") :].splitlines()[1:4]
    assert [
        "T.copy(a[by * block_i, k_step * block_k], a_shared)",
        "T.copy(b[k_step * block_k, bx * block_j], b_shared)",
        "T.gemm(a_shared, b_shared, product)",
    ] == [line.strip() for line in head]


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_keep_the_order_of_memory(transposed: bool) -> None:
    text = text_of(graphs.matmul(70, 50, 90, transposed=transposed), i=32, j=32, k=16)
    assert transposed is ("T.gemm(a_shared, b_shared, product, transpose_B=True)" in text)


def test_what_follows_a_product_is_computed_in_its_tile_and_copied() -> None:
    arrays = [numbers(*shape, dtype="float16") for shape in ((64, 64), (64, 64), (64,))]

    def of(function: Any) -> list[str]:
        return [line.strip() for line in text_of(trace(function, *arrays), i=32, j=32, k=16).splitlines()]

    def activated(a: Any, b: Any, bias: Any) -> Any:
        return tnp.relu(tnp.matmul(a, b, dtype="float32") + bias).astype("float16")

    def several(a: Any, b: Any, bias: Any) -> Any:
        return [(product := tnp.matmul(a, b, dtype="float32")) + bias, product * 2]

    assert [
        "out[i, j] = T.max(out[i, j] + T.float32(x2[bx * block_j + j]), 0.0)",
        "T.copy(out, out_1[by * block_i, bx * block_j])",
    ] == of(activated)[-2:]
    assert not any(line.startswith("T.copy(product") for line in of(several))


def test_results_in_another_order_of_dimensions_are_not_copied() -> None:
    text = text_of(trace(lambda x: [x * x, x.T], numbers(65, 5)), i=32, j=8)
    assert "T.copy(x0_tile" not in text
    assert "[bx * block_j + j, by * block_i + i] = x0_tile[i, j]" in text


def test_what_does_not_change_is_loaded_before_the_loop() -> None:
    text = text_of(graphs.attention((2, 3, 40, 72, 32)), i=16, j=32)
    assert text.index("T.copy(q[") < text.index("for j_step") < text.index("T.copy(k[") < text.index("T.gemm")


def test_more_axes_than_a_grid_has() -> None:
    g = graphs.Builder()
    x = g.parameter("x", (2, 3, 4, 5))
    y = g.map("y", (2, 3, 4, 5), lambda i, j, k, l: graphs.at(x, i, j, k, l) * 2.0)
    text = text_of(g.graph("double", y), l=4, k=2)
    assert "with T.Kernel(T.ceildiv(5, block_l), T.ceildiv(4, block_k), 3 * 2, threads=128) as (bx, by, rest):" in text
    assert "j = rest % 3\n    i = rest // 3" in text




def test_sorted_values_and_their_positions_come_of_one_statement() -> None:
    text = text_of(trace(lambda x: tnp.topk(x, 3), numbers(7, 20)), i=2)
    assert 1 == text.count("T.topk(")


def test_a_grid_over_a_symbolic_size_has_a_block() -> None:
    n = T.dynamic("n")
    g = graphs.Builder()
    x = g.parameter("x", (n, 20))
    text = text_of(g.graph("double", g.map("y", (n, 20), lambda i, j: graphs.at(x, i, j) * 2.0)), i=8, j=32)
    assert "with T.Kernel(T.ceildiv(20, block_j), T.max(T.ceildiv(n, block_i), 1), threads=128)" in text


def test_what_is_costly_in_a_row_is_computed_once() -> None:
    text = text_of(trace(lambda x: tnp.log_softmax(x, axis=-1), numbers(7, 20)), i=2)
    loop, statement = text.splitlines()[-4:-2]
    assert "for i in T.Parallel(block_i):" == loop.strip()
    assert "value[i] = T.log(" in statement


def test_columns_are_read_in_the_order_of_memory() -> None:
    text = text_of(trace(lambda x: tnp.sum(x * x, axis=0), numbers(40, 20)), j=8)
    assert "for i, j in T.Parallel(40, block_j):" in text
    assert "dim=0)" in text


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("target", ["cpu", "reference", "simulator"])
@pytest.mark.parametrize(("method", "ufunc"), [("multiply", np.multiply), ("add", np.add), ("min", np.minimum), ("max", np.maximum)])
@pytest.mark.parametrize(
    ("elements", "updates", "dtype"),
    [((6,), 20, "float32"), ((1,), 1, "float64"), ((5, 7), 9, "float32"), ((5, 3), 9, "int32"), ((3,), 0, "float32")],
    ids=str,
)
def test_updates_at_repeated_positions(
    target: str, method: str, ufunc: Any, elements: tuple[int, ...], updates: int, dtype: str
) -> None:
    """Positions before the beginning and past the end are ignored."""
    kind = {"kind": "cuda", "arch": "sm_90a"} if target == "simulator" else "cpu"
    backend = None if target == "cpu" else target

    @tilelang.compute(target=kind, execution_backend=backend)
    def updated(x: Any, i: Any, y: Any) -> Any:
        return getattr(x.at[i], method)(y)

    rng, count = np.random.default_rng(0), elements[0]
    x, y = (rng.integers(1, 4, shape).astype(dtype) for shape in (elements, (updates, *elements[1:])))
    i = rng.integers(-count - 2, count + 2, updates).astype(np.int32)
    inside, expected = (i >= -count) & (i < count), x.copy()
    ufunc.at(expected, i[inside], y[inside])
    np.testing.assert_array_equal(updated(x, i, y), expected)
    if target == "cpu":
        np.testing.assert_array_equal(load_program(updated.program(x, i, y))["updated"]()(x, i, y), expected)


def test_products_of_updates_with_nan_come_to_an_end() -> None:
    multiplied = tilelang.compute(target="cpu")(lambda x, i, y: x.at[i].multiply(y))
    x, y = np.array([1, np.nan, 2], np.float32), np.array([np.nan, 2, 3], np.float32)
    np.testing.assert_array_equal(multiplied(x, np.array([0, 1, 1], np.int32), y), np.array([np.nan, np.nan, 2]))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("keys", [0, 1, 37, 1500])
def test_rescaling_factors_may_read_arrays_in_memory(keys: int) -> None:
    """A sink and a temperature for each head; many keys are split."""
    sizes = {"hd": (2, 8), "hkd": (2, keys, 8), "h": (2,)}
    q, k, v, sink, heat = (numbers(*sizes[axes], seed=n) for n, axes in enumerate(("hd", "hkd", "hkd", "h", "h")))

    @tilelang.compute(target="cpu")
    def attention(q: Any, k: Any, v: Any, sink: Any, heat: Any) -> Any:
        scores = tnp.einsum("hd,hkd->hk", q, k)
        largest = tnp.maximum(tnp.max(scores, axis=1, keepdims=True), sink[:, None]) if keys else sink[:, None]
        weights = tnp.exp(scores - largest)
        total = tnp.sum(weights, axis=1, keepdims=True) + tnp.exp(sink[:, None] - largest)
        hot = tnp.logsumexp(scores * tnp.abs(heat)[:, None], axis=1)
        return tnp.einsum("hk,hkd->hd", weights, v) / total, hot

    scores = np.einsum("hd,hkd->hk", q.astype(np.float64), k)
    weights = np.exp(scores)
    expected = np.einsum("hk,hkd->hd", weights, v) / (weights.sum(1) + np.exp(sink.astype(np.float64)))[:, None]
    with np.errstate(divide="ignore"):
        hot = np.log(np.exp(scores * np.abs(heat)[:, None]).sum(1))
    found = attention(q, k, v, sink, heat)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], hot, rtol=1e-4, atol=1e-5)
    again = load_program(attention.program(q, k, v, sink, heat))["attention"]()(q, k, v, sink, heat)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)
