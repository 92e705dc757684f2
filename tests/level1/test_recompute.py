"""Which products are stored rather than computed by several passes, and that this changes no result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_functions import numbers

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.level1.execution import load_program

H200 = {"kind": "cuda", "arch": "sm_90a"}


def stored(function: Callable[..., Any], m: int, n: int, k: int, target: Any = H200) -> list[str]:
    """The names of the arrays that pass through memory."""
    shapes = [T.Tensor((m, k), "float16"), T.Tensor((k, n), "float16")]
    return [array.name for array in tilelang.compute(target=target)(function).lower(*shapes).memory]


def softmax_of_product(a: Any, b: Any) -> Any:
    product = a @ b
    return tnp.softmax(product)


@pytest.mark.parametrize(
    ("m", "n", "k", "expected"),
    [
        (4096, 1024, 4096, ["product"]), (4096, 512, 512, ["product"]), (128, 512, 16384, ["product_part"]),
        (16384, 1024, 128, []),  # few operations for an element
        (16384, 64, 4096, []),  # both passes read one tile
    ],
)  # fmt: skip
def test_products_of_two_passes(m: int, n: int, k: int, expected: list[str]) -> None:
    assert expected == stored(softmax_of_product, m, n, k)


def test_products_of_one_pass_stay_in_the_loop() -> None:
    assert [] == stored(lambda a, b: tnp.max(a @ b, axis=1), 16384, 4096, 4096)
    assert [] == stored(lambda a, b: tnp.logsumexp((a @ b).astype("float32"), axis=1), 16384, 4096, 4096)


def test_machines_without_figures() -> None:
    assert ["product"] == stored(softmax_of_product, 300, 300, 300, "cpu")
    assert [] == stored(softmax_of_product, 300, 300, 8, "cpu")


@pytest.mark.parametrize("sizes", [(37, 300, 70), (1, 260, 33), (3, 1, 40), (0, 300, 40), (5, 290, 1)], ids=str)
def test_results(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes

    @tilelang.compute(target="cpu")
    def f(a: Any, b: Any) -> Any:
        scores = a @ b
        return tnp.softmax(scores), tnp.max(scores - tnp.mean(scores, axis=1, keepdims=True), axis=1)

    a, b = numbers(m, k), numbers(k, n, seed=1)
    scores = a.astype(np.float64) @ b
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found = f(a, b)
    np.testing.assert_allclose(found[0], weights / weights.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], (scores - scores.mean(1, keepdims=True)).max(1), rtol=1e-4, atol=1e-4)
    for one, other in zip(found, load_program(f.program(a, b))["f"]()(a, b), strict=True):
        np.testing.assert_array_equal(one, other)
