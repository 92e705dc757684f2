"""Threads that wait for each other on a real GPU, as on the simulator: barriers that count arrivals, named ones, groups
of warps with roles, the whole grid.

Kernels run often and in many blocks, so that an order that nothing keeps is likely to show.
"""

import numpy as np
import pytest
from kernels.test_grid_barrier import BLOCKS, relay
from kernels.test_level3_barriers import STEPS, WIDTH
from kernels.test_level3_barriers import ring as ring_of_warps
from kernels.test_thread_groups import reversed_by
from kernels.test_thread_groups import ring as ring_of_groups

import tilelang
import tilelang.language as T
from tilelang.errors import DriverError
from tilelang.testing import requires_cuda, requires_cuda_compute_version_ge, to_device, to_host

RUNS = 30
PAIRS = 40  # of blocks that must run at the same time
BUSY, FEW = 264, 3  # blocks on a GPU, several to a multiprocessor, and on the simulator


def integers(*shape, dtype=np.int32):
    return np.random.randint(-50, 50, shape).astype(dtype)


def simulated(func, arguments):
    """The arguments after the kernel ran on the simulator, lazily."""
    copies = [np.array(a) for a in arguments]
    tilelang.compile(func, target="cuda", execution_backend="simulator")(*copies)
    return copies


def on_device(func, arguments):
    """The arguments after each of several runs on the GPU."""
    kernel = tilelang.compile(func, target="cuda")
    results = []
    for _ in range(RUNS):
        there = [to_device(a, target="cuda") for a in arguments]
        kernel(*there)
        results.append(there)
    return [[to_host(t) for t in there] for there in results]


def check(func, *arguments, **expected):
    """The device and the simulator leave what is expected in the arguments at these numbers."""
    for result in [simulated(func, arguments), *on_device(func, arguments)]:
        _compare(result, expected)


def check_blocks(make, *arguments, **expected):
    """The same for a kernel of which any number of blocks can be made, each with a row of the arguments of its own."""
    few = {name: array[:FEW] for name, array in expected.items()}
    _compare(simulated(make(FEW), [array[:FEW] for array in arguments]), few)
    for result in on_device(make(BUSY), arguments):
        _compare(result, expected)


def _compare(result, expected):
    for name, array in expected.items():
        np.testing.assert_array_equal(array, result[int(name[1:])])


def folded(rows, factor):
    total = np.zeros_like(rows[0])
    for row in rows:
        total = total * factor + row[::-1]
    return total


# -- barriers that count arrivals ------------------------------------------------------------------------------
@requires_cuda_compute_version_ge(8)
@pytest.mark.parametrize("noinc", [False, True])
def test_a_warp_copies_ahead_of_one_that_folds(noinc):
    a = integers(STEPS, WIDTH)
    check(ring_of_warps(noinc=noinc), a, np.zeros(WIDTH, np.int32), _1=folded(a, 3))


def numbered_ring(blocks, steps, stages):
    """The lanes of one warp fill stages, those of three others use them."""

    @T.prim_func
    def main(A: T.Tensor((blocks, steps, 96), "int32"), B: T.Tensor((blocks, 96), "int32")):
        with T.Kernel(blocks, threads=128) as bx:
            T.create_list_of_mbarrier([32] * stages, [96] * stages)
            s = T.alloc_shared((stages, 96), "int32")
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            if warp == 3:
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(T.get_mbarrier(stages + k % stages), k // stages % 2 ^ 1)
                    for i in T.unroll(3):
                        s[k % stages, lane + 32 * i] = A[bx, k, lane + 32 * i]
                    T.mbarrier_arrive(T.get_mbarrier(k % stages))
            else:
                total = T.alloc_var("int32", init=0)
                at = warp * 32 + lane
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(T.get_mbarrier(k % stages), k // stages % 2)
                    total = total * 3 + s[k % stages, 95 - at]
                    T.mbarrier_arrive(T.get_mbarrier(stages + k % stages))
                B[bx, at] = total

    return main


@requires_cuda_compute_version_ge(8)
@pytest.mark.parametrize(("steps", "stages"), [(1, 1), (9, 2), (17, 4)])
def test_rings_of_numbered_barriers_in_every_block(steps, stages):
    a = integers(BUSY, steps, 96)
    expected = np.stack([folded(rows, 3) for rows in a])
    check_blocks(lambda blocks: numbered_ring(blocks, steps, stages), a, np.zeros((BUSY, 96), np.int32), _1=expected)


@requires_cuda_compute_version_ge(8)
def test_a_warp_asks_whether_a_phase_is_complete_until_it_is():
    def make(blocks):
        @T.prim_func
        def main(A: T.Tensor((blocks, 32), "int32"), B: T.Tensor((blocks, 32), "int32")):
            with T.Kernel(blocks, threads=64) as bx:
                done = T.alloc_barrier(32)
                s = T.alloc_shared((32,), "int32")
                lane, warp = T.get_lane_idx(), T.get_warp_idx()
                if warp == 0:
                    s[lane] = A[bx, lane] * 2
                    T.barrier_arrive(done)
                else:
                    ready = T.alloc_var("bool", init=False)
                    while not ready:
                        ready = T.barrier_test_wait(done, 0)
                    B[bx, lane] = s[31 - lane]

        return main

    a = integers(BUSY, 32)
    check_blocks(make, a, np.zeros_like(a), _1=a[:, ::-1] * 2)


# -- named barriers --------------------------------------------------------------------------------------------
@requires_cuda
def test_a_warp_fills_two_stages_that_others_empty_by_named_barriers():
    def make(blocks):
        @T.prim_func
        def main(A: T.Tensor((blocks, 11, 32), "int32"), B: T.Tensor((blocks, 3, 32), "int32")):
            with T.Kernel(blocks, threads=128) as bx:
                lane, warp = T.get_lane_idx(), T.get_warp_idx()
                s = T.alloc_shared((2, 32), "int32")
                if warp == 0:
                    for k in T.serial(11):
                        if k >= 2:
                            T.sync_threads(3 + k % 2, 128)
                        s[k % 2, lane] = A[bx, k, lane]
                        T.named_barrier_arrive(1 + k % 2, 128)
                else:
                    total = T.alloc_var("int32", init=0)
                    for k in T.serial(11):
                        T.sync_threads(1 + k % 2, 128)
                        total = total * 3 + s[k % 2, 31 - lane]
                        if k + 2 < 11:
                            T.named_barrier_arrive(3 + k % 2, 128)
                    B[bx, warp - 1, lane] = total

        return main

    a = integers(BUSY, 11, 32)
    expected = np.stack([np.tile(folded(rows, 3), (3, 1)) for rows in a])
    check_blocks(make, a, np.zeros((BUSY, 3, 32), np.int32), _1=expected)


@requires_cuda
def test_pairs_of_warps_meet_without_the_others():
    def make(blocks):
        @T.prim_func
        def main(A: T.Tensor((blocks, 4, 64), "int32"), B: T.Tensor((blocks, 4, 64), "int32")):
            with T.Kernel(blocks, threads=256) as bx:
                s = T.alloc_shared((4, 64), "int32")
                tx = T.get_thread_binding()
                pair, at = tx // 64, tx % 64
                value = T.alloc_var("int32")
                value = A[bx, pair, at]
                for k in T.serial(pair + 1):
                    s[pair, at] = value
                    T.sync_threads(1 + pair, 64)
                    value = value * 2 + s[pair, 63 - at] + k
                    T.sync_threads(1 + pair, 64)
                B[bx, pair, at] = value

        return main

    a = integers(BUSY, 4, 64)
    expected = a.copy()
    for pair in range(4):
        for k in range(pair + 1):
            expected[:, pair] = expected[:, pair] * 2 + expected[:, pair, ::-1] + k
    check_blocks(make, a, np.zeros_like(a), _1=expected)


# -- groups of warps -------------------------------------------------------------------------------------------
@requires_cuda_compute_version_ge(8)
def test_a_group_produces_for_another():
    a = integers(6, 256, dtype=np.float32)
    check(ring_of_groups(), a, np.zeros(256, np.float32), _1=folded(a, 2))


@requires_cuda
@pytest.mark.parametrize("group", [0, 1])
def test_a_group_works_alone(group):
    a = integers(300, dtype=np.float32)
    check(reversed_by(group), a, np.zeros_like(a), _1=a[::-1] + 1)


@requires_cuda
def test_groups_fold_and_pipeline_at_the_same_time_and_join():
    def make(blocks):
        @T.prim_func
        def main(
            A: T.Tensor((blocks, 8, 64), "float32"), B: T.Tensor((blocks, 8), "float32"), C: T.Tensor((blocks, 64), "float32")
        ):
            with T.Kernel(blocks, threads=256) as bx:
                rows = T.alloc_shared((8, 64), "float32")
                sums = T.alloc_shared((8,), "float32")
                folds = T.alloc_shared((64,), "float32")
                with T.ws(0):
                    each = T.alloc_fragment((8,), "float32")
                    T.copy(A[bx, 0, 0], rows)
                    T.reduce_sum(rows, each, dim=1)
                    T.copy(each, sums)
                with T.ws(1):
                    row = T.alloc_shared((64,), "float32")
                    total = T.alloc_fragment((64,), "float32")
                    T.clear(total)
                    for k in T.Pipelined(8, num_stages=2):
                        T.copy(A[bx, k, 0:64], row)
                        for i in T.Parallel(64):
                            total[i] = total[i] * 2 + row[63 - i]
                    T.copy(total, folds)
                for i in T.Parallel(64):
                    C[bx, i] = folds[63 - i] + sums[i % 8]
                T.copy(sums, B[bx, 0])

        return main

    a = integers(BUSY, 8, 64, dtype=np.float32)
    sums, folds = a.sum(2), np.stack([folded(rows, 2) for rows in a])
    check_blocks(
        make, a, np.zeros((BUSY, 8), np.float32), np.zeros((BUSY, 64), np.float32),
        _1=sums, _2=folds[:, ::-1] + np.tile(sums, (1, 8)),
    )  # fmt: skip


# -- orders of memory ------------------------------------------------------------------------------------------
@requires_cuda
def test_a_block_reads_what_another_one_released():
    def make(pairs):
        @T.prim_func
        def main(
            A: T.Tensor((pairs, 64, 32), "int32"),
            D: T.Tensor((pairs, 64, 32), "int32"),
            flag: T.Tensor((pairs,), "int32"),
            B: T.Tensor((pairs, 64, 32), "int32"),
        ):
            with T.Kernel(2 * pairs, threads=32) as bx:
                lane, pair = T.get_lane_idx(), bx // 2
                if bx % 2 == 0:
                    for k in T.serial(64):
                        T.atomic_store(D[pair, k, lane], A[pair, k, lane] * 2, memory_order="relaxed")
                        T.sync_warp()
                        if lane == 0:
                            T.atomic_store(flag[pair], k + 1, memory_order="release")
                else:
                    seen = T.alloc_var("int32", init=0)
                    for k in T.serial(64):
                        while seen <= k:
                            seen = T.atomic_load(flag[pair], memory_order="acquire")
                        B[pair, k, lane] = T.atomic_load(D[pair, k, 31 - lane], memory_order="relaxed")

        return main

    a = integers(PAIRS, 64, 32)
    # the simulator runs blocks one after another, so that one would wait forever for a later one
    for result in on_device(make(PAIRS), [a, np.zeros_like(a), np.zeros(PAIRS, np.int32), np.zeros_like(a)]):
        _compare(result, {"_3": a[:, :, ::-1] * 2})


# -- the grid --------------------------------------------------------------------------------------------------
@requires_cuda
def test_blocks_hand_their_rows_around():
    a = integers(BLOCKS, 64)
    check(relay(rounds=1), a, np.zeros_like(a), _0=np.roll(a, 1, 0) * 2)


def around(blocks, rounds):
    """Every block hands its row on, some times; two meetings keep rounds apart."""

    @T.prim_func
    def main(A: T.Tensor((blocks, 64), "int32"), B: T.Tensor((blocks, 64), "int32")):
        with T.Kernel(blocks, threads=64) as bx:
            s = T.alloc_shared((64,), "int32")
            for k in T.serial(rounds):
                T.copy(A[bx, 0], s)
                for i in T.Parallel(64):
                    B[(bx + 1) % blocks, i] = s[63 - i] * 2 + k
                T.sync_grid()
                T.copy(B[bx, 0], s)
                for i in T.Parallel(64):
                    A[bx, i] = s[i]
                T.sync_grid()

    return main


@requires_cuda
@pytest.mark.parametrize(("blocks", "rounds"), [(1, 3), (7, 9), (64, 4)])
def test_blocks_meet_twice_in_every_round(blocks, rounds):
    a = integers(blocks, 64)
    expected = a
    for k in range(rounds):
        expected = np.roll(expected[:, ::-1], 1, 0) * 2 + k
    check(around(blocks, rounds), a, np.zeros_like(a), _0=expected)


@requires_cuda
def test_a_grid_that_cannot_be_there_at_once_is_refused():
    kernel = tilelang.compile(around(1 << 17, 1), target="cuda")
    there = [to_device(np.zeros((1 << 17, 64), np.int32), target="cuda") for _ in range(2)]
    with pytest.raises(DriverError, match="T.sync_grid needs all blocks at once: launch a smaller grid"):
        kernel(*there)

