"""Tensors of 4-bit elements in 8-bit storage, on every executor."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T


def widening(dtype: str) -> Any:
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                C[row, j] = T.float32(A[row, j]) * 2
                B[row, N - 1 - j] = A[row, j]

    return main


@pytest.mark.parametrize("way", ["reference", "cpu", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "int4"])
def test_bytes_of_two_elements_are_computed_with(dtype: str, way: str) -> None:
    target: Any = "cpu" if way in ("reference", "cpu") else {"kind": "cuda", "arch": way}
    backend = {"reference": "reference", "cpu": "auto"}.get(way, "simulator")
    kernel = tilelang.compile(widening(dtype), target=target, execution_backend=backend)
    a = np.random.default_rng(3).integers(0, 256, (4, 8), dtype=np.uint8)
    b, c = np.zeros_like(a), np.zeros((4, 16), np.float32)
    kernel(a, b, c)
    elements = np.stack([a & 15, a >> 4], -1).reshape(4, 16).view(getattr(ml_dtypes, dtype))
    assert np.array_equal(elements.astype(np.float32) * 2, c)
    assert np.array_equal(a[:, ::-1] >> 4 | a[:, ::-1] << 4, b)
