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
    ("n", "expected"), [(300, ["b_aligned", "product"]), (64, [])]
)  # a block has room for rows of 64 elements that are sorted
def test_products_for_which_a_block_has_no_room(n: int, expected: list[str]) -> None:
    assert expected == stored(lambda a, b: tnp.sort(a @ b), 1024, n, 512)


@pytest.mark.filterwarnings("ignore:T.gemm")  # some accumulators are partly in local memory
@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "gfx942"])
def test_a_chain_of_products_with_wide_results_fits_in_little_shared_memory(arch: str) -> None:
    target = {"kind": "hip" if arch.startswith("gfx") else "cuda", "arch": arch}

    @tilelang.compute(target=target, execution_backend="simulator")
    def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
        return (tnp.silu(x @ gate) * (x @ up)) @ down

    x, gate, up, down = (numbers(*shape) / 8 for shape in ((5, 32), (32, 64), (32, 64), (64, 512)))
    a = (x @ gate).astype(np.float64)
    expected = (a / (1 + np.exp(-a)) * (x @ up)) @ down
    np.testing.assert_allclose(gated(x, gate, up, down), expected, rtol=1e-3, atol=1e-4)
    wide = [T.Tensor(shape, "float32") for shape in ((300, 512), (512, 1408), (512, 1408), (1408, 512))]
    gated.explain(*wide)  # lowers it


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


@pytest.mark.parametrize(
    ("target", "n", "products"),
    [(H200, 16, 1), (H200, 64, 1), (H200, 128, 1), (H200, 50, 2), (H200, 144, 2), ("cpu", 16, 1), ("cpu", 64, 1)],
)
def test_a_product_of_one_tile_serves_both_passes(target: Any, n: int, products: int) -> None:
    shapes = [T.Tensor((512, 64), "float16"), T.Tensor((64, n), "float16")]
    text = tilelang.compute(target=target)(softmax_of_product).program(*shapes)
    assert products == text.count("T.gemm(")


@pytest.mark.parametrize("n", [16, 48, 64])
@pytest.mark.parametrize(("target", "backend"), [("cpu", "cc"), (H200, "simulator")])
def test_results_of_whole_rows(n: int, target: Any, backend: str) -> None:
    a, b = numbers(70, 90, dtype="float16"), numbers(90, n, dtype="float16", seed=1)
    wide = a.astype(np.float64) @ b
    expected = np.exp(wide - wide.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    f = tilelang.compute(target=target, execution_backend=backend)(softmax_of_product)
    np.testing.assert_allclose(f(a, b), expected, atol=2e-3)


def test_products_of_one_pass_stay_in_the_loop() -> None:
    assert [] == stored(lambda a, b: tnp.max(a @ b, axis=1), 16384, 4096, 4096)
    assert [] == stored(lambda a, b: tnp.logsumexp((a @ b).astype("float32"), axis=1), 16384, 4096, 4096)
    assert [] == stored(lambda a, b: tnp.argmin(a @ b, axis=1), 131072, 1024, 128)


@pytest.mark.parametrize(("m", "n", "k", "memory"), [
    (128, 512, 16384, "product_part"), (16, 8192, 8192, "product"), (256, 1024, 1024, "product"),
    (128, 65536, 64, "largest_part"),  # ranges of its long loop are enough blocks
])  # fmt: skip
def test_products_that_the_blocks_of_their_kernel_are_too_few_for(m: int, n: int, k: int, memory: str) -> None:
    def largest_of_product(a: Any, b: Any) -> Any:
        product = a @ b
        largest = tnp.max(product, axis=1)
        return largest

    assert [memory] == stored(largest_of_product, m, n, k)


def test_a_loop_with_few_blocks_waits_for_its_two_stages() -> None:
    def router(tokens: Any, gate: Any) -> Any:
        return tnp.topk(tnp.softmax(tnp.matmul(tokens, gate, dtype="float32")), 8)

    assert ["out"] == stored(router, 8192, 256, 8192)  # 66 us and 217 us by estimate
    assert [] == stored(router, 16384, 64, 4096)


def test_products_of_few_rows_stay_in_the_loop_of_attention() -> None:
    shapes = [T.Tensor((1, 8, 64, 128), "float16"), *[T.Tensor((1, 8, 4096, 128), "float16")] * 2]

    @tilelang.compute(target=H200)
    def attention(q: Any, k: Any, v: Any) -> Any:
        return tnp.softmax(tnp.einsum("bhqd,bhkd->bhqk", q, k), axis=-1) @ v

    assert not any("part" not in array.name for array in attention.lower(*shapes).memory)


def test_stored_products_take_less_time_than_the_loop() -> None:
    shapes = [T.Tensor((128, 16384), "float16"), T.Tensor((16384, 512), "float16")]
    f = tilelang.compute(target=H200)(lambda a, b: tnp.max(a @ b, axis=1))
    assert f.compile(*shapes).predict().seconds < 25e-6  # 171e-6 by one loop


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
