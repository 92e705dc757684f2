"""Whole kernels in SIMT style on the simulator, alone and mixed with tile operators."""

import numpy as np
import pytest
from gpu import in_every_schedule, outcomes, simulate_func

import tilelang.language as T
from tilelang.errors import BarrierDivergence, DataRace, ReadBeforeWrite


def integers(*shape, low=-50, high=50):
    return np.random.randint(low, high, shape).astype(np.int32)


@pytest.mark.parametrize("threads", [(40,), (32, 4), (8, 3, 5)])
def test_every_thread_writes_at_its_own_index(threads):
    x, y, z = (*threads, 1, 1)[:3]

    @T.prim_func
    def main(A: T.Tensor((2, z, y, x), "int32")):
        with T.Kernel(2, threads=threads) as bx:
            tx, ty, tz = T.get_thread_bindings()
            A[bx, tz, ty, tx] = tx + 100 * ty + 10000 * tz + 1000000 * T.get_block_binding()

    (a,) = in_every_schedule(main, np.zeros((2, z, y, x), np.int32))
    b, k, j, i = np.indices(a.shape)
    np.testing.assert_array_equal(i + 100 * j + 10000 * k + 1000000 * b, a)


def test_threads_see_each_others_writes_to_shared_memory():
    """With a barrier of the user, and without one: the compiler orders what threads do in a block, too."""

    @T.prim_func
    def main(A: T.Tensor((96,), "int32"), B: T.Tensor((2, 96), "int32")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            s = T.alloc_shared((96,), "int32")
            s[tx] = A[tx]
            T.sync_threads()
            B[0, tx] = s[95 - tx]
            T.sync_threads()
            s[tx] = A[tx] + 1
            B[1, tx] = s[95 - tx]

    a = integers(96)
    b = in_every_schedule(main, a, np.zeros((2, 96), np.int32))[1]
    np.testing.assert_array_equal([a[::-1], a[::-1] + 1], b)


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_a_tree_of_sums_in_shared_memory(threads):
    @T.prim_func
    def main(A: T.Tensor((3, threads), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(3, threads=threads) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((threads,), "int32")
            step = T.alloc_var("int32", init=threads // 2)
            s[tx] = A[bx, tx]
            T.sync_threads()
            while step > 0:
                if tx < step:
                    s[tx] += s[tx + step]
                T.sync_threads()
                step = step // 2
            if tx == 0:
                B[bx] = s[0]

    a = integers(3, threads)
    np.testing.assert_array_equal(a.sum(1), in_every_schedule(main, a, np.zeros(3, np.int32))[1])


@pytest.mark.parametrize("awaited", [True, False])
def test_copies_in_the_background_in_two_stages(awaited):
    @T.prim_func
    def main(A: T.Tensor((6, 128), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 128), "int32")
            total = T.alloc_local((4,), "int32")
            for i in T.unroll(4):
                total[i] = 0
            T.ptx_cp_async(s[0, tx * 4], A[0, tx * 4], 4)
            T.ptx_commit_group()
            for k in T.serial(6):
                T.ptx_cp_async(s[(k + 1) % 2, tx * 4], A[T.min(k + 1, 5), tx * 4], 4, k + 1 < 6)
                T.ptx_commit_group()
                T.ptx_wait_group(1 if awaited else 2)
                T.sync_threads()
                for i in T.unroll(4):
                    total[i] = total[i] * 3 + s[k % 2, 127 - tx * 4 - i]
                T.sync_threads()
            for i in T.unroll(4):
                B[tx * 4 + i] = total[i]

    a = integers(6, 128)
    if not awaited:
        with pytest.raises((DataRace, ReadBeforeWrite)):
            simulate_func(main, [a, np.zeros(128, np.int32)])
        return
    expected = np.zeros(128, np.int32)
    for row in a:
        expected = expected * 3 + row[::-1]
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, np.zeros(128, np.int32))[1])


def test_a_copy_in_the_background_that_its_predicate_forbids_gives_zeros():
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float16")
            T.ptx_cp_async(s[tx * 2], A[tx * 2], 2, tx % 3 == 0)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    a = np.random.randint(1, 9, 64).astype(np.float16)
    b = in_every_schedule(main, a, np.zeros_like(a))[1]
    np.testing.assert_array_equal(np.where(np.arange(64) // 2 % 3 == 0, a, 0), b)


@pytest.mark.parametrize("dtype", ["float16", "int32", "int8"])
def test_copies_in_the_background_count_elements(dtype):
    """Through pointers with offsets, too; a pointer into a tile leads where the layout of the tile puts the element."""
    count = 16 // np.dtype(dtype).itemsize

    @T.prim_func
    def main(A: T.Tensor((4, 8 * count), dtype), B: T.Tensor((4, 8 * count), dtype)):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4, 8 * count), dtype)
            T.annotate_layout({s: T.make_swizzled_layout(s)})
            T.ptx_cp_async(
                T.access_ptr(s[tx // 8, 0], "w", count, offset=tx % 8 * count),
                T.access_ptr(A[0, 0], 1, count, offset=tx * count),
                count,
            )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    a = integers(4, 8 * count).astype(dtype)
    np.testing.assert_array_equal(a, in_every_schedule(main, a, np.zeros_like(a))[1])


@pytest.mark.parametrize("trans", [False, True])
def test_a_product_by_matrix_instructions(trans):
    @T.prim_func
    def main(
        A: T.Tensor((16, 16), "float16"),
        B: T.Tensor((16, 8) if trans else (8, 16), "float16"),
        C: T.Tensor((16, 8), "float32"),
    ):
        with T.Kernel(1, threads=32):
            lane = T.get_lane_idx()
            a_s = T.alloc_shared((16, 16), "float16")
            b_s = T.alloc_shared((16, 8) if trans else (8, 16), "float16")
            a = T.alloc_local((8,), "float16")
            b = T.alloc_local((4,), "float16")
            c = T.alloc_local((4,), "float32")
            T.copy(A, a_s)
            T.copy(B, b_s)
            for i in T.unroll(4):
                c[i] = 1.0
            T.ptx_ldmatrix(False, 4, a_s[lane % 16, lane // 16 * 8], a[0])
            if trans:
                T.ptx_ldmatrix(True, 2, b_s[lane % 16, 0], b[0])
            else:
                T.ptx_ldmatrix(False, 2, b_s[lane % 8, lane // 8 % 2 * 8], b[0])
            T.ptx_mma(
                "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a, 0, b, 0, c, 0, saturate=False
            )
            for i in T.unroll(4):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = c[i]

    a = np.random.randint(-4, 4, (16, 16)).astype(np.float16)
    b = np.random.randint(-4, 4, (16, 8)).astype(np.float16)
    c = in_every_schedule(main, a, b if trans else np.ascontiguousarray(b.T), np.zeros((16, 8), np.float32))[2]
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32) + 1, c)


def test_results_of_matrix_instructions_are_stored_as_matrices():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16")):
        with T.Kernel(1, threads=32):
            lane = T.get_lane_idx()
            s = T.alloc_shared((16, 16), "float16")
            t = T.alloc_shared((16, 16), "float16")
            r = T.alloc_local((8,), "float16")
            T.copy(A, s)
            T.ptx_ldmatrix(True, 4, s[lane % 16, lane // 16 * 8], r[0])
            T.ptx_stmatrix(False, 4, r[0], t[lane % 16, lane // 16 * 8])
            T.copy(t, B)

    a = np.random.randint(-9, 9, (16, 16)).astype(np.float16)
    b = in_every_schedule(main, a, np.zeros_like(a), arch="sm_90a")[1]
    blocks = a.reshape(2, 8, 2, 8)
    np.testing.assert_array_equal(blocks.transpose(0, 3, 2, 1).reshape(16, 16), b)


def test_a_warp_that_produces_and_warps_that_consume():
    @T.prim_func
    def main(A: T.Tensor((5, 32), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=64):
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            s = T.alloc_shared((2, 32), "int32")
            if warp == 0:
                for k in T.serial(5):
                    if k >= 2:
                        T.sync_threads(3 + k % 2, 64)
                    s[k % 2, lane] = A[k, lane]
                    T.named_barrier_arrive(1 + k % 2, 64)
            else:
                total = T.alloc_var("int32", init=0)
                for k in T.serial(5):
                    T.sync_threads(1 + k % 2, 64)
                    total = total * 3 + s[k % 2, 31 - lane]
                    if k + 2 < 5:
                        T.named_barrier_arrive(3 + k % 2, 64)
                B[lane] = total

    a = integers(5, 32)
    expected = np.zeros(32, np.int32)
    for row in a:
        expected = expected * 3 + row[::-1]
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, np.zeros(32, np.int32))[1])


def test_a_barrier_that_half_of_a_block_reaches_is_reported():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 48:
                T.sync_threads()
            A[tx] = tx

    for error in outcomes(main, np.zeros(64, np.int32)):
        assert isinstance(error, BarrierDivergence)


def test_threads_have_variables_and_registers_of_their_own():
    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=40):
            tx = T.get_thread_binding()
            n = T.alloc_var("int32", init=tx % 7)
            r = T.alloc_local((8,), "int32")
            for i in T.unroll(8):
                r[i] = A[tx] * i
            total = T.int32(0)
            while n > 0:
                n -= 1
                if n == 3:
                    continue
                total += r[n]
                if total > 100:
                    break
            B[tx] = total

    a = integers(40)
    expected = []
    for t in range(40):
        n, total = t % 7, 0
        while n > 0:
            n -= 1
            if n == 3:
                continue
            total += int(a[t]) * n
            if total > 100:
                break
        expected.append(total)
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, np.zeros_like(a))[1])


def test_atomics_of_threads_and_of_the_block():
    @T.prim_func
    def main(C: T.Tensor((4,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(3, threads=64) as bx:
            tx = T.get_thread_binding()
            counter = T.alloc_shared((1,), "int32")
            counter[0] = 0
            T.sync_threads()
            T.atomic_add(C[0], 1)  # once per block: it does not depend on the thread
            if tx < 5:
                T.atomic_add(C[1], 1)
            T.atomic_max(C[2], tx)
            T.atomic_add(C[3], tx % 2)
            ticket = T.atomic_add(counter[tx // 64], 1, return_prev=True)
            B[bx, ticket] = 1

    c, b = in_every_schedule(main, np.zeros(4, np.int32), np.zeros((3, 64), np.int32))
    assert [3, 15, 63, 96] == c.tolist()
    assert (b == 1).all()


def test_the_last_block_adds_up_what_the_others_left():
    @T.prim_func
    def main(
        A: T.Tensor((4, 32), "int32"),
        P: T.Tensor((4,), "int32"),
        count: T.Tensor((1,), "int32"),
        B: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            last = T.alloc_shared((1,), "int32")
            total = T.warp_reduce_sum(A[bx, tx])
            if tx == 0:
                T.atomic_store(P[bx], total)
                T.thread_fence()
                before = T.atomic_add(count[0], 1, return_prev=True)
                last[0] = before
            T.sync_threads()
            if last[0] == 3 and tx == 0:
                T.thread_fence()
                all = T.alloc_var("int32", init=0)
                for i in T.serial(4):
                    all += T.atomic_load(P[i])
                B[0] = all

    a = integers(4, 32)
    assert a.sum() == in_every_schedule(main, a, *(np.zeros(n, np.int32) for n in (4, 1, 1)))[3][0]


def test_wide_loads_and_stores():
    @T.prim_func
    def main(A: T.Tensor((256,), "float16"), B: T.Tensor((256,), "float16"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.stg128(B[(31 - tx) * 8], T.ldg128(A[tx * 8]))
            x = T.ldg(C[tx * 2], "float32x2")
            T.stg(C[tx * 2], x)

    a = np.random.randint(-9, 9, 256).astype(np.float16)
    c = np.arange(64, dtype=np.float32)
    _, b, d = in_every_schedule(main, a, np.zeros_like(a), c)
    np.testing.assert_array_equal(a.reshape(32, 8)[::-1].ravel(), b)
    np.testing.assert_array_equal(c, d)


def test_threads_between_tile_operators():
    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        R: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            s = T.alloc_shared((64, 64), "float32")
            rows = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            if tx < 32:
                a[0, tx] = a[0, tx] + a[1, tx]  # of one thread each, between two tile operators
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, s)
            if tx < 64:
                s[tx, tx] = -1.0
            T.copy(s, c)
            T.reduce_max(c, rows, dim=1)
            T.copy(rows, R)
            T.copy(s, C)

    a = np.random.randint(-3, 3, (64, 32)).astype(np.float16)
    b = np.random.randint(-3, 3, (32, 64)).astype(np.float16)
    _, _, c, r = in_every_schedule(main, a, b, np.zeros((64, 64), np.float32), np.zeros(64, np.float32))
    left = a.astype(np.float32)
    left[0] += left[1]
    expected = left @ b.astype(np.float32)
    np.fill_diagonal(expected, -1)
    np.testing.assert_array_equal(expected, c)
    np.testing.assert_array_equal(expected.max(1), r)


def test_tile_operators_with_places_that_depend_on_the_block_and_loops_around_threads():
    @T.prim_func
    def main(A: T.Tensor((3, 40), "int32"), B: T.Tensor((3, 40), "int32")):
        with T.Kernel(3, threads=40) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((40,), "int32")
            total = T.alloc_var("int32", init=0)
            for k in T.serial(3):
                T.copy(A[(bx + k) % 3, 0], s)
                total += s[(tx + k) % 40]
                for i in T.Parallel(40):
                    s[i] = s[i] * 2
                total += s[39 - tx]
            B[bx, tx] = total

    a = integers(3, 40)
    t = np.arange(40)
    expected = [sum(a[(b + k) % 3][(t + k) % 40] + 2 * a[(b + k) % 3][39 - t] for k in range(3)) for b in range(3)]
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, np.zeros_like(a))[1])
