"""Explicit warp specialization on Hopper by `T.ws` or branches: pipelines of TMA loads and wgmma, setmaxnreg; and faults."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from gpu import lower_func
from hopper import TARGET, failures, integers, results

import tilelang
import tilelang.language as T
from tilelang.errors import DataRace, Deadlock
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk


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


def expected(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("in_flight", [0, 1])
def test_sizes_that_tiles_do_not_divide(in_flight):
    a, b = integers(136, 104), integers(104, 40)
    _, _, c = results(gemm(136, 40, 104, in_flight=in_flight), a, b, np.zeros((136, 40), np.float16))
    np.testing.assert_array_equal(expected(a, b), c)


def test_explicit_partitions_get_no_schedule():
    (launch,) = [s for s in walk(lower_func(gemm(128, 64, 64), "sm_90a").body) if isinstance(s, Launch)]
    assert 384 == launch.num_threads
    assert launch.plan.schedule is None


@needs_cuda_compiler
@pytest.mark.parametrize("tile", [(128, 128, 64, 4), (128, 256, 64, 3)])
def test_nothing_spills_and_wgmma_is_not_serialized(tile):
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
def test_faults_of_pipelines_are_found(fault, kind):
    a, b = integers(128, 160), integers(160, 64)
    found = list(failures(gemm(128, 64, 160, fault=fault), a, b, np.zeros((128, 64), np.float16)))
    assert any(isinstance(error, kind) for error in found), found
    if kind is Deadlock:
        assert None not in found


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


def test_branches_of_whole_warps_are_thread_groups():
    a, b = integers(128, 128), integers(128, 64)
    _, _, c = results(by_branches, a, b, np.zeros((128, 64), np.float32))
    np.testing.assert_array_equal(2 * a.astype(np.float32) @ b.astype(np.float32), c)


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
                        if T.shuffle_elect(128):
                            T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
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
def test_a_single_thread_issues_its_own_copies(who):
    a = integers(64, 200)
    _, c = results(by_one_thread(who), a, np.zeros_like(a))
    padded = np.zeros((64, 256), np.float16)
    padded[:, :200] = a
    tiles = padded.reshape(64, 4, 64)
    np.testing.assert_array_equal((tiles + tiles[:, :, ::-1]).reshape(64, 256)[:, :200], c)


def test_one_of_several_threads_issues_a_copy():
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


def test_setmaxnreg_can_be_disabled():
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
