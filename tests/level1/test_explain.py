"""Tests for tilelang.level1.explain."""

from typing import Any

import numpy as np
from array_functions import numbers, trace

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.level1.explain import explain
from tilelang.level1.graph import Graph, Parameter, define
from tilelang.level1.lower import Lowered, lower
from tilelang.level1.values import TracedArray
from tilelang.performance.prediction import Prediction
from tilelang.targets.target import parse_target


def lowered(graph: Graph) -> Lowered:
    return lower(graph, parse_target("cpu"))


def attention(q: Any, k: Any, v: Any) -> Any:
    s = tnp.einsum("qd,kd->qk", q, k)
    return tnp.einsum("qk,kd->qd", tnp.softmax(s), v)


def test_what_is_fused_into_one_kernel() -> None:
    arrays = [numbers(4096, 64, dtype="float16") for _ in "qkv"]
    lines = explain(lowered(trace(attention, *arrays))).splitlines()
    assert "f: 1 kernel" == lines[0]
    assert lines[1].startswith("kernel 1 stores ")
    assert lines[1].endswith("(float16 (4096, 64), 524,288 bytes)")
    found = [line[line.index(" = ") : line.index(f" ({__file__}:")] for line in lines[2:6]]
    assert [" = sum over d as a matrix product", " = max over k", " = sum over k", " = sum over k as a matrix product"] == found
    assert lines[6].startswith("    blocks of ")
    assert " threads over q (4096 in tiles of " in lines[6]
    assert lines[7].startswith("    each goes through k (4096 in tiles of ")
    assert "reads x0 (float16 (4096, 64), 524,288 bytes), x1 (float16" in lines[8]


def test_kernels_and_what_passes_between_them() -> None:
    def f(x: Any) -> Any:
        y = tnp.cumulative_sum(x, axis=1)
        return y - tnp.max(y)

    text = explain(lowered(trace(f, numbers(100, 50))))
    assert text.startswith("f: 2 kernels\nkernel 1 stores ")
    assert " = scan along j\n" in text
    assert text.splitlines()[-1].startswith("through memory from kernel to kernel: ")
    assert text.endswith("(float32 (100, 50), 20,000 bytes)")


def test_symbolic_sizes_have_no_bytes() -> None:
    x = TracedArray(define("x", (T.dynamic("n"), 4), DType("float32"), Parameter(0)))
    text = explain(lowered(Graph("f", (x.node,), ((x + np.float32(1)).node,))))
    assert "reads x (float32 (n, 4))" in text


def test_times_by_a_data_sheet_say_so() -> None:
    graph = trace(lambda x: x + np.float32(1), numbers(100))
    lines = explain(lowered(graph), Prediction(1e-6, "latency", (), data_sheet="B200")).splitlines()
    assert [
        "f: 1 kernel, bound by latency, predicted 1 us",
        "    (by the data sheet of B200: no rates of such a machine have been measured)",
    ] == lines[:2]


def test_the_predicted_time_of_all_kernels_and_of_each() -> None:
    def f(x: Any) -> Any:
        y = tnp.cumulative_sum(x, axis=1)
        return y - tnp.max(y)

    each = (Prediction(1e-6, "latency", ()), Prediction(2e-6, "launches", ()))
    text = explain(lowered(trace(f, numbers(100, 50))), Prediction(3e-6, "launches", (), each))
    assert text.startswith("f: 2 kernels, bound by launches, predicted 3 us\n")
    assert "\n    bound by latency, predicted 1 us\nkernel 2 stores " in text
    assert "\n    bound by launches, predicted 2 us\n" in text


def test_tiles_that_are_listed() -> None:
    def masked(q: Any, k: Any, v: Any, documents: Any) -> Any:
        s = tnp.where(documents[:, None] == documents[None, :], tnp.einsum("qd,kd->qk", q, k), -tnp.inf)
        return tnp.einsum("qk,kd->qd", tnp.softmax(s), v)

    arrays = [*(numbers(4096, 64, dtype="float16") for _ in "qkv"), np.zeros(4096, np.int32)]
    made = lowered(trace(masked, *arrays))
    line = (
        "    a kernel before it lists the tiles of k of which the mask by x3 leaves something; it skips the others, "
        "and does not mask those that are left whole"
    )
    assert explain(made).endswith(f"\n{line}")
    each = (Prediction(1e-6, "latency", ()), Prediction(2e-6, "launches", ()))
    text = explain(made, Prediction(3e-6, "launches", (), each))
    assert ["    bound by latency, predicted 1 us", "    bound by launches, predicted 2 us"] == text.splitlines()[-2:]


def test_rows_that_are_kept() -> None:
    made = lower(trace(lambda x: tnp.softmax(x), numbers(200, 32768, dtype="float16")), parse_target("cuda"))
    assert "\n    keeps rows of x0 in shared memory for all passes" in explain(made)
