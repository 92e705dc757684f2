"""Warp-specialized kernels give the result of the program, however late copies complete."""

import re

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from gpu import SCHEDULES
from specialized import TARGET, gemm_kernel, lowered

import tilelang
import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.target import Target


def check(sizes, tile, timings, **pass_configs):
    M, N, K = sizes
    made = lowered(gemm_kernel(M, N, K, *tile), **pass_configs)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    for lazy, seed in timings:
        c = np.full((M, N), np.nan, np.float16)
        simulate(made, [a, b, c], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want, c)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_tiled_product_of_the_seeds(lazy, seed):
    check((64, 128, 192), (64, 64, 64), [(lazy, seed)], stages=2)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    "pass_configs",
    [
        {"persistent": True, "ping_pong": False},
        {"persistent": True, "ping_pong": False, "in_flight": 0, "staged": False},
        {"persistent": True, "ping_pong": True},
    ],
)
def test_tiles_of_blocks_that_stay_and_do_not_divide_the_sizes(pass_configs):
    check((100, 200, 136), (64, 64, 64), [(False, 0), (True, 1)], stages=2, **pass_configs)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("lazy", [False, True])
def test_few_rows_with_hints_to_the_cache(lazy):
    check((48, 192, 256), (64, 64, 64), [(lazy, seed) for seed in range(3)], stages=2)


def test_two_warpgroups_share_a_tile():
    check((128, 64, 128), (128, 64, 64), [(True, 0)], stages=2)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize(("first", "trips"), [(0, 0), (1, 1), (3, 1), (1, 3)])
@pytest.mark.parametrize("persistent", [False, True])
def test_loops_that_have_few_iterations_or_none(first, trips, persistent):
    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        C: T.Tensor((128, 64), "float16"),
        stop: T.int32,  # a loop that is known to be empty is dropped
    ):
        with T.Kernel(2, threads=128) as by:
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(first, stop, num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * 64, 0])

    rng = np.random.default_rng(4)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 256), (256, 64)))
    used = slice(first * 64, trips * 64)
    made = lowered(main, persistent=persistent)
    c = np.full((128, 64), np.nan, np.float16)
    simulate(made, [a, b, c, trips], target=TARGET, lazy=True, seed=1)
    np.testing.assert_array_equal(a[:, used].astype(np.float32) @ b[used].astype(np.float32), c)


@pytest.mark.parametrize("columns", [64, 128])
def test_layouts_by_name_suit_the_engines(columns):
    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), C: T.Tensor((128, 128), "float16")):
        with T.Kernel(2, threads=128) as by:
            A_s = T.alloc_shared((64, columns), "float16")
            B_s = T.alloc_shared((128, columns), "float16")
            C_l = T.alloc_fragment((64, 128), "float32")
            T.annotate_layout({A_s: T.make_swizzled_layout(A_s), B_s: T.make_swizzled_layout(B_s)})
            T.clear(C_l)
            for k in T.Pipelined(256 // columns, num_stages=2):
                T.copy(A[by * 64, k * columns], A_s)
                T.copy(A[0, k * columns], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 64, 0])

    a = np.random.default_rng(5).integers(-2, 3, (128, 256)).astype(np.float16)
    made = lowered(main)
    assert "wgmma" in to_text(made)
    c = np.full((128, 128), np.nan, np.float16)
    simulate(made, [a, c], target=TARGET, lazy=True, seed=1)
    np.testing.assert_array_equal(a.astype(np.float32) @ a.astype(np.float32).T, c)


def guarded_loop():
    """Some tiles of the grid leave a loop out, so that those of its ring are not used equally often."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 192), "float16"),
        C: T.Tensor((128, 192), "float32"),
    ):
        with T.Kernel(3, 2, threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            more_A = T.alloc_shared((64, 32), "float16")
            more_B = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            if bx + by < 2:
                for k in T.Pipelined(1, num_stages=3):
                    T.copy(A[by * 64, k * 32], A_s)
                    T.copy(B[k * 32, bx * 64], B_s)
                    T.gemm(A_s, B_s, C_l)
            for k in T.Pipelined(1, num_stages=3):
                T.copy(A[by * 64, 32 + k * 32], more_A)
                T.copy(B[32 + k * 32, bx * 64], more_B)
                T.gemm(more_A, more_B, C_l)
            T.copy(C_l, C[by * 64, bx * 64])

    return main


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("pass_configs", [{"persistent": True}, {"persistent": True, "stages": 2}, {"persistent": False}])
def test_loops_that_some_tiles_leave_out(pass_configs):
    made = lowered(guarded_loop(), **pass_configs)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 64), (64, 192)))
    first, want = (a[:, k : k + 32].astype(np.float32) @ b[k : k + 32].astype(np.float32) for k in (0, 32))
    first[64:, 64:] = first[:64, 128:] = 0
    want += first
    for lazy, seed in SCHEDULES:
        c = np.full((128, 192), np.nan, np.float32)
        simulate(made, [a, b, c], target=TARGET, lazy=lazy, seed=seed)
        np.testing.assert_array_equal(want, c)


def attention(rows, causal):
    """Softmax without its maximum, which scores this small do not need: what matters is who brings what when."""

    @T.prim_func
    def main(
        Q: T.Tensor((rows, 64), "float16"),
        K: T.Tensor((rows, 64), "float16"),
        V: T.Tensor((rows, 64), "float16"),
        O: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, 64), threads=128) as bx:
            Q_s = T.alloc_shared((64, 64), "float16")
            K_s = T.alloc_shared((64, 64), "float16")
            V_s = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64,), "float32")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[bx * 64, 0], Q_s)
            T.clear(total)
            T.clear(out)
            for k in T.Pipelined(bx + 1 if causal else T.ceildiv(rows, 64), num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                T.copy(V[k * 64, 0], V_s)
                T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    seen = k * 64 + j < rows
                    if causal:
                        seen = T.all_of(seen, k * 64 + j <= bx * 64 + i)
                    scores[i, j] = T.if_then_else(seen, T.exp(scores[i, j] * 0.01), 0.0)
                T.reduce_sum(scores, total, dim=1, clear=False)
                T.copy(scores, weights)
                T.gemm(weights, V_s, out)
            for i, j in T.Parallel(64, 64):
                out[i, j] = out[i, j] / total[i]
            T.copy(out, O[bx * 64, 0])

    return main


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_of_several_rings_and_once_per_tile(causal):
    rows = 136
    made = lowered(attention(rows, causal), persistent=True)
    rng = np.random.default_rng(1)
    q, k, v = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for _ in range(3))
    weights = np.exp(q.astype(np.float32) @ k.astype(np.float32).T * 0.01) * (np.tri(rows) if causal else 1.0)
    want = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float32)
    for lazy in (False, True):
        out = np.full((rows, 64), np.nan, np.float32)
        simulate(made, [q, k, v, out], target=TARGET, lazy=lazy, seed=2)
        np.testing.assert_allclose(out, want, rtol=1e-2, atol=1e-2)


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
def test_products_overlap_although_scores_are_masked(causal):
    made = build(emit(lowered(attention(4096, causal))), TARGET.arch, "nvrtc")
    (used,) = made.resources.values()
    assert (0, False, ()) == (used.spill_bytes, used.serialized, made.warnings)


def test_what_threads_read_one_by_one_is_given_back_by_each_of_them():
    @T.prim_func
    def main(
        A: T.Tensor((256, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        bias: T.Tensor((256, 64), "float32"),
        C: T.Tensor((256, 64), "float16"),
    ):
        with T.Kernel(4, threads=128) as by:
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            bias_s = T.alloc_shared((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(bias[by * 64, 0], bias_s)
            T.clear(C_l)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(64, 64):
                C_l[i, j] += bias_s[i, j]
            T.copy(C_l, C_s)
            T.copy(C_s, C[by * 64, 0])

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((256, 128), (128, 64)))
    bias = rng.integers(-2, 3, (256, 64)).astype(np.float32)
    want = (a.astype(np.float32) @ b.astype(np.float32) + bias).astype(np.float16)
    for pass_configs in ({}, {"ping_pong": False}):
        made = lowered(main, persistent=True, **pass_configs)
        for lazy in (False, True):
            c = np.full((256, 64), np.nan, np.float16)
            simulate(made, [a, b, bias, c], target=TARGET, lazy=lazy, seed=3)
            np.testing.assert_array_equal(want, c)


def test_tiles_too_small_to_lie_one_behind_another_are_left_to_those_who_use_them():
    @T.prim_func
    def main(
        A: T.Tensor((256, 128), "float16"),
        B: T.Tensor((128, 32), "float16"),
        bias: T.Tensor((32,), "float16"),
        C: T.Tensor((256, 32), "float32"),
    ):
        with T.Kernel(4, threads=128) as by:
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 32), "float16")
            bias_s = T.alloc_shared((32,), "float16")
            C_l = T.alloc_fragment((64, 32), "float32")
            T.copy(bias, bias_s)  # 64 bytes, but a box in shared memory begins at a multiple of 128
            T.clear(C_l)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(64, 32):
                C_l[i, j] += bias_s[j]
            T.copy(C_l, C[by * 64, 0])

    rng = np.random.default_rng(3)
    a, b, bias = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((256, 128), (128, 32), (32,)))
    for pass_configs in ({"persistent": True}, {}):
        made = lowered(main, **pass_configs)
        c = np.full((256, 32), np.nan, np.float32)
        simulate(made, [a, b, bias, c], target=TARGET, lazy=True, seed=1)
        np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32) + bias, c)


def test_other_names_of_parameters_keep_the_copy_engine_and_the_schedule():
    m, n, k = 128, 64, 128

    def gemm_kernel(a_shape, a_of, b_dtype, b_of):
        @T.prim_func
        def main(A: T.Tensor(a_shape, "float16"), B: T.Tensor((k, n), b_dtype), C: T.Tensor((m * n,), "float32")):
            a, b, c = a_of(A), b_of(B), T.view(C, (m, n))
            with T.Kernel(n // 64, m // 128, threads=128) as (bx, by):
                a_s, b_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
                c_f = T.alloc_fragment((128, 64), "float32")
                T.clear(c_f)
                for step in T.Pipelined(k // 64, num_stages=2):
                    T.copy(a[by * 128, step * 64], a_s)
                    T.copy(b[step * 64, bx * 64], b_s)
                    T.gemm(a_s, b_s, c_f)
                T.copy(c_f, c[by * 128, bx * 64])

        return tilelang.compile(main, target=Target("cuda", "sm_90a"), execution_backend="simulator")

    plain = gemm_kernel((m, k), lambda x: x, "float16", lambda x: x)
    named = gemm_kernel((2, m // 2, k), lambda x: T.reshape(x, (m, k)), "uint16", lambda x: T.view(x, (k, n), "float16"))
    assert plain.explain() == re.sub(r"'([abc])'", lambda name: name[0].upper(), named.explain())
    for done in ("T.copy is lowered by copy.tma\n", "T.copy is lowered by copy.tma_store\n", ": specialized: "):
        assert done in named.explain()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros(m * n, np.float32)
    named(a.reshape(2, m // 2, k), b.view(np.uint16), c)
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c.reshape(m, n))
