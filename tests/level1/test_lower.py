"""Programs made of graphs compute what the graphs say, on shapes that no tile divides."""

import math
from pathlib import Path
from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import assert_close, trace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Expr, select
from tilelang.level1.elements import as_array
from tilelang.level1.graph import Combiner, Graph, Parameter, define
from tilelang.level1.lower import lower
from tilelang.level1.reference import evaluate_graph
from tilelang.level1.values import TracedArray
from tilelang.targets.target import parse_target

f32 = np.float32
on_targets = pytest.mark.parametrize(
    ("kind", "backend"),
    [pytest.param(*graphs.RUNS[0], id="cpu"), pytest.param(*graphs.RUNS[1], id="simulator", marks=pytest.mark.slow(every=28))],
)


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


def test_a_program_is_a_sequence_of_kernels_with_the_memory_between_them() -> None:
    @tilelang.compute(target="cpu")
    def f(x: Any) -> Any:
        return tnp.cumulative_sum(tnp.cumulative_sum(x, axis=0), axis=1)

    lowered = f.lower(np.ones((4, 5), np.float32))
    assert 2 == len(lowered) == len(lowered[:])
    assert list(lowered.kernels) == list(lowered)
    assert lowered[0].outputs[0].array is lowered.memory[0]
    assert lowered[-1].outputs[0].array not in lowered.memory


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
        "T.gemm(q_shared, k_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)",
        "T.online_softmax(scores, o_local, largest, total, scale=0.125, probabilities=probabilities)",
        "for j_step in T.Pipelined(T.ceildiv(T.min(256, (bx + 1) * block_i), block_j), num_stages=2):",
        "T.gemm(probabilities, v_shared, o_local, policy=T.GemmWarpPolicy.FullRow)",
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


def conv2d(x: Any, w: Any) -> Any:
    n, height, width, channels = x.shape
    rows, columns, _, filters = w.shape
    kh, kw, c = tnp.reduce_axis(rows), tnp.reduce_axis(columns), tnp.reduce_axis(channels)
    return tnp.compute(
        (n, height - rows + 1, width - columns + 1, filters),
        lambda b, h, v, f: tnp.sum(x[b, h + kh, v + kw, c] * w[kh, kw, c, f], axis=(kh, kw, c)),
    )


def grouped_attention(q: Any, k: Any, v: Any) -> Any:
    batch, heads, queries, d = q.shape
    groups = k.shape[1]
    q = tnp.reshape(q, (batch, groups, heads // groups, queries, d))
    s = tnp.einsum("bhgqd,bhkd->bhgqk", q, k) / math.sqrt(d)
    return tnp.reshape(tnp.einsum("bhgqk,bhkd->bhgqd", tnp.softmax(s, axis=-1), v), (batch, heads, queries, d))


def cross_entropy(logits: Any, labels: Any) -> Any:
    picked = tnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return tnp.mean(tnp.logsumexp(logits, axis=-1) - picked)


def nearest(x: Any, centers: Any) -> Any:
    distances = tnp.sum(x * x, axis=-1)[:, None] - 2 * (x @ centers.T) + tnp.sum(centers * centers, axis=-1)
    return tnp.argmin(distances, axis=-1)


def quantized(x: Any, w: Any) -> Any:
    scale = tnp.max(tnp.abs(x), axis=-1, keepdims=True) / 127
    return (tnp.round(x / scale).astype("int8") @ w).astype("float32") * scale


def add_norm(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    wide = h.astype("float32")
    return wide / tnp.sqrt(tnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6) * w, h


def rope(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return tnp.concat([a * cos - b * sin, a * sin + b * cos], axis=-1)


def router(x: Any, w: Any) -> Any:
    values, experts = tnp.topk(tnp.softmax(x @ w, axis=-1), 2)
    return values / tnp.sum(values, axis=-1, keepdims=True), experts


def batch_norm(x: Any) -> Any:
    mean, var = tnp.mean(x, axis=(0, 2), keepdims=True), tnp.var(x, axis=(0, 2), keepdims=True)
    return (x - mean) / tnp.sqrt(var + 1e-5)


def half(*shape: int) -> np.ndarray:
    return normal(*shape, dtype=np.float16, seed=len(shape) + shape[0])


def small_integers(*shape: int, dtype: type = np.int8, limit: int = 100) -> np.ndarray:
    return np.random.default_rng(0).integers(0, limit, shape).astype(dtype)


COMPUTATIONS: dict[str, tuple[Any, ...]] = {
    "convolution": (conv2d, half(2, 7, 9, 16), half(3, 3, 16, 20)),
    "grouped heads": (grouped_attention, half(2, 4, 33, 32), half(2, 2, 50, 32), half(2, 2, 50, 32)),
    "decoding": (grouped_attention, half(2, 4, 1, 32), half(2, 2, 50, 32), half(2, 2, 50, 32)),
    "cross entropy": (cross_entropy, half(9, 300), small_integers(9, dtype=np.int32)),
    "k-means": (nearest, normal(33, 20), normal(11, 20, seed=1)),
    "quantized": (quantized, half(33, 64), small_integers(64, 40)),
    "residual norm": (add_norm, half(9, 100), half(9, 100), half(100)),
    "rope": (rope, half(2, 3, 9, 16), half(9, 8), half(9, 8)),
    "router": (router, half(9, 32), half(32, 16)),
    "batch norm": (batch_norm, half(3, 4, 50)),
    "gelu behind a product": (lambda x, w, b: tnp.gelu(x @ w + b), half(33, 40), half(40, 50), half(50)),
    "gated": (lambda x, u, v: tnp.silu(x @ u) * (x @ v), half(33, 40) / 8, half(40, 50), half(40, 50)),
    "two results": (lambda x: (tnp.softmax(x, axis=-1), tnp.logsumexp(x, axis=-1)), half(9, 30)),
    "product": (lambda x: tnp.prod(x, axis=-1), half(5, 6)),
    "any and all": (lambda x: (tnp.any(x > 2, axis=-1), tnp.all(x > -2, axis=0)), half(5, 60)),
    "positions": (lambda x: (tnp.argmax(x, axis=-1), tnp.argmin(x, axis=0), tnp.argmax(x)), half(5, 60)),
    "a long row": (lambda x: tnp.argmax(x, axis=-1), normal(2, 20000)),
    "scan": (lambda x: tnp.cumulative_sum(x, axis=0), normal(9, 32)),
    "sort": (lambda x: (tnp.sort(x, axis=-1), tnp.argsort(x, axis=0)), normal(9, 16)),
    "scatter": (lambda x, i: x.at[i].add(1.0), normal(9), np.array([1, 1, 3], np.int32)),
    "nothing": (lambda x: (tnp.sum(x, axis=-1), x * 2), half(9, 0)),
    "one": (lambda x: tnp.softmax(x, axis=-1), half(1, 1)),
    "vector": (lambda x, w: x @ w, half(33, 40), half(40)),
    "a long sum": (lambda x: tnp.sum(x), normal(100000)),
    "one long row": (lambda x: tnp.softmax(x, axis=-1), normal(1, 40000)),
    "a long cache": (grouped_attention, half(1, 4, 1, 64), half(1, 2, 2500, 64), half(1, 2, 2500, 64)),
    "long sums of products": (lambda x, w: x @ w, half(20, 3000) / 10, half(3000, 30)),
    "updates of a part": (lambda x: x.at[2:5].add(1.0), normal(9)),
    "products of a part": (lambda x, w: x[:, 3:45] @ w[5:47], half(20, 50), half(60, 30)),
    "scaled sums": (lambda x, w: tnp.einsum("ik,kj->ij", 2 * x, w * 0.5), half(33, 700), half(700, 20)),
}


@on_targets
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_computations(kind: str, backend: str, name: str, tmp_path: Path) -> None:
    function, *arrays = COMPUTATIONS[name]
    graph = trace(function, *arrays)
    found = graphs.run(graph, arrays, tmp_path, kind, backend)
    for each, expected in zip(found if isinstance(found, list | tuple) else [found], evaluate_graph(graph, arrays, {}), strict=True):
        assert_close(each, expected, 1e-2)


@pytest.mark.slow(every=24)
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_kernels_compile_for_gpus(name: str, tmp_path: Path) -> None:
    function, *arrays = COMPUTATIONS[name]
    lowered = lower(trace(function, *arrays), parse_target({"kind": "cuda", "arch": "sm_90a"}))
    assert graphs.made(lowered, tmp_path).get_kernel_source()


def windowed(q: Any, k: Any, v: Any) -> Any:
    """Attention to the last 40 keys, with a soft cap and a bias by distance, and the logarithm of the sums."""
    i, j = tnp.arange(q.shape[-2])[:, None], tnp.arange(k.shape[-2])
    s = 20 * tnp.tanh(tnp.einsum("bhqd,bhkd->bhqk", q, k) / 160) - 0.1 * tnp.abs(i - j).astype("float32")
    s = tnp.where((i >= j) & (i - j < 40), s, -tnp.inf)
    return tnp.einsum("bhqk,bhkd->bhqd", tnp.softmax(s, axis=-1), v), tnp.logsumexp(s, axis=-1)


def entropy(x: Any, w: Any) -> Any:
    scores = x @ w
    return -tnp.sum(tnp.softmax(scores, axis=-1) * tnp.log_softmax(scores, axis=-1), axis=-1)


RANDOM: dict[str, Any] = {
    "windowed": lambda m, n, k: (windowed, half(1, 2, m, k), half(1, 2, m, k), half(1, 2, m, k)),
    "entropy": lambda m, n, k: (entropy, half(m, k) / 8, half(k, n)),
    "grouped": lambda m, n, k: (grouped_attention, half(1, 4, m, k), half(1, 2, n, k), half(1, 2, n, k)),
    "k-means": lambda m, n, k: (nearest, normal(m, k), normal(n, k, seed=1)),
    "statistics": lambda m, n, k: (lambda x: (tnp.var(x, axis=(0, 1)), tnp.mean(x), tnp.max(x, axis=2)), half(m, n, 3)),
    "scan": lambda m, n, k: (lambda x: tnp.cumulative_sum(tnp.softmax(x, axis=-1), axis=-1), half(m, n)),
    "transposed": lambda m, n, k: (lambda a, b: tnp.einsum("km,nk->mn", a, b), half(k, m), half(n, k)),
}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(RANDOM)), st.integers(1, 140), st.integers(1, 140), st.integers(1, 70))
def test_random_shapes(tmp_path: Path, name: str, m: int, n: int, k: int) -> None:
    function, *arrays = RANDOM[name](m, n, k)
    graph = trace(function, *arrays)
    found = graphs.run(graph, arrays, tmp_path, "cpu", None)
    results = found if isinstance(found, list | tuple) else [found]
    for each, expected in zip(results, evaluate_graph(graph, arrays, {}), strict=True):
        assert_close(each, expected, 2e-2)


@pytest.mark.parametrize("name", ["rows", "columns", "product"])
def test_one_kernel_serves_symbolic_sizes(name: str, tmp_path: Path) -> None:
    functions: dict[str, Any] = {
        "rows": lambda x: tnp.softmax(x, axis=-1),
        "columns": lambda x: tnp.mean(x, axis=0),
        "product": lambda x: x @ x.T,
    }
    rows, columns = T.dynamic("rows"), T.dynamic("columns")
    x = define("x", (rows, columns), as_dtype("float32"), Parameter(0))
    result = as_array(functions[name](TracedArray(x))).node
    graph = Graph("symbolic", (x,), (result,))
    kernel = graphs.made(lower(graph, parse_target("cpu")), tmp_path)
    for shape in ((7, 33), (40, 300), (1, 1)):
        values = normal(*shape)
        (expected,) = evaluate_graph(graph, [values], {rows: shape[0], columns: shape[1]})
        assert_close(kernel(values), expected, 1e-3)
