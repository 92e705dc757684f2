"""Gemms in clusters with multicast loads, and their expected results."""

import numpy as np
from specialized import launch_of

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.func import Level
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes import persist_grid
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")
TIMINGS = [(lazy, seed) for lazy in (False, True) for seed in range(3)]


def gemm_kernel(sizes, tile, *, dtype="float16", transposed=(False, False), epilogue=False, cluster=1):
    """A tiled product whose grid is rounded up to whole clusters."""
    M, N, K = sizes
    bm, bn, bk = tile
    cx, cy = cluster if isinstance(cluster, tuple) else (cluster, 1)
    grid = (-(-N // (bn * cx)) * cx, -(-M // (bm * cy)) * cy)
    of_a, of_b = transposed
    a_tile, b_tile = ((bk, bm) if of_a else (bm, bk)), ((bn, bk) if of_b else (bk, bn))

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if of_a else (M, K), dtype),
        B: T.Tensor((N, K) if of_b else (K, N), dtype),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(*grid, threads=128, cluster_dims=cluster) as (bx, by):
            A_s = T.alloc_shared(a_tile, dtype)
            B_s = T.alloc_shared(b_tile, dtype)
            C_l = T.alloc_fragment((bm, bn), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                if of_a:
                    T.copy(A[k * bk, by * bm], A_s)
                else:
                    T.copy(A[by * bm, k * bk], A_s)
                if of_b:
                    T.copy(B[bx * bn, k * bk], B_s)
                else:
                    T.copy(B[k * bk, bx * bn], B_s)
                T.gemm(A_s, B_s, C_l, transpose_A=of_a, transpose_B=of_b)
            if epilogue:
                for i, j in T.Parallel(bm, bn):
                    C_l[i, j] = T.max(C_l[i, j] + bias[bx * bn + j], 0.0)
            T.copy(C_l, C[by * bm, bx * bn])

    return main


def check(sizes, tile, *, blocks=4, timings=TIMINGS, shared=None, like=None, **pass_configs):
    like = like or {}
    few = Pass("persist_grid", lambda f, _: persist_grid.persist(f, blocks), Level.TILE, Level.TILE)
    passes = [few if step.name == few.name else step for step in BACKEND.passes]
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in pass_configs.items()})
    made = run_passes(gemm_kernel(sizes, tile, **like), passes, PassContext(options, TARGET))
    schedule = launch_of(made).plan.schedule
    assert (shared or "AB") == "".join(tile.name[0] for tile, _ in schedule.multicast)
    M, N, K = sizes
    kind = as_dtype(like.get("dtype", "float16")).numpy
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(kind) for shape in ((M, K), (K, N)))
    bias = rng.integers(-9, 10, N).astype(np.float32)
    want = a.astype(np.float32) @ b.astype(np.float32)
    want = np.maximum(want + bias, 0) if like.get("epilogue") else want
    of_a, of_b = like.get("transposed", (False, False))
    for lazy, seed in timings:
        c = np.full((M, N), np.nan, np.float32)
        arguments = [np.ascontiguousarray(a.T) if of_a else a, np.ascontiguousarray(b.T) if of_b else b, bias, c]
        simulate(made, arguments, target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want, c)
