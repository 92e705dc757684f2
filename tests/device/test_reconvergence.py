"""Lanes that retried an atomic operation at different times do matrix instructions together afterwards.

The program is one that ptxas 13.0 assembles so that one lane stays apart from the others of its warp, if nothing joins
them behind the loop of retries.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.sim.tile_interp import run_reference
from tilelang.testing import requires_cuda, to_device, to_host


@T.prim_func
def main(
    C: T.Tensor((1,), T.uint64),
    A: T.Tensor((34, 16), T.int8),
    B: T.Tensor((34, 24), T.int8),
    rows: T.Tensor((2, 17, 31), T.uint8),
    best: T.Tensor((2, 64), T.float64),
    sums: T.Tensor((2, 16, 24), T.int32),
):
    with T.Kernel(2, threads=160) as b:
        s = T.alloc_shared((24, 4), T.int64)
        T.fill(s, 1)
        x = T.alloc_shared((17, 31), T.uint8)
        for i, j in T.Parallel(17, 31):
            x[i, j] = T.uint8(2) >> 7
        m = T.alloc_shared((64,), T.float64)
        T.clear(m)
        for i in T.Parallel(17):
            for k in T.serial(64):
                if x[b, i] == x[16 - i, (k * 2 + b) % 31]:
                    m[63 - k] = T.max(T.cast(x[7 - b, s[23, b] % 31], T.float64) - 1.0, m[63 - k])
        for i, j in T.grid(2, 2):
            T.atomic_max(C[0], T.cast(s[b, j] & T.cast(x[b * 4, i] // x[b + 13, j], T.int64), T.uint64))
        if b != 1:
            low = T.alloc_fragment((17,), T.uint8)
            T.fill(low, 1)
            for i, j in T.Parallel(17, 31):
                low[i] = T.min(low[i], x[i, j])
            for i, j in T.Parallel(17, 31):
                x[i, j] = T.max(x[i, j], low[i])
        else:
            lowest = T.alloc_shared((31,), T.uint8)
            T.fill(lowest, 0)
            for i, j in T.Parallel(17, 31):
                lowest[j] = T.min(lowest[j], x[i, j])
            for i, j in T.Parallel(17, 31):
                x[i, j] = T.min(x[i, j], lowest[j])
        p = T.alloc_fragment((17, 16), T.int8)
        q = T.alloc_fragment((17, 24), T.int8)
        c = T.alloc_shared((16, 24), T.int32)
        T.clear(c)
        for k in T.Pipelined(2, num_stages=0):
            T.copy(A[k * 17, 0], p)
            T.copy(B[k * 17, 0], q)
            T.gemm(p, q, c, transpose_A=True, policy=T.GemmWarpPolicy.FullCol)
        T.copy(x, rows[b, 0, 0])
        T.copy(m, best[b, 0])
        T.copy(c, sums[b, 0, 0])


@requires_cuda
def test_a_product_behind_retried_updates_and_branches_is_right():
    rng = np.random.default_rng(0)
    arguments = [
        np.zeros(1, np.uint64),
        rng.integers(-9, 9, (34, 16)).astype(np.int8),
        rng.integers(-9, 9, (34, 24)).astype(np.int8),
        np.zeros((2, 17, 31), np.uint8),
        np.zeros((2, 64)),
        np.zeros((2, 16, 24), np.int32),
    ]
    there = [to_device(a, target="cuda") for a in arguments]
    tilelang.compile(main, target="cuda")(*there)
    run_reference(main, arguments)
    for want, got in zip(arguments, there, strict=True):
        np.testing.assert_array_equal(to_host(got), want)
