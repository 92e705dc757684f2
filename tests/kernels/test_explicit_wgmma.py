"""Explicit asynchronous gemms (`T.wgmma_gemm`) on Hopper, mixed with tile operators, and their waits."""

import numpy as np
import pytest
from gpu import SCHEDULES
from hopper import failures, integers, results

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import DataRace


def whole_block(kind):
    """The whole block loads, waits and multiplies; `kind` says by what the tiles come, and how they are multiplied."""
    load, multiply = kind

    @T.prim_func
    def main(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            C_f = T.alloc_fragment((64, 64), "float32")
            bar = T.alloc_barrier(128)
            T.clear(C_f)
            for k in T.Pipelined(3, num_stages=2):
                if load == "engine":
                    T.tma_copy(A[0, k * 32], A_s, barrier=bar)
                    T.tma_copy(B[k * 32, 0], B_s, barrier=bar)
                else:
                    T.tma_copy(A[0, k * 32], A_s, barrier=bar)
                    T.copy(B[k * 32, 0], B_s)
                T.barrier_arrive(bar)
                T.barrier_wait(bar, k % 2)
                if multiply == "wgmma":
                    T.wgmma_gemm(A_s, B_s, C_f)
                    T.wait_wgmma(0)
                else:
                    T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C)

    return main


@pytest.mark.parametrize("kind", [(load, by) for load in ("engine", "both") for by in ("wgmma", "gemm")])
def test_tma_and_wgmma_mix_with_tile_operators(kind):
    a, b = integers(64, 96), integers(96, 64)
    _, _, c = results(whole_block(kind), a, b, np.zeros((64, 64), np.float32))
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


def async_gemms(rows=64, dtype="float16", sums="float32", held=False, awaited="at the end", copies=False):
    """Two products, the first of which need not be over when the second begins."""

    @T.prim_func
    def main(A: T.Tensor((rows, 64), dtype), B: T.Tensor((64, 64), dtype), C: T.Tensor((rows, 64), sums)):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_fragment((rows, 32), dtype) if held else T.alloc_shared((rows, 32), dtype)
            B_s = T.alloc_shared((64, 32), dtype)
            A_t = T.alloc_fragment((rows, 32), dtype) if held else T.alloc_shared((rows, 32), dtype)
            B_t = T.alloc_shared((64, 32), dtype)
            C_f = T.alloc_fragment((rows, 64), sums)
            T.copy(A[0, 0], A_s)
            T.copy(B[0, 0], B_s)
            T.gemm(A_s, B_s, C_f, transpose_B=True, clear_accum=True, wg_wait=-1)
            T.copy(A[0, 32], A_t)
            T.copy(B[0, 32], B_t)
            if awaited == "by the next one":
                T.gemm(A_t, B_t, C_f, transpose_B=True)
            else:
                T.gemm(A_t, B_t, C_f, transpose_B=True, wg_wait=1 if awaited == "at the end" else -1)
                if awaited == "at the end":
                    T.wait_wgmma(0)
            T.copy(C_f, C)

    return main


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"awaited": "by the next one"},
        {"held": True},
        {"dtype": "tfloat32", "held": True},
        {"dtype": "bfloat16", "sums": "bfloat16"},
        {"rows": 32},  # by the instructions of warps, which are over at once
        {"rows": 32, "awaited": "never"},
        {"dtype": "float32"},
    ],
    ids=lambda case: "-".join(map(str, case.values())) or "plain",
)
def test_gemms_that_are_awaited_later(case):
    dtype, rows = as_dtype(case.get("dtype", "float16")).numpy, case.get("rows", 64)
    a, b = integers(rows, 64, dtype=dtype), integers(64, 64, dtype=dtype)
    sums = as_dtype(case.get("sums", "float32")).numpy
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(sums)
    _, _, c = results(async_gemms(**case), a, b, np.zeros((rows, 64), sums))
    np.testing.assert_array_equal(expected.astype(np.float32), c.astype(np.float32))


def test_a_read_of_a_pending_accumulator_is_reported():
    a, b = integers(64, 64), integers(64, 64)
    found = list(failures(async_gemms(awaited="never"), a, b, np.zeros((64, 64), np.float32)))
    assert len(SCHEDULES) > sum(error is None for error in found)  # what is done at once is not seen too early
    for error in filter(None, found):
        assert isinstance(error, DataRace)
        assert "'C_f'" in str(error)
