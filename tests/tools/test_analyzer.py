from types import SimpleNamespace

import pytest

import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.tools import Analyzer

DEVICE = SimpleNamespace(compute_capability="80", bandwidth=[750, 12080])


def product(size: int, block: int) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor((size, size), "float16"), B: T.Tensor((size, size), "float16"), C: T.Tensor((size, size), "float16")
    ) -> None:
        with T.Kernel(T.ceildiv(size, block), T.ceildiv(size, block), threads=128) as (bx, by):
            a, b = T.alloc_shared((block, block), "float16"), T.alloc_shared((block, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(size, block), num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[bx * block, k * block], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * block, bx * block])

    return main


def test_products_and_copies_are_counted() -> None:
    result = Analyzer.analysis(product(96, 32), DEVICE)
    assert 2 * 96**3 == result.total_flops
    tiles, tile = 9, 32 * 32 * 2
    assert tiles * (3 * 2 * tile + tile) == result.total_global_bytes
    assert result.total_global_bytes / 750e9 == pytest.approx(result.estimated_time)
    assert 750 == pytest.approx(result.expected_bandwidth_GBps)
    assert result.total_flops / result.estimated_time / 1e12 == pytest.approx(result.expected_tflops)


def test_elements_are_counted() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")) -> None:
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                B[b * 32 + i] = A[b * 32 + i] + 1

    result = Analyzer.analysis(main, SimpleNamespace(sm_version=90))
    assert (0, 2 * 64 * 4) == (result.total_flops, result.total_global_bytes)
    assert 4800 == pytest.approx(result.expected_bandwidth_GBps)


def test_what_cannot_be_counted() -> None:
    with pytest.raises(TypeError, match="Analyzer: 3 is no @T.prim_func"):
        Analyzer.analysis(3, DEVICE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Analyzer: unknown device"):
        Analyzer.analysis(product(32, 32), object())
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32")) -> None:
        with T.Kernel(n, threads=32) as b:
            A[b] = 1.0

    with pytest.raises(ValueError, match="Analyzer: n is only known when the kernel runs"):
        Analyzer.analysis(main, DEVICE)
