"""Tile programs on a machine with warps of 64 threads, which shuffles and masks of a warp follow."""

import dataclasses

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.targets.nvidia.machines import MACHINES

TARGET = {"kind": "cuda", "arch": "sm_75"}


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setitem(MACHINES, "sm_75", dataclasses.replace(MACHINES["sm_75"], warp_size=64))


@pytest.mark.parametrize("threads", [64, 128, 96])
def test_rows_are_folded_and_scanned(threads):
    @T.prim_func
    def kernel(A: T.Tensor((8, 200), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8, 200), "float32")):
        with T.Kernel(1, threads=threads):
            tile, total = T.alloc_fragment((8, 200), "float32"), T.alloc_fragment((8,), "float32")
            shared = T.alloc_shared((8, 200), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, total, dim=1)
            T.copy(total, B)
            T.copy(A, shared)
            T.cumsum(shared, dim=1)
            T.copy(shared, C)

    a = np.random.default_rng(0).integers(-9, 9, (8, 200)).astype(np.float32)
    b, c = np.zeros(8, np.float32), np.zeros_like(a)
    made = tilelang.compile(kernel, target=TARGET, execution_backend="simulator")
    made(a, b, c)
    np.testing.assert_array_equal(a.max(axis=1), b)
    np.testing.assert_array_equal(a.cumsum(axis=1), c)


def test_a_product_by_single_threads_is_spread():
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((32, 32), "float32"), T.alloc_shared((32, 32), "float32")
            sums = T.alloc_fragment((32, 32), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, sums, clear_accum=True)
            T.copy(sums, C)

    a, b = (np.random.default_rng(n).integers(-3, 4, (32, 32)).astype(np.float32) for n in range(2))
    c = np.zeros_like(a)
    tilelang.compile(kernel, target=TARGET, execution_backend="simulator")(a, b, c)
    np.testing.assert_array_equal(a @ b, c)
