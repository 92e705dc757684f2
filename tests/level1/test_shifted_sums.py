"""Sums of squared deviations are taken in the loop of the mean, and are those of two loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_functions import trace
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.numpy as tnp
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.fused import FusedKernel
from tilelang.level1.placement import Tiling
from tilelang.level1.shifted_sums import with_shifted_sums

ROWS = np.zeros((5, 40), np.float32)


def kernel_of(function: Callable[..., Any], x: np.ndarray = ROWS, *, stream: bool = True) -> FusedKernel:
    (kernel,) = fused_kernels(trace(function, x))
    (axis,) = kernel.streamed
    return with_shifted_sums(kernel, Tiling({axis: 16} if stream else {}, 128, 2))


def mean(x: Any) -> Any:
    return tnp.mean(x, axis=1, keepdims=True)


SQUARED = {
    "deviations": lambda x: tnp.sum((x - mean(x)) ** 2, axis=1),
    "of twice the values": lambda x: tnp.sum((2 * x - mean(2 * x)) ** 2, axis=1),
    "a multiple": lambda x: tnp.sum(-3 * (mean(x) - x) ** 2, axis=1),
    "another expression": lambda x: tnp.sum((tnp.exp(x) - mean(tnp.exp(x))) ** 2, axis=1),
}
OTHERS = {
    "of something else": lambda x: tnp.sum((x - mean(2 * x)) ** 2, axis=1),
    "weighted": lambda x: tnp.sum(tnp.exp(x) * (x - mean(x)) ** 2, axis=1),
    "times the values": lambda x: tnp.sum(x * (x - mean(x)), axis=1),
    "cubes": lambda x: tnp.sum((x - mean(x)) ** 3, axis=1),
    "absolute": lambda x: tnp.sum(tnp.abs(x - mean(x)), axis=1),
    "not the mean": lambda x: tnp.sum((x - mean(x) / 2) ** 2, axis=1),
    "the largest": lambda x: tnp.max((x - mean(x)) ** 2, axis=1),
}


@pytest.mark.parametrize("name", SQUARED)
def test_one_pass_is_enough(name: str) -> None:
    assert 1 == len(data_passes(kernel_of(SQUARED[name])))


@pytest.mark.parametrize("name", OTHERS)
def test_others_take_two(name: str) -> None:
    assert 2 == len(data_passes(kernel_of(OTHERS[name])))


def test_values_that_stay_on_chip_are_looked_at_twice() -> None:
    assert 2 == len(data_passes(kernel_of(SQUARED["deviations"], stream=False)))


@tilelang.compute
def statistics(x):  # type: ignore[no-untyped-def]
    return tnp.mean(x, axis=(0, 2)), tnp.var(x, axis=(0, 2)), tnp.std(x, axis=(0, 2), correction=1)


def check(x: np.ndarray, rtol: float, atol: float = 0) -> None:
    found = [np.asarray(each, np.float64) for each in statistics(x)]
    wide = x.astype(np.float64)
    expected = [wide.mean((0, 2)), wide.var((0, 2)), wide.std((0, 2), ddof=1)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


SHAPE = (9, 3, 2100)  # a channel is longer than what a block holds


@pytest.mark.parametrize(("offset", "rtol"), [(0, 1e-5), (30, 1e-5), (-1e4, 1e-4)])
def test_far_from_zero(offset: float, rtol: float) -> None:
    assert "reference" in statistics.program(np.zeros(SHAPE, np.float32))
    x = (np.random.default_rng(0).standard_normal(SHAPE) + offset).astype(np.float32)
    check(x, rtol, atol=1e-6)


def test_constant_values_have_no_variance() -> None:
    found = statistics(np.full(SHAPE, 0.1, np.float32))
    np.testing.assert_allclose(found[0], np.full(3, 0.1), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.zeros(3), atol=1e-14)


def test_an_outlier_among_the_samples() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    x[0, :, 0] = 1e5
    check(x, 1e-3)


@settings(max_examples=30, deadline=None)
@given(st.floats(-100, 100), st.floats(0.01, 100), st.integers(0, 1000))
def test_random_data(offset: float, scale: float, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(SHAPE) * scale + offset
    check(x.astype(np.float32), 1e-5 + 1e-7 * abs(offset) / scale, atol=1e-5 * scale**2 + 1e-6 * scale)
