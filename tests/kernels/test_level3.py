"""Kernels of threads, whole: what CUDA means by them, on the simulator, and mixed with what the language means by tiles."""

import numpy as np
import pytest
from gpu import lower_func, simulate_func

import tilelang.language as T
from tilelang.errors import BarrierDivergence, DataRace, ReadBeforeWrite
from tilelang.sim.run import simulate
from tilelang.target import Target

SCHEDULES = [(lazy, seed) for lazy in (True, False) for seed in (0, 1, 2)]


def run(func, *arguments, arch="sm_80"):
    """The arguments after the kernel, the same for every order in which warps may run."""
    lowered, first = lower_func(func, arch), None
    for lazy, seed in SCHEDULES:
        after = simulate_func(lowered, arguments, arch, lazy, seed)
        first = first or after
        for want, got in zip(first, after, strict=True):
            np.testing.assert_array_equal(want, got)
    return first


def fails(kind, func, *arguments, arch="sm_80"):
    """Every order of warps shows the fault."""
    lowered = lower_func(func, arch)
    for lazy, seed in SCHEDULES:
        with pytest.raises(kind):
            simulate(lowered, [np.array(a) for a in arguments], target=Target("cuda", arch), lazy=lazy, seed=seed)


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

    (a,) = run(main, np.zeros((2, z, y, x), np.int32))
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
    b = run(main, a, np.zeros((2, 96), np.int32))[1]
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
    np.testing.assert_array_equal(a.sum(1), run(main, a, np.zeros(3, np.int32))[1])


@pytest.mark.parametrize("threads", [32, 96, 128])
def test_a_sum_by_shuffles_and_across_warps(threads):
    @T.prim_func
    def main(A: T.Tensor((threads,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=threads):
            tx, lane, warp = T.get_thread_binding(), T.get_lane_idx(), T.get_warp_idx()
            parts = T.alloc_shared((32,), "float32")
            value = T.alloc_var("float32", init=A[tx])
            for i in T.unroll(5):
                value += T.shfl_down(value, 16 >> i)
            if lane == 0:
                parts[warp] = value
            T.sync_threads()
            if warp == 0:
                rest = T.alloc_var("float32", init=0)
                if lane < threads // 32:
                    rest = parts[lane]
                rest = T.warp_reduce_sum(rest)
                if lane == 0:
                    B[0] = rest

    a = np.random.randint(-9, 9, threads).astype(np.float32)
    assert a.sum() == run(main, a, np.zeros(1, np.float32))[1][0]


def test_every_shuffle_takes_the_lane_that_cuda_says():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((6, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = A[tx]
            B[0, tx] = T.shfl_xor(x, 5)
            B[1, tx] = T.shfl_up(x, 3)
            B[2, tx] = T.shfl_down(x, 3)
            B[3, tx] = T.shfl_sync(x, 7)
            B[4, tx] = T.shfl_sync(x, tx * 3, width=8)
            B[5, tx] = T.shfl_down(x, 2, width=4)

    a = integers(64)
    b = run(main, a, np.zeros((6, 64), np.int32))[1]
    t = np.arange(64)
    lane, warp = t % 32, t // 32 * 32
    expected = [
        a[warp + (lane ^ 5)],
        a[np.where(lane >= 3, t - 3, t)],
        a[np.where(lane + 3 < 32, t + 3, t)],
        a[warp + 7],
        a[t // 8 * 8 + t * 3 % 8],
        a[np.where(t % 4 + 2 < 4, t + 2, t)],
    ]
    np.testing.assert_array_equal(expected, b)


def test_votes_and_matches():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((5, 64), "uint32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = A[tx]
            B[0, tx] = T.cast(T.any_sync(x > 2), "uint32")
            B[1, tx] = T.cast(T.all_sync(x >= 0), "uint32")
            B[2, tx] = T.ballot_sync(x > 1)
            B[3, tx] = T.match_any_sync(x)
            B[4, tx] = T.match_all_sync(x)

    a = np.concatenate([np.arange(32) % 4, np.full(32, 2)]).astype(np.int32)
    b = run(main, a, np.zeros((5, 64), np.uint32))[1]

    def mask(values):
        return sum(1 << i for i, v in enumerate(values) if v)

    for w in range(2):
        x = a[w * 32 : w * 32 + 32]
        rows = [
            [(x > 2).any()] * 32,
            [(x >= 0).all()] * 32,
            [mask(x > 1)] * 32,
            [mask(x == v) for v in x],
            [0xFFFFFFFF if len(set(x)) == 1 else 0] * 32,
        ]
        np.testing.assert_array_equal(np.array(rows, np.uint32), b[:, w * 32 : w * 32 + 32])


@pytest.mark.parametrize("name", ["sum", "max", "min", "bitand", "bitor"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "int64"])
def test_folds_over_a_warp(name, dtype):
    if name.startswith("bit") and dtype.startswith("float"):
        pytest.skip("bits of floats are not folded")
    fold = getattr(T, f"warp_reduce_{name}")

    @T.prim_func
    def main(A: T.Tensor((96,), dtype), B: T.Tensor((96,), dtype)):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            B[tx] = fold(A[tx])

    a = np.random.randint(0, 30, 96).astype(dtype)
    function = {
        "sum": np.sum,
        "max": np.max,
        "min": np.min,
        "bitand": np.bitwise_and.reduce,
        "bitor": np.bitwise_or.reduce,
    }
    expected = [function[name](a[w : w + 32]) for w in (0, 32, 64)]
    np.testing.assert_array_equal(np.repeat(np.array(expected, dtype), 32), run(main, a, np.zeros_like(a))[1])


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
            T.ptx_cp_async(s[0, tx * 4], A[0, tx * 4], 16)
            T.ptx_commit_group()
            for k in T.serial(6):
                T.ptx_cp_async(s[(k + 1) % 2, tx * 4], A[T.min(k + 1, 5), tx * 4], 16, k + 1 < 6)
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
    np.testing.assert_array_equal(expected, run(main, a, np.zeros(128, np.int32))[1])


def test_a_copy_in_the_background_that_its_predicate_forbids_gives_zeros():
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float16")
            T.ptx_cp_async(s[tx * 2], A[tx * 2], 4, tx % 3 == 0)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    a = np.random.randint(1, 9, 64).astype(np.float16)
    b = run(main, a, np.zeros_like(a))[1]
    np.testing.assert_array_equal(np.where(np.arange(64) // 2 % 3 == 0, a, 0), b)


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
            T.ptx_ldmatrix(a[0], a_s[lane % 16, lane // 16 * 8], 4)
            if trans:
                T.ptx_ldmatrix(b[0], b_s[lane % 16, 0], 2, True)
            else:
                T.ptx_ldmatrix(b[0], b_s[lane % 8, lane // 8 % 2 * 8], 2)
            T.ptx_mma("m16n8k16", c[0], a[0], b[0])
            for i in T.unroll(4):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = c[i]

    a = np.random.randint(-4, 4, (16, 16)).astype(np.float16)
    b = np.random.randint(-4, 4, (16, 8)).astype(np.float16)
    c = run(main, a, b if trans else np.ascontiguousarray(b.T), np.zeros((16, 8), np.float32))[2]
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
            T.ptx_ldmatrix(r[0], s[lane % 16, lane // 16 * 8], 4, True)
            T.ptx_stmatrix(t[lane % 16, lane // 16 * 8], r[0], 4)
            T.copy(t, B)

    a = np.random.randint(-9, 9, (16, 16)).astype(np.float16)
    b = run(main, a, np.zeros_like(a), arch="sm_90a")[1]
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
                    T.barrier_arrive_named(1 + k % 2, 64)
            else:
                total = T.alloc_var("int32", init=0)
                for k in T.serial(5):
                    T.sync_threads(1 + k % 2, 64)
                    total = total * 3 + s[k % 2, 31 - lane]
                    if k + 2 < 5:
                        T.barrier_arrive_named(3 + k % 2, 64)
                B[lane] = total

    a = integers(5, 32)
    expected = np.zeros(32, np.int32)
    for row in a:
        expected = expected * 3 + row[::-1]
    np.testing.assert_array_equal(expected, run(main, a, np.zeros(32, np.int32))[1])


def test_a_barrier_that_half_of_a_block_reaches_is_reported():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 48:
                T.sync_threads()
            A[tx] = tx

    fails(BarrierDivergence, main, np.zeros(64, np.int32))


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
    np.testing.assert_array_equal(expected, run(main, a, np.zeros_like(a))[1])


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

    c, b = run(main, np.zeros(4, np.int32), np.zeros((3, 64), np.int32))
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
    assert a.sum() == run(main, a, *(np.zeros(n, np.int32) for n in (4, 1, 1)))[3][0]


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
    _, b, d = run(main, a, np.zeros_like(a), c)
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
    _, _, c, r = run(main, a, b, np.zeros((64, 64), np.float32), np.zeros(64, np.float32))
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
    np.testing.assert_array_equal(expected, run(main, a, np.zeros_like(a))[1])


def test_some_lanes_of_a_warp_meet():
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "int32")
            if tx < 16:
                s[tx] = A[tx]
                T.sync_warp(0xFFFF)
                B[tx] = s[15 - tx] + T.shfl_xor(A[tx], 1, mask=0xFFFF)
            else:
                B[tx] = T.cast(T.activemask() >> 16, "int32")

    a = integers(32)
    t = np.arange(16)
    expected = np.concatenate([a[15 - t] + a[t ^ 1], np.full(16, 0xFFFF)])
    np.testing.assert_array_equal(expected, run(main, a, np.zeros_like(a))[1])
