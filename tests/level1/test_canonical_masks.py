"""Selects with the literal first are negated."""

from typing import Any

import numpy as np
import pytest
from array_functions import numbers, trace

import tilelang.numpy as tnp
from tilelang.level1.canonical_masks import with_canonical_masks
from tilelang.level1.fuse import fused_kernels


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lambda i, j, x: i < j, "T.if_then_else(i >= j, x0[i, j], 0.0)"),
        (lambda i, j, x: ~(i < j), "T.if_then_else(i < j, x0[i, j], 0.0)"),
        (lambda i, j, x: (i < j) | (j == 3), "T.if_then_else(i >= j and j != 3, x0[i, j], 0.0)"),
        (lambda i, j, x: (x > 1) & (i < j), "T.if_then_else(x0[i, j] > 1.0 and i < j, 0.0, x0[i, j])"),
        (lambda i, j, x: x < 0, "T.if_then_else(x0[i, j] < 0.0, 0.0, x0[i, j])"),  # of NaN, neither holds
    ],
)
def test_the_value_comes_first(condition: Any, expected: str) -> None:
    def f(x: Any) -> Any:
        i, j = tnp.arange(5)[:, None], tnp.arange(9)[None, :]
        return tnp.sum(tnp.where(condition(i, j, x), np.float32(0), x), axis=1)

    (kernel,) = fused_kernels(trace(f, numbers(5, 9)))
    (reduction,) = with_canonical_masks(kernel).reductions
    assert expected == repr(reduction.body)
