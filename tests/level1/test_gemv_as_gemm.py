"""A product of a row and a matrix becomes a gemm where the copy engine can load the matrix."""

from pathlib import Path
from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.contraction import contraction
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.gemv_as_gemm import with_gemv_as_gemm
from tilelang.level1.reference import evaluate_graph
from tilelang.targets.target import Target, parse_target

H200 = parse_target({"kind": "cuda", "arch": "sm_90a"})


def normal(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def is_product(function: Any, *arrays: np.ndarray, target: Target = H200) -> bool:
    (kernel,) = fused_kernels(trace(function, *arrays))
    made = with_gemv_as_gemm(kernel, target)
    assert (made is kernel) == (contraction(made.reductions[0]) is None)
    return made is not kernel


def product(x: Any, w: Any) -> Any:
    return x @ w


def test_a_row_and_a_matrix_of_columns_are_a_matrix_product() -> None:
    assert is_product(product, normal(1, 512), normal(512, 256))
    assert is_product(lambda x, w, b: tnp.gelu(x @ w + b), normal(1, 512), normal(512, 256), normal(256))


@pytest.mark.parametrize(
    "arrays",
    [
        (normal(2, 512), normal(512, 256)),  # is one already
        (normal(1, 512), normal(512, 255)),  # rows begin at odd places
        (normal(1, 64), normal(64, 64)),  # little to read
        (normal(1, 512, dtype=np.float32), normal(512, 256, dtype=np.float32)),  # no matrix unit takes it
    ],
)
def test_others_stay_as_they_are(arrays: tuple[np.ndarray, ...]) -> None:
    (kernel,) = fused_kernels(trace(product, *arrays))
    assert kernel is with_gemv_as_gemm(kernel, H200)


def test_rows_that_are_reduced_stay_as_they_are() -> None:
    assert not is_product(lambda x, w: x @ w.T, normal(1, 512), normal(256, 512))
    assert not is_product(lambda w, x: w @ x, normal(256, 512), normal(512, 1))
    assert not is_product(product, normal(512), normal(512, 256))


def test_machines_without_tiles_of_few_rows_stay_as_they_are() -> None:
    for target in (Target("cpu"), parse_target({"kind": "cuda", "arch": "sm_80"})):
        assert not is_product(product, normal(1, 512), normal(512, 256), target=target)


def test_the_result_is_that_of_the_reference(tmp_path: Path) -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        return tnp.maximum(x @ w, 0) * b + 1

    arrays = (normal(1, 300), normal(300, 232), normal(232))
    graph = trace(function, *arrays)
    (expected,) = evaluate_graph(graph, arrays, {})
    found = graphs.run(graph, arrays, tmp_path, {"kind": "cuda", "arch": "sm_90a"}, "simulator")
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), rtol=1e-2, atol=5e-2)
