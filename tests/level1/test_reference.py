"""Tests for tilelang.level1.reference."""

import numpy as np
import pytest
from array_functions import numbers, run, trace
from level1_graphs import F32, I32, matmul, parameter

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.errors import ArgumentError
from tilelang.level1 import reference
from tilelang.level1.graph import Combiner, Graph, KernelCall, KernelResult, Map, Reduction, axes_for, define, element
from tilelang.level1.reference import evaluate_graph


def test_a_product() -> None:
    a, b = numbers(4, 3, dtype="float16"), numbers(3, 5, dtype="float16", seed=1)
    (found,) = evaluate_graph(matmul(), (a, b), {})
    assert "float16" == found.dtype
    np.testing.assert_array_equal((a.astype(float) @ b.astype(float)).astype(np.float32).astype(np.float16), found)


def test_sums_of_floats_are_float64() -> None:
    x = np.array([1e8, 1.0, -1e8], np.float32)
    assert 1.0 == run(tnp.sum, x)


def test_large_reductions_are_computed_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(6, 3), numbers(3, 5, seed=1)
    whole = run(tnp.matmul, a, b)
    monkeypatch.setattr(reference, "MAX_ELEMENTS", 20)
    np.testing.assert_array_equal(whole, run(tnp.matmul, a, b))


def test_symbolic_sizes() -> None:
    n = T.dynamic("n")
    x, axes, (k,) = parameter("x", (4, n), F32), axes_for((4,)), axes_for((n,), "k")
    total = define("y", (4,), F32, Reduction(axes, (k,), (n,), Combiner.SUM, element(x, (*axes, k))))
    value = numbers(4, 7)
    (found,) = evaluate_graph(Graph("f", (x,), (total,)), (value,), {n: 7})
    np.testing.assert_allclose(found, value.sum(1), 1e-6)


def test_elements_that_are_not_chosen_need_not_exist() -> None:
    x = numbers(3)
    np.testing.assert_array_equal(np.append(0, x), run(lambda a: tnp.concat([tnp.zeros(1), a]), x))


def test_a_position_in_nothing() -> None:
    n = T.dynamic("n")
    x, (k,) = parameter("x", (n,), F32), axes_for((n,), "k")
    best = define("y", (), I32, Reduction((), (k,), (n,), Combiner.ARGMAX, element(x, (k,))))
    with pytest.raises(ArgumentError) as error:
        evaluate_graph(Graph("f", (x,), (best,)), (np.zeros(0, np.float32),), {n: 0})
    assert str(error.value) == "argmax: an axis has no elements"


def test_kernels_run_once_for_all_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    @T.prim_func
    def kernel(x: T.Tensor((4,), "float32"), scale: T.float32, y: T.Tensor((4,), "float32"), z: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                y[i] = x[i] * scale
                z[i] = x[i] + scale

    compiled = tilelang.compile(kernel, out_idx=[-2, -1], execution_backend="reference")
    calls = []
    original = reference.JITKernel
    monkeypatch.setattr(reference, "JITKernel", lambda *arguments: (calls.append(1), original(*arguments))[1])
    x, axes = parameter("x", (4,), F32), axes_for((4,))
    call = KernelCall(compiled, (x, 2.0))
    first, second = (define("r", (4,), F32, KernelResult(call, n)) for n in range(2))
    both = define("s", (4,), F32, Map(axes, element(first, axes) + element(second, axes)))
    value = numbers(4)
    (found,) = evaluate_graph(Graph("f", (x,), (both,)), (value,), {})
    np.testing.assert_allclose(value * 3 + 2, found, 1e-6)
    assert [1] == calls


def test_results_may_be_parameters() -> None:
    x = numbers(3)
    np.testing.assert_array_equal(x, evaluate_graph(trace(lambda a: a, x), (x,), {})[0])
