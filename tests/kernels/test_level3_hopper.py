"""Kernels that use the engines of Hopper themselves: rings, stores, products in the background, clusters; and faults."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from gpu import SCHEDULES, in_every_schedule, lower_func

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import DataRace, Deadlock, SimulationError
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

HOPPER = Target("cuda", "sm_90a")
TARGET = {"kind": "cuda", "arch": "sm_90a"}


def integers(*shape, dtype=np.float16):
    return np.random.randint(-3, 4, shape).astype(dtype)


def results(func, *arguments):
    """The arguments after the kernel, which are the same in every schedule."""
    return in_every_schedule(func, *arguments, arch="sm_90a")


def failures(func, *arguments):
    """What goes wrong in each schedule; None where nothing does."""
    lowered = lower_func(func, "sm_90a")
    for lazy, seed in SCHEDULES:
        try:
            simulate(lowered, [np.array(a) for a in arguments], target=HOPPER, lazy=lazy, seed=seed)
        except SimulationError as error:
            yield error
        else:
            yield None


# -- a ring with roles ---------------------------------------------------------------------------------------------
def gemm(M, N, K, BM=128, BN=64, BK=32, stages=2, *, in_flight=1, fault=""):
    """A producer and two consumers, each by `T.ws`."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=384) as (bx, by):
            A_s = T.alloc_shared((stages, BM, BK), "float16")
            B_s = T.alloc_shared((stages, BK, BN), "float16")
            C_s = T.alloc_shared((BM, BN), "float16")
            C_f = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([2] * stages)
            steps = T.ceildiv(K, BK)
            with T.ws(2):
                T.set_max_nreg(24, False)
                for k in T.serial(steps):
                    s = k % stages
                    T.barrier_wait(empty[s], k // stages % 2 ^ (0 if fault == "parity" else 1))
                    T.tma_copy(A[by * BM, k * BK], A_s[s, :, :], barrier=full[s])
                    T.tma_copy(B[k * BK, bx * BN], B_s[s, :, :], barrier=full[s])
                    if fault == "bytes":
                        T.mbarrier_expect_tx(full[s], 16)
                    T.barrier_arrive(full[s])
            with T.ws(0, 1):
                T.set_max_nreg(240, True)
                for k in T.serial(steps):
                    s = k % stages
                    T.barrier_wait(full[s], k // stages % 2)
                    T.wgmma_gemm(A_s[s, :, :], B_s[s, :, :], C_f, clear_accum=k == 0)
                    if in_flight == 0 or fault == "early release":
                        if fault != "early release":
                            T.wait_wgmma(0)
                        if T.shuffle_elect(128):
                            T.barrier_arrive(empty[s])
                    elif k > 0:
                        T.wait_wgmma(1)
                        if T.shuffle_elect(128):
                            T.barrier_arrive(empty[(k - 1) % stages])
                if fault != "no wait":
                    T.wait_wgmma(0)
                T.copy(C_f, C_s)
                T.tma_copy(C_s, C[by * BM, bx * BN])
                T.tma_store_wait(0)

    return main


def product(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


@pytest.mark.parametrize("in_flight", [0, 1])
def test_roles_by_hand_multiply_what_tiles_do_not_divide(in_flight):
    a, b = integers(136, 104), integers(104, 40)
    _, _, c = results(gemm(136, 40, 104, in_flight=in_flight), a, b, np.zeros((136, 40), np.float16))
    np.testing.assert_array_equal(product(a, b), c)


def test_the_compiler_leaves_such_programs_alone():
    (launch,) = [s for s in walk(lower_func(gemm(128, 64, 64), "sm_90a").body) if isinstance(s, Launch)]
    assert 384 == launch.num_threads
    assert launch.plan.schedule is None


@needs_cuda_compiler
@pytest.mark.parametrize("tile", [(128, 128, 64, 4), (128, 256, 64, 3)])
def test_registers_hold_everything_and_products_overlap(tile):
    kernel = tilelang.compile(gemm(1024, 1024, 1024, *tile), out_idx=[2], target=TARGET)
    resources = kernel.resources
    assert (0, 0, False) == (resources.spill_bytes, resources.local_bytes, resources.serialized)
    assert resources.registers == 168
    assert "setmaxnreg" in kernel.get_kernel_source()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("parity", Deadlock),
        ("bytes", Deadlock),
        ("early release", DataRace),
        ("no wait", DataRace),
    ],
)
def test_faults_of_rings_are_found(fault, kind):
    a, b = integers(128, 160), integers(160, 64)
    found = list(failures(gemm(128, 64, 160, fault=fault), a, b, np.zeros((128, 64), np.float16)))
    assert any(isinstance(error, kind) for error in found), found
    if kind is Deadlock:
        assert None not in found


# -- branches on the thread index ------------------------------------------------------------------------------------
@T.prim_func
def by_branches(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float32")):
    with T.Kernel(1, threads=256):
        A_s = T.alloc_shared((2, 128, 32), "float16")
        B_s = T.alloc_shared((2, 32, 64), "float16")
        C_f = T.alloc_fragment((128, 64), "float32")
        loaded = T.alloc_barrier([32] * 2)
        consumed = T.alloc_barrier([128] * 2)
        tx = T.get_thread_binding()
        if tx < 128:
            T.dec_max_nreg(40)
            if tx < 32:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(consumed[k % 2], (k // 2) & 1 ^ 1)
                    T.tma_copy(A[0:128, k * 32 : (k + 1) * 32], A_s[k % 2, :, :], barrier=loaded[k % 2])
                    T.tma_copy(B[k * 32 : (k + 1) * 32, 0:64], B_s[k % 2, :, :], barrier=loaded[k % 2])
                    T.mbarrier_arrive(loaded[k % 2])
        else:
            T.inc_max_nreg(256)
            T.clear(C_f)
            for k in T.serial(4):
                T.mbarrier_wait_parity(loaded[k % 2], (k // 2) & 1)
                T.wgmma_gemm(A_s[k % 2, :, :], B_s[k % 2, :, :], C_f)
                T.wait_wgmma(0)
                T.mbarrier_arrive(consumed[k % 2])
            for i, j in T.Parallel(128, 64):
                C_f[i, j] = C_f[i, j] * 2
            T.copy(C_f, C)


def test_branches_of_whole_warps_are_groups_that_do_tiles():
    a, b = integers(128, 128), integers(128, 64)
    _, _, c = results(by_branches, a, b, np.zeros((128, 64), np.float32))
    np.testing.assert_array_equal(2 * a.astype(np.float32) @ b.astype(np.float32), c)


# -- single threads --------------------------------------------------------------------------------------------------
def by_one_thread(who, stages=2):
    """A thread alone brings tiles to a ring, one more stores what the others made of them."""

    @T.prim_func
    def main(A: T.Tensor((64, 200), "float16"), C: T.Tensor((64, 200), "float16")):
        with T.Kernel(1, threads=256):
            A_s = T.alloc_shared((stages, 64, 64), "float16")
            C_s = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            if tx >= 128:
                if who == "index":
                    if tx == 128:
                        for k in T.serial(4):
                            T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
                            T.tma_copy(A[0, k * 64], A_s[k % stages, :, :], barrier=full[k % stages])
                            T.barrier_arrive(full[k % stages])
                else:
                    for k in T.serial(4):
                        T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
                        if T.shuffle_elect(128):
                            T.mbarrier_expect_tx(full[k % stages], 0)
                            T.tma_copy(A[0, k * 64], A_s[k % stages, :, :], barrier=full[k % stages])
                            T.barrier_arrive(full[k % stages])
            else:
                for k in T.serial(4):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    for i, j in T.Parallel(64, 64):
                        C_s[i, j] = A_s[k % stages, i, j] + A_s[k % stages, i, 63 - j]
                    T.barrier_arrive(empty[k % stages])
                    if T.shuffle_elect(128) if who == "elect" else tx == 0:
                        T.tma_copy(C_s, C[0, k * 64])
                        T.tma_store_wait(0)

    return main


@pytest.mark.parametrize("who", ["index", "elect"])
def test_a_thread_that_stands_alone_starts_the_engine_itself(who):
    a = integers(64, 200)
    _, c = results(by_one_thread(who), a, np.zeros_like(a))
    padded = np.zeros((64, 256), np.float16)
    padded[:, :200] = a
    tiles = padded.reshape(64, 4, 64)
    np.testing.assert_array_equal((tiles + tiles[:, :, ::-1]).reshape(64, 256)[:, :200], c)


def test_of_threads_that_come_together_one_starts_the_engine():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            bar = T.alloc_barrier(2)
            if T.get_thread_binding() < 2:
                T.tma_copy(A, S, barrier=bar)
                T.barrier_arrive(bar)
            T.barrier_wait(bar, 0)
            T.copy(S, C)

    a = integers(64, 64)
    _, c = results(main, a, np.zeros_like(a))
    np.testing.assert_array_equal(a, c)


# -- without roles -----------------------------------------------------------------------------------------------------
def all_together(kind):
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
def test_engines_mix_with_tile_operators(kind):
    a, b = integers(64, 96), integers(96, 64)
    _, _, c = results(all_together(kind), a, b, np.zeros((64, 64), np.float32))
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


def left_under_way(rows=64, dtype="float16", sums="float32", held=False, awaited="at the end", copies=False):
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
def test_products_that_are_not_waited_for_at_once(case):
    dtype, rows = as_dtype(case.get("dtype", "float16")).numpy, case.get("rows", 64)
    a, b = integers(rows, 64, dtype=dtype), integers(64, 64, dtype=dtype)
    sums = as_dtype(case.get("sums", "float32")).numpy
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(sums)
    _, _, c = results(left_under_way(**case), a, b, np.zeros((rows, 64), sums))
    np.testing.assert_array_equal(expected.astype(np.float32), c.astype(np.float32))


def test_sums_of_a_product_that_nobody_waits_for_are_reported():
    a, b = integers(64, 64), integers(64, 64)
    found = list(failures(left_under_way(awaited="never"), a, b, np.zeros((64, 64), np.float32)))
    assert len(SCHEDULES) > sum(error is None for error in found)  # what is done at once is not seen too early
    for error in filter(None, found):
        assert isinstance(error, DataRace)
        assert "'C_f'" in str(error)


@T.prim_func
def two_tiles_on_their_way(C: T.Tensor((100, 120), "float32")):
    with T.Kernel(1, threads=128):
        C_s = T.alloc_shared((2, 100, 32), "float32")
        for j in T.serial(4):
            T.tma_store_wait(1)
            for p, q in T.Parallel(100, 32):
                C_s[j % 2, p, q] = p * 128 + j * 32 + q
            T.tma_copy(C_s[j % 2, :, :], C[0:100, j * 32 : j * 32 + 32])
        T.tma_store_wait()


def test_stores_leave_while_the_next_tile_is_written():
    (c,) = results(two_tiles_on_their_way, np.zeros((100, 120), np.float32))
    np.testing.assert_array_equal(np.arange(100)[:, None] * 128 + np.arange(120), c)


@T.prim_func
def a_store_that_nobody_awaits(C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        C_s = T.alloc_shared((64, 32), "float32")
        for j in T.serial(2):
            for p, q in T.Parallel(64, 32):
                C_s[p, q] = j
            T.tma_copy(C_s, C[0:64, j * 32 : j * 32 + 32])
        T.tma_store_wait()


def test_what_all_threads_wrote_is_waited_for_before_they_wait_for_each_other():
    """A barrier between the groups would keep the second from freeing what the first waits for."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=384):
            whole = T.alloc_shared((64, 64), "float16")
            ready, free, full = T.alloc_barrier(384), T.alloc_barrier(256), T.alloc_barrier(128)
            tx = T.get_thread_binding()
            T.copy(A, whole)
            T.barrier_arrive(ready)
            if tx >= 256:
                T.barrier_wait(free, 0)
                T.barrier_arrive(full)
            elif tx < 128:
                T.barrier_wait(ready, 0)
                T.barrier_arrive(free)
                T.barrier_wait(full, 0)
                for i, j in T.Parallel(64, 32):
                    B[i, j] = whole[63 - i, j]
            else:
                T.barrier_arrive(free)
                T.barrier_wait(ready, 0)
                for i, j in T.Parallel(64, 32):
                    B[i, 32 + j] = whole[63 - i, 32 + j]

    a = integers(64, 64)
    _, b = results(main, a, np.zeros_like(a))
    np.testing.assert_array_equal(a[::-1], b)


def test_boxes_of_a_tile_come_and_leave_by_themselves():
    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), B: T.Tensor((128, 256), "float16")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64, 256), "float16")
            full = T.alloc_barrier([128] * 4)
            for j in T.unroll(4):
                T.tma_copy(
                    A[bx * 64 : (bx + 1) * 64, (3 - j) * 64 : (4 - j) * 64],
                    tile[:, j * 64 : (j + 1) * 64],
                    barrier=full[j],
                )
                T.barrier_arrive(full[j])
            for j in T.unroll(4):
                T.barrier_wait(full[j], 0)
            for i, j in T.Parallel(64, 256):
                tile[i, j] = tile[i, j] + 1
            T.fence_proxy_async()
            T.sync_threads()
            for j in T.serial(2):
                T.tma_copy(tile[:, j * 128 : (j + 1) * 128], B[bx * 64 : (bx + 1) * 64, j * 128 : (j + 1) * 128])
            T.tma_store_wait()

    a = integers(128, 256)
    expected = a.reshape(128, 4, 64)[:, ::-1].reshape(128, 256) + 1
    _, b = results(main, a, np.zeros_like(a))
    np.testing.assert_array_equal(expected, b)


@pytest.mark.parametrize("is_swizzled", [True, False])
def test_rows_of_a_tile_come_and_leave_by_themselves(is_swizzled):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((8, 128), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((2, 32, 128), "float16")
            if is_swizzled:
                T.annotate_layout({tile: T.make_swizzled_layout(tile)})
            full = T.alloc_barrier([128] * 2)
            for s in T.unroll(2):
                for half in T.unroll(2):
                    for j in T.unroll(2):
                        T.tma_copy(
                            A[s * 32 + (1 - half) * 16 : s * 32 + (2 - half) * 16, j * 64 : (j + 1) * 64],
                            tile[s, half * 16 : (half + 1) * 16, j * 64 : (j + 1) * 64],
                            barrier=full[s],
                        )
                T.barrier_arrive(full[s])
            for s in T.unroll(2):
                T.barrier_wait(full[s], 0)
            T.sync_threads()
            T.tma_copy(A[63:64, :], tile[1, 8:9, :], barrier=full[0])
            T.barrier_arrive(full[0])
            T.barrier_wait(full[0], 1)
            for s, i, j in T.Parallel(2, 32, 128):
                B[s * 32 + i, j] = tile[s, i, j]
            T.tma_copy(tile[0, 24:32, :], C)
            T.tma_store_wait()

    a = integers(64, 128)
    expected = a.reshape(2, 2, 16, 128)[:, ::-1].reshape(64, 128).copy()
    expected[40] = a[63]
    _, b, c = results(main, a, np.zeros_like(a), np.zeros_like(a[:8]))
    np.testing.assert_array_equal(expected, b)
    np.testing.assert_array_equal(expected[24:32], c)


@pytest.mark.parametrize("is_swizzled", [True, False])
def test_a_tile_comes_under_another_name_of_its_bytes(is_swizzled):
    @T.prim_func
    def main(A: T.Tensor((8, 32, 64), "float16"), B: T.Tensor((8, 16, 64), "float16")):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((2, 64, 64), "float16")
            if is_swizzled:
                T.annotate_layout({q: T.make_swizzled_layout(q)})
            tiles = T.view(q, [2, 4, 16, 64])
            full = T.alloc_barrier([128] * 2)
            for s in T.unroll(2):
                T.tma_copy(A[s * 4 : s * 4 + 4, 16:32, :], tiles[s, :, :, :], barrier=full[s])
                T.barrier_arrive(full[s])
            for s in T.unroll(2):
                T.barrier_wait(full[s], 0)
            for s, i, j in T.Parallel(2, 64, 64):
                B[s * 4 + i // 16, i % 16, j] = q[s, i, j]

    a = integers(8, 32, 64)
    _, b = results(main, a, np.zeros_like(a[:, :16]))
    np.testing.assert_array_equal(a[:, 16:], b)


def test_a_tile_that_is_written_while_it_leaves_is_reported():
    found = list(failures(a_store_that_nobody_awaits, np.zeros((64, 64), np.float32)))
    assert any(isinstance(error, DataRace) for error in found)


# -- clusters ------------------------------------------------------------------------------------------------------------
@T.prim_func
def exchange(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64, cluster_dims=2) as bx:
        S = T.alloc_shared((64,), "float32")
        tx = T.get_thread_binding()
        rank = T.block_rank_in_cluster()
        S[tx] = A[bx, tx]
        T.cluster_sync()
        B[bx, tx] = T.cluster_load(S[63 - tx], rank ^ 1)
        T.cluster_sync()


def test_blocks_of_a_cluster_read_each_other():
    a = integers(4, 64, dtype=np.float32)
    _, b = results(exchange, a, np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(a[[1, 0, 3, 2]][:, ::-1], b)


@T.prim_func
def push(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64, cluster_dims=(2,)) as bx:
        S = T.alloc_shared((64,), "float32")
        come = T.alloc_cluster_barrier(1)
        taken = T.alloc_cluster_barrier(64)
        tx = T.get_thread_binding()
        rank = T.block_rank_in_cluster()
        if tx == 0:
            T.mbarrier_arrive_expect_tx(come, 256)
        T.cluster_store_async(S[tx], rank ^ 1, A[bx, tx] + T.get_cluster_block_nums(), come)
        T.barrier_wait(come, 0)
        B[bx, tx] = S[63 - tx]
        T.barrier_arrive(taken, rank ^ 1)
        T.barrier_wait(taken, 0)


def test_blocks_of_a_cluster_push_and_answer():
    a = integers(4, 64, dtype=np.float32)
    _, b = results(push, a, np.zeros((4, 64), np.float32))
    np.testing.assert_array_equal(a[[1, 0, 3, 2]][:, ::-1] + 2, b)


@T.prim_func
def halves_for_both(A: T.Tensor((64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16")):
    with T.Kernel(2, threads=128, cluster_dims=2) as bx:
        S = T.alloc_shared((2, 32, 64), "float16")
        come = T.alloc_cluster_barrier(1)
        T.cluster_sync()
        for half in range(2):  # the second is of the block that the mask begins with
            T.tma_copy(A[(bx + half) * 32, 0], S[half, :, :], barrier=come, cluster_mask=3)
        if T.get_thread_binding() == 0:
            T.barrier_arrive(come)
        T.barrier_wait(come, 0)
        for i, j in T.Parallel(64, 64):
            B[bx, i, j] = S[i // 32, i % 32, j]
        T.cluster_sync()


def test_a_tile_comes_to_several_blocks_of_a_cluster():
    a = integers(64, 64)
    _, b = results(halves_for_both, a, np.zeros((2, 64, 64), np.float16))
    np.testing.assert_array_equal(np.stack([a, a]), b)


# -- what the compiler may do ------------------------------------------------------------------------------------------
def test_registers_stay_where_they_are_if_the_user_says_so():
    def tiled(keep):
        @T.prim_func
        def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float16")):
            with T.Kernel(2, 4, threads=128) as (bx, by):
                if keep:
                    T.disable_warp_group_reg_alloc()
                A_s = T.alloc_shared((128, 64), "float16")
                B_s = T.alloc_shared((64, 256), "float16")
                C_f = T.alloc_fragment((128, 256), "float32")
                T.clear(C_f)
                for k in T.Pipelined(8, num_stages=3):
                    T.copy(A[by * 128, k * 64], A_s)
                    T.copy(B[k * 64, bx * 256], B_s)
                    T.gemm(A_s, B_s, C_f)
                T.copy(C_f, C[by * 128, bx * 256])

        return main

    def schedule(func):
        (launch,) = [s for s in walk(lower_func(func, "sm_90a").body) if isinstance(s, Launch)]
        return launch.plan.schedule

    assert schedule(tiled(keep=True)).registers is None
    assert schedule(tiled(keep=False)) is not None
