"""`T.thread_return`: what comes after it is done by those that did not get there, on every target."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError, StagingError

BLOCKS = [
    {"execution_backend": "reference"},
    {"target": "cpu"},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}},
]
THREADS = [
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": arch}} for arch in ("sm_80", "sm_90a")
]


@T.prim_func
def guarded(A: T.Tensor((100,), "int32"), B: T.Tensor((100,), "int32"), n: T.int32):
    with T.Kernel(4, threads=32) as bx:
        if bx * 32 >= n:
            T.thread_return()
        s = T.alloc_shared((32,), "int32")
        T.copy(A[bx * 32], s)
        for i in T.Parallel(32):
            B[bx * 32 + i] = s[31 - i]
    with T.Kernel(1, threads=32):  # goes on: only a block of the kernel before has returned
        B[99] = n


@pytest.mark.parametrize("options", BLOCKS)
def test_a_block_does_nothing_after_it(options):
    kernel = tilelang.compile(guarded, **options)
    a = np.arange(100, dtype=np.int32)
    for n in (0, 40, 100):
        b = np.full(100, -1, np.int32)
        kernel(a, b, n)
        reversed_rows = np.pad(a, (0, 28)).reshape(4, 32)[:, ::-1].reshape(-1)[:100]
        expected = np.where(np.arange(100) // 32 * 32 < n, reversed_rows, -1)
        expected[99] = n
        np.testing.assert_array_equal(expected, b)


@T.prim_func
def nested(B: T.Tensor((4, 8), "int32"), n: T.int32):
    with T.Kernel(4, threads=32) as bx:
        if bx > 0:
            B[bx, 0] = 1
            if n > 50:
                B[bx, 0] = 2
                T.thread_return()
            else:
                B[bx, 1] = 3
            B[bx, 1] += 1
        for q in T.serial(n):
            for r in T.serial(q):
                if q * r > 20 + bx:
                    B[bx, 2] = q * 10 + r
                    T.thread_return()
                    B[bx, 7] = 1  # not reached
                B[bx, 3] = r
            B[bx, 4] = q
        count = T.int32(0)
        while True:
            count += 1
            if count == n:
                if bx == 2:
                    T.thread_return()
                break
            if count > 5:
                break
        if n < 2:
            B[bx, 6] = 8
            T.thread_return()
        else:
            if bx == 1:
                T.thread_return()
            B[bx, 6] = 9
        B[bx, 5] = count


def nested_in_python(bx, n, row):
    if bx > 0:
        row[0] = 1
        if n > 50:
            row[0] = 2
            return
        row[1] = 3
        row[1] += 1
    for q in range(n):
        for r in range(q):
            if q * r > 20 + bx:
                row[2] = q * 10 + r
                return
            row[3] = r
        row[4] = q
    count = 0
    while True:
        count += 1
        if count == n:
            if bx == 2:
                return
            break
        if count > 5:
            break
    if n < 2:
        row[6] = 8
        return
    if bx == 1:
        return
    row[6] = 9
    row[5] = count


@pytest.mark.parametrize("options", BLOCKS)
def test_it_means_what_return_means_in_python(options):
    kernel = tilelang.compile(nested, **options)
    for n in (0, 1, 3, 5, 6, 60):
        expected, actual = (np.zeros((4, 8), np.int32) for _ in range(2))
        for bx in range(4):
            nested_in_python(bx, n, expected[bx])
        kernel(actual, n)
        np.testing.assert_array_equal(expected, actual)


@T.prim_func
def of_threads(A: T.Tensor((100, 4), "int32"), B: T.Tensor((100, 4), "int32"), C: T.Tensor((128,), "int32"), n: T.int32):
    with T.Kernel(4, threads=32) as bx:
        tx = T.get_thread_binding()
        row = bx * 32 + tx
        if row >= n:
            T.thread_return()
        s = T.alloc_local((4,), "int32")
        scale = T.alloc_local((4,), "int32")
        T.fill(scale, 2)
        T.copy(A[row, :], s)
        for j in T.serial(4):
            s[j] = s[j] * scale[j] + tx
        T.copy(s, B[row, :])
        if A[row, 0] % 3 == 0:
            C[row] = 5
            T.thread_return()
        C[row] = 7


@pytest.mark.parametrize("options", THREADS)
def test_each_thread_goes_on_by_itself(options):
    kernel = tilelang.compile(of_threads, **options)
    a = np.arange(400, dtype=np.int32).reshape(100, 4)
    for n in (0, 45, 100):
        b, c = np.full((100, 4), -1, np.int32), np.full(128, -1, np.int32)
        kernel(a, b, c, n)
        rows = np.arange(100)
        np.testing.assert_array_equal(np.where(rows[:, None] < n, a * 2 + rows[:, None] % 32, -1), b)
        np.testing.assert_array_equal(np.where(rows < n, np.where(a[:, 0] % 3, 7, 5), -1), c[:100])


@T.prim_func
def of_warps(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), D: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=96):
        tx = T.get_thread_binding()
        if tx < 32:
            B[tx] = -A[tx]
            T.thread_return()
        s = T.alloc_shared((64,), "int32")
        T.copy(A, s)
        for i in T.Parallel(64):
            D[i] = s[63 - i]


@pytest.mark.parametrize("options", THREADS)
def test_whole_warps_that_stay_do_tiles_together(options):
    a = np.arange(64, dtype=np.int32)
    b, d = np.zeros(64, np.int32), np.zeros(64, np.int32)
    tilelang.compile(of_warps, **options)(a, b, d)
    np.testing.assert_array_equal(np.where(a < 32, -a, 0), b)
    np.testing.assert_array_equal(a[::-1], d)


@T.macro
def leaves(A, only_first: bool):
    A[0] = 1
    if only_first:
        T.thread_return()


def test_what_follows_an_unconditional_one_is_not_compiled():
    @T.prim_func
    def f(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            leaves(A, True)
            A[1] = 2

    kernel = tilelang.compile(f, target="cpu")
    a = np.zeros(8, np.int32)
    kernel(a)
    assert [1, 0, 0, 0, 0, 0, 0, 0] == a.tolist()
    assert "A[1]" not in kernel.get_kernel_source()


def test_tiles_need_threads_of_which_none_has_returned():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            if T.get_thread_binding() >= n:
                T.thread_return()
            s = T.alloc_shared((64,), "int32")
            T.copy(A, s)
            A[0] = s[1]

    message = "T.copy: needs all threads of the block or of a group, but only some of them execute it"
    with pytest.raises(NoLowering, match=message):
        tilelang.compile(f, target={"kind": "cuda", "arch": "sm_90a"})


def test_it_stands_in_a_kernel_outside_of_parallel_loops():
    with pytest.raises(ProgramError, match="T.thread_return: stands outside of a kernel"):

        @T.prim_func
        def outside(A: T.Tensor((8,), "int32")):
            T.thread_return()
            with T.Kernel(1):
                A[0] = 1

    with pytest.raises(StagingError, match="T.thread_return cannot leave a T.Parallel loop: its iterations"):

        @T.prim_func
        def in_parallel(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    for _ in T.serial(2):
                        if A[i] > 0:
                            T.thread_return()
