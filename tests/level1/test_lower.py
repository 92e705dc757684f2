"""Programs made of graphs compute what the graphs say, on shapes that no tile divides."""

from pathlib import Path

import level1_programs as graphs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.ir.expr import Expr, select
from tilelang.level1.graph import Combiner, Graph
from tilelang.level1.lower import lower
from tilelang.targets.target import parse_target

f32 = np.float32
on_targets = pytest.mark.parametrize(("kind", "backend"), graphs.RUNS, ids=["cpu", "simulator"])


def normal(*shape: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@on_targets
def test_elementwise(kind: str, backend: str, tmp_path: Path) -> None:
    g = graphs.Builder()
    x, b = g.parameter("x", (3, 5, 70), "float16"), g.parameter("b", (70,))
    index = g.parameter("index", (5,), "int32")

    def body(i: Expr, j: Expr, k: Expr) -> Expr:
        picked = graphs.at(x, i, graphs.at(index, j), k)
        return T.tanh(picked) * picked + graphs.at(b, 69 - k)

    y = g.map("y", (3, 5, 70), body, stored="float16")
    xs, bs, order = normal(3, 5, 70, dtype=np.float16), normal(70), np.array([3, 0, 4, 4, 1], np.int32)
    found = graphs.run(g.graph("gather", y), (xs, bs, order), tmp_path, kind, backend)
    picked = xs[:, order].astype(f32)
    np.testing.assert_allclose(found, (np.tanh(picked) * picked + bs[::-1]).astype(np.float16), rtol=2e-3, atol=2e-3)


@on_targets
@pytest.mark.parametrize("shape", [(5, 33), (1, 1), (17, 1000), (2, 40000)])
def test_softmax(kind: str, backend: str, shape: tuple[int, int], tmp_path: Path) -> None:
    x = normal(*shape) * 3
    found = graphs.run(graphs.softmax(*shape), (x,), tmp_path, kind, backend)
    np.testing.assert_allclose(found, softmax(x), rtol=1e-4, atol=1e-6)


@on_targets
@pytest.mark.parametrize("shape", [(5, 33), (3, 20000)])
def test_layer_norm(kind: str, backend: str, shape: tuple[int, int], tmp_path: Path) -> None:
    x, w = normal(*shape) + 3, normal(shape[1], seed=1)
    found = graphs.run(graphs.layer_norm(*shape), (x, w), tmp_path, kind, backend)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@on_targets
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(70, 50, 90), (1, 33, 65), (130, 17, 16)])
def test_matmul(kind: str, backend: str, shape: tuple[int, int, int], transposed: bool, tmp_path: Path) -> None:
    m, n, k = shape
    a, b, bias = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16, seed=1), normal(n, dtype=np.float16)
    given = np.ascontiguousarray(b.T) if transposed else b
    found = graphs.run(graphs.matmul(m, n, k, transposed=transposed), (a, given, bias), tmp_path, kind, backend)
    expected = np.maximum(a.astype(f32) @ b.astype(f32), 0) + bias.astype(f32)
    np.testing.assert_allclose(found.astype(f32), expected, rtol=2e-3, atol=2e-2)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, window: int) -> np.ndarray:
    s = q.astype(f32) @ k.astype(f32).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    i, j = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
    hidden = (causal & (i < j)) | ((window > 0) & (i - j >= window))
    return softmax(np.where(hidden, -np.inf, s)) @ v.astype(f32)


@on_targets
@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 50)])
@pytest.mark.parametrize("shape", [(2, 1, 70, 150, 32), (1, 2, 33, 17, 16)])
def test_attention(
    kind: str, backend: str, shape: tuple[int, int, int, int, int], causal: bool, window: int, tmp_path: Path
) -> None:
    batch, heads, queries, keys, d = shape
    q = normal(batch, heads, queries, d, dtype=np.float16)
    k, v = (normal(batch, heads, keys, d, dtype=np.float16, seed=seed) for seed in (1, 2))
    graph = graphs.attention(shape, causal=causal, window=window)
    found = graphs.run(graph, (q, k, v), tmp_path, kind, backend)
    np.testing.assert_allclose(found.astype(f32), attention(q, k, v, causal, window), rtol=1e-2, atol=5e-3)


def test_a_kernel_reads_what_another_one_stores(tmp_path: Path) -> None:
    g = graphs.Builder()
    x = g.parameter("x", (9, 20))
    s = g.reduction("s", (20,), (9,), Combiner.SUM, lambda j, r: graphs.at(x, r, j))
    y = g.map("y", (9, 20), lambda i, j: graphs.at(x, i, j) + graphs.at(s, 19 - j))
    graph = g.graph("flipped", y)
    xs = normal(9, 20)
    found = graphs.run(graph, (xs,), tmp_path, "cpu", None)
    np.testing.assert_allclose(found, xs + xs.sum(0)[::-1], rtol=1e-4, atol=1e-5)
    lowered = lower(graph, parse_target("cpu"))
    assert ["s"] == [array.name for array in lowered.memory]
    assert "s = T.alloc_global((20,), " in lowered.text


def test_results_may_be_parameters_and_come_twice(tmp_path: Path) -> None:
    g = graphs.Builder()
    x = g.parameter("x", (5,))
    xs = normal(5)
    found = graphs.run(Graph("same", (x,), (x, x)), (xs,), tmp_path, "cpu", None)
    for each in found:
        np.testing.assert_array_equal(each, xs)


def test_attention_reads_like_a_written_program() -> None:
    text = lower(graphs.attention((2, 3, 256, 256, 64), causal=True), parse_target("cuda")).text
    for line in (
        "T.gemm(q_shared, k_shared, scores, transpose_B=True, clear_accum=True)",
        "rescale[i] = T.exp(largest_before[i] - largest[i])",
        "for j_step in T.Pipelined(T.ceildiv(T.min(256, (bx + 1) * block_i), block_j), num_stages=2):",
        "T.gemm(total_tile, v_shared, o_local)",
    ):
        assert line in text


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 40), st.integers(1, 90), st.sampled_from(["sum", "max", "min"]), st.booleans(), st.booleans())
def test_random_reductions(
    tmp_path: Path, rows: int, columns: int, combiner: str, first: bool, masked: bool
) -> None:
    g = graphs.Builder()
    x = g.parameter("x", (rows, columns))
    how = Combiner(combiner)
    low = 0.0 if how is Combiner.SUM else float(how.neutral(x.dtype))

    def body(i: Expr, r: Expr) -> Expr:
        value = graphs.at(x, r, i) if first else graphs.at(x, i, r)
        return select((r + i) % 3 != 0, value, low) if masked else value

    kept, reduced = (columns, rows) if first else (rows, columns)
    y = g.reduction("y", (kept,), (reduced,), how, body)
    xs = normal(rows, columns, seed=rows)
    values = xs.T if first else xs
    if masked:
        i, r = np.indices(values.shape)
        values = np.where((r + i) % 3 != 0, values, f32(low))
    expected = {"sum": np.sum, "max": np.max, "min": np.min}[combiner](values, axis=1)
    found = graphs.run(g.graph("reduced", y), (xs,), tmp_path, "cpu", None)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
