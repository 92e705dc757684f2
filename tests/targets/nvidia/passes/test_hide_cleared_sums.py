"""Compilers that are to save registers do not see that sums of wgmma begin as zeros."""

import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from gpu import assert_simulates, lower_func

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def decoding(keys, *, rows=2, parts=4, dim=64, block=128):
    """Attention of few rows to parts of a cache, whose sums are stored as they are."""
    part = 6 * block

    @T.prim_func
    def main(
        Q: T.Tensor((rows, dim), "float16"),
        K: T.Tensor((keys, dim), "float16"),
        V: T.Tensor((keys, dim), "float16"),
        O: T.Tensor((parts, rows, dim), "float32"),
        L: T.Tensor((parts, rows), "float32"),
    ):
        with T.Kernel(parts, threads=128) as n:
            Q_s = T.alloc_shared((64, dim), "float16")
            K_s, V_s = T.alloc_shared((block, dim), "float16"), T.alloc_shared((block, dim), "float16")
            S, scaled, P = (T.alloc_fragment((64, block), "float32") for _ in range(3))
            o = T.alloc_fragment((64, dim), "float32")
            top, before, rescale, total = (T.alloc_fragment((64,), "float32") for _ in range(4))
            T.fill(top, T.min_value("float32"))
            T.clear(total)
            T.clear(o)
            T.copy(Q[0:64, 0:dim], Q_s)
            for k in T.Pipelined(T.ceildiv(T.min(part, keys - n * part), block), num_stages=2):
                T.copy(K[n * part + k * block, 0], K_s)
                T.copy(V[n * part + k * block, 0], V_s)
                T.copy(top, before)
                T.gemm(Q_s, K_s, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                for i, j in T.Parallel(64, block):
                    is_key = k * block + j < T.min(part, keys - n * part)
                    scaled[i, j] = T.if_then_else(is_key, S[i, j] * 0.125, -T.infinity("float32"))
                T.reduce_max(scaled, top, dim=1, clear=False)
                for i in T.Parallel(64):
                    rescale[i] = T.exp2((before[i] - top[i]) * 1.442695)
                for i in T.Parallel(64):
                    total[i] = total[i] * rescale[i]
                for i, j in T.Parallel(64, block):
                    P[i, j] = T.exp2((scaled[i, j] - top[i]) * 1.442695)
                T.reduce_sum(P, total, dim=1, clear=False)
                for i, j in T.Parallel(64, dim):
                    o[i, j] = o[i, j] * rescale[i]
                T.gemm(P, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(o[0:rows, :], O[n, 0:rows, 0:dim])
            T.copy(total, L[n, 0:64])

    return main


@T.prim_func
def product(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
        C_l = T.alloc_fragment((128, 128), "float32")
        T.clear(C_l)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], A_s)
            T.copy(B[k * 64, 0], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C)


def hidden(func, arch="sm_90a"):
    """The names of the arrays whose values are hidden."""
    calls = [stmt for stmt in walk(lower_func(func, arch).body) if isinstance(stmt, CallStmt)]
    return [call.writes[0].buffer.name for call in calls if "_hide_" in call.routine.name]


def test_sums_that_are_cleared_before_a_loop_are_hidden_behind_the_clear():
    assert ["o"] == hidden(decoding(2500))


@pytest.mark.parametrize(("func", "arch"), [(product, "sm_90a"), (decoding(2500), "sm_80")])
def test_sums_that_a_gemm_clears_and_those_of_other_instructions_are_not(func, arch):
    assert [] == hidden(func, arch)


def test_the_kernel_computes_the_same():
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, shape).astype(np.float16) for shape in ((2, 64), (430, 64), (430, 64))]
    outputs = np.zeros((2, 2, 64), np.float32), np.zeros((2, 2), np.float32)
    assert_simulates(decoding(430, parts=2, block=64), *arrays, *outputs)


@needs_nvrtc
def test_unused_rows_of_sums_let_no_gemm_wait():
    kernel = tilelang.compile(decoding(2500), target=HOPPER)
    assert not kernel.resources.serialized
    assert kernel.resources.spill_bytes == 0
