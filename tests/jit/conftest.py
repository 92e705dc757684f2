"""Kernels that the tests of this folder share."""

from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.ir.func import PrimFunc


@pytest.fixture
def vector_add() -> Callable[..., PrimFunc]:
    def make(n: int, dtype: str = "float32", block: int = 64) -> PrimFunc:
        @T.prim_func
        def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

        return add

    return make


@pytest.fixture
def asserting() -> PrimFunc:
    @T.prim_func
    def check(A: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.serial(4):
                T.device_assert(A[i] < 10, "too large")
                C[i] = A[i]

    return check


@pytest.fixture
def scale() -> PrimFunc:
    M = T.dynamic("M")

    @T.prim_func
    def scale(A: T.Tensor((M, 8), "float32"), factor: T.float32, C: T.Tensor((M, 8), "float32")):
        with T.Kernel(M) as bx:
            for i in T.Parallel(8):
                C[bx, i] = A[bx, i] * factor

    return scale
