"""Reductions of tiles."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, trace
from level1_programs import RUNS

import tilelang
import tilelang.numpy as tnp
from tilelang.level1.lower import lower
from tilelang.targets.target import parse_target


def text_of(function: object, *arrays: np.ndarray) -> str:
    return lower(trace(function, *arrays), parse_target("cpu")).text  # type: ignore[arg-type]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (tnp.sum, "T.reduce_sum(x0_tile, sum_local, dim=1)"),
        (tnp.max, "T.reduce_max(x0_tile, max_local, dim=1)"),
        (tnp.prod, "T.reduce(x0_tile, prod_local, lambda a, b: a * b, dim=1)"),
        (tnp.argmin, "T.argmin(x0_tile, argmin_local, dim=1)"),
    ],
)
def test_operators(function: object, line: str) -> None:
    assert line in text_of(lambda x: function(x, axis=-1), zeros(5, 60))  # type: ignore[operator]


def test_several_axes_are_reduced_one_after_another() -> None:
    text = text_of(lambda x: tnp.sum(x, axis=(0, 2)), zeros(5, 6, 7))
    assert text.index("x0_tile, text_part, dim=0)") < text.index("text_part, text_local, dim=1)")


def test_positions_in_streamed_rows_keep_the_first_of_equals() -> None:
    text = text_of(lambda x: tnp.argmax(x, axis=-1), zeros(2, 50000))
    assert "_found[i] > text_best[i]" in text


def test_a_shared_operand_of_another_order_is_transposed() -> None:
    text = text_of(lambda a, b: tnp.einsum("km,nk->mn", a, b), zeros(64, 70), zeros(50, 64))
    assert "transpose_A=True, transpose_B=True)" in text


def test_a_tile_with_other_values_beyond_its_end_is_masked_anew() -> None:
    """The scores of keys beyond the end are 0, which may be larger than all others."""
    text = text_of(lambda x, w: tnp.softmax(x @ w, axis=-1) @ w.T, zeros(20, 32), zeros(32, 70))
    assert "if_then_else(" in text


def test_operands_are_zero_beyond_the_end() -> None:
    """What is divided by there is 0, or has no value."""
    x, w = zeros(13, 37), zeros(37, 9)
    for function in (
        lambda x, w: ((1 / w[:, 0]) * x) @ w,
        lambda x, w: (x / (37 - tnp.arange(37))) @ w,
        lambda x, w: tnp.softmax(x, axis=0) @ w,
    ):
        text = "".join(text_of(function, x, w).split())
        assert "operand_shared[m,k]=T.if_then_else(k_step*block_k+k<37," in text


def test_tiles_of_several_arrays_are_reduced_to_the_order_of_the_result() -> None:
    def assigned(x: Any, centers: Any) -> Any:
        nearest = tnp.argmin(tnp.sum((x[:, None] - centers) ** 2, axis=-1), axis=1)
        return (nearest == tnp.arange(5)[:, None]).astype("float32") @ x

    text = text_of(assigned, zeros(70, 9), zeros(5, 9))
    assert "= T.alloc_fragment((block_k, 5, 9)" in text


@pytest.mark.parametrize(("dtype", "accumulate"), [("float16", "float64"), ("int8", "int64")])
@pytest.mark.parametrize(("kind", "backend"), RUNS)
def test_products_of_narrow_operands_are_added_up_in_a_wide_dtype(
    dtype: str, accumulate: str, kind: str, backend: str | None
) -> None:
    def f(a: Any, b: Any) -> Any:
        return tnp.matmul(a, b, accumulate=accumulate, dtype=accumulate)

    x, y = numbers(20, 70, dtype=dtype), numbers(70, 9, dtype=dtype, seed=1)
    target = {"kind": kind, "arch": "sm_90a"} if kind == "cuda" else kind
    found = tilelang.compute(target=target, execution_backend=backend)(f)(x, y)
    assert_close(found, x.astype(accumulate) @ y.astype(accumulate), 1e-13)


@pytest.mark.parametrize(("kind", "backend"), RUNS)
def test_a_tile_that_was_widened_for_a_sum_is_no_operand(kind: str, backend: str | None) -> None:
    def f(a: Any) -> Any:
        return tnp.sum(a, axis=1), a @ a.T

    x = numbers(5, 3000, dtype="int8")
    wide = x.astype(np.int32)
    target = {"kind": kind, "arch": "sm_90a"} if kind == "cuda" else kind
    sums, products = tilelang.compute(target=target, execution_backend=backend)(f)(x)
    assert_close(sums, wide.sum(axis=1))
    assert_close(products, wide @ wide.T)
