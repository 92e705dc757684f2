"""Kernels with explicit mbarriers: producer-consumer pipelines, and the faults people make in them."""

import numpy as np
import pytest
from gpu import outcomes

import tilelang.language as T
from tilelang.errors import DataRace, Deadlock, ReadBeforeWrite

STEPS, STAGES, WIDTH = 7, 3, 128


def ring(*, fault="", apart=False, noinc=False):
    """One warp copies rows asynchronously into stages of shared memory, another one reduces them."""

    def fill(s, A, full, lane, k):
        T.ptx_cp_async(s[k % STAGES, lane * 4], A[k, lane * 4], 4)
        if noinc:
            T.cp_async_barrier_noinc(full[k % STAGES])
            return
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        if fault != "no arrival":
            T.barrier_arrive(full[k % STAGES])

    @T.prim_func
    def main(A: T.Tensor((STEPS, WIDTH), "int32"), B: T.Tensor((WIDTH,), "int32")):
        with T.Kernel(1, threads=64):
            full = T.alloc_barrier([32] * STAGES)
            empty = T.alloc_barrier([32] * STAGES)
            s = T.alloc_shared((STAGES, WIDTH), "int32")
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            if warp == 0:
                for k in T.serial(STEPS):
                    if fault != "no wait for empty":
                        T.barrier_wait(empty[k % STAGES], k // STAGES % 2 ^ (0 if fault == "empty parity" else 1))
                    fill(s, A, full, lane, k)
            if warp == 1:
                total = T.alloc_local((4,), "int32")
                for i in T.unroll(4):
                    total[i] = 0
                for k in T.serial(STEPS):
                    if fault != "no wait for full":
                        T.barrier_wait(full[k % STAGES], k // STAGES % 2 ^ (1 if fault == "full parity" else 0))
                    for i in T.unroll(4):
                        total[i] = total[i] * 3 + s[k % STAGES, 127 - lane * 4 - i]
                    T.barrier_arrive(empty[k % STAGES])
                for i in T.unroll(4):
                    B[lane * 4 + i] = total[i]

    return main


def arguments():
    a = np.random.randint(-50, 50, (STEPS, WIDTH)).astype(np.int32)
    return a, np.zeros(WIDTH, np.int32)


@pytest.mark.parametrize("noinc", [False, True])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_ring_of_stages_between_a_warp_that_copies_and_one_that_computes(arch, noinc):
    a, b = arguments()
    expected = np.zeros(WIDTH, np.int32)
    for row in a:
        expected = expected * 3 + row[::-1]
    for after in outcomes(ring(noinc=noinc), a, b, arch=arch):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(expected, after[1])


@pytest.mark.parametrize("fault", ["no arrival", "empty parity"])
def test_a_ring_that_stands_still_is_reported_with_barrier_phase_and_line(fault):
    for error in outcomes(ring(fault=fault), *arguments()):
        assert isinstance(error, Deadlock)
        text = str(error)
        assert ("mbarrier 'full[0]'" if fault == "no arrival" else "mbarrier 'empty[0]'") in text
        assert "of parity 0" in text and "in its phase 0 0 of 32 arrivals have come" in text
        assert "T.barrier_wait(" in text


@pytest.mark.parametrize("noinc", [False, True])
@pytest.mark.parametrize("fault", ["full parity", "no wait for full", "no wait for empty"])
def test_a_ring_that_runs_ahead_is_reported(fault, noinc):
    found = list(outcomes(ring(fault=fault, noinc=noinc), *arguments()))
    assert all(isinstance(error, (DataRace, ReadBeforeWrite, Deadlock)) for error in found), fault


def test_tiles_of_warps_that_run_at_the_same_time_lie_apart():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=64):
            done = T.alloc_barrier(32)
            first = T.alloc_shared((32,), "int32")
            second = T.alloc_shared((32,), "int32")
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            if warp == 0:
                first[lane] = A[lane]
                T.sync_warp()
                B[lane] = first[31 - lane]
                T.barrier_arrive(done)
            if warp == 1:
                second[lane] = A[lane] * 2
                T.sync_warp()
                T.barrier_wait(done, 0)
                B[lane] = B[lane] + second[31 - lane]

    a = np.random.randint(-50, 50, 32).astype(np.int32)
    for after in outcomes(main, a, np.zeros_like(a)):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(a[::-1] * 3, after[1])


def released_by_one(*, meets):
    """One warp fills a buffer, two read it, of which the first arrives for both."""

    @T.prim_func
    def main(A: T.Tensor((6, 32), "int32"), B: T.Tensor((2, 32), "int32")):
        with T.Kernel(1, threads=96):
            full, empty = T.alloc_barrier(32), T.alloc_barrier(1)
            s = T.alloc_shared((32,), "int32")
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            if warp == 2:
                for k in T.serial(6):
                    T.barrier_wait(empty, k % 2 ^ 1)
                    s[lane] = A[k, lane]
                    T.barrier_arrive(full)
            else:
                last = T.alloc_local((1,), "int32")
                for k in T.serial(6):
                    T.barrier_wait(full, k % 2)
                    if k == 5:
                        last[0] = s[lane]
                    if meets:
                        T.sync_threads(1, 64)
                    if T.get_thread_binding() == 0:
                        T.barrier_arrive(empty)
                B[warp, lane] = last[0]

    return main


def test_a_warp_must_have_seen_a_phase_before_another_one_arrives_for_it():
    a, b = np.arange(6 * 32, dtype=np.int32).reshape(6, 32), np.zeros((2, 32), np.int32)
    for after in outcomes(released_by_one(meets=True), a, b, arch="sm_90a"):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(np.stack([a[5], a[5]]), after[1])
    for error in outcomes(released_by_one(meets=False), a, b, arch="sm_90a"):
        assert isinstance(error, DataRace)
        text = str(error)
        assert "warp 1 may still wait for phase" in text or "may begin before the phase of parity" in text
        assert "T.barrier_wait(full, k % 2)" in text or "T.barrier_arrive" in text
