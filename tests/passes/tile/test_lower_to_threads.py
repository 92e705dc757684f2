"""The program of a thread, run by all threads in step, does what the program of the block means."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


@pytest.mark.parametrize("threads", [1, 32, 96, 128, 256])
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (16, 64), (64, 1)])
def test_elementwise_loops(shape, threads):
    @T.prim_func
    def f(A: T.Tensor(shape, T.float32), B: T.Tensor(shape, T.float32)):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared(shape, T.float32)
            T.copy(A, s)
            for i, j in T.Parallel(*shape):
                s[i, j] = s[i, j] * 2 + i - j
            T.copy(s, B)

    assert_threads_agree(f, ints(*shape), ints(*shape))


def test_blocks_of_the_sequential_program_store_once():
    @T.prim_func
    def f(A: T.Tensor((8,), T.int32), B: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            s = T.alloc_shared((8,), T.int32)
            x = T.alloc_var(T.int32, init=0)
            for i in T.serial(8):
                s[i] = A[i]
            for i in T.serial(8):
                s[i] += 3
                x += s[i]
                if s[i] > 2:
                    B[i] = x
                else:
                    B[i] = -x

    assert_threads_agree(f, ints(8, dtype=np.int32), ints(8, dtype=np.int32))


@pytest.mark.parametrize("threads", [32, 96, 128])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (16, 64), (3, 300)])
@pytest.mark.parametrize("op", ["sum", "max", "absmax", "min"])
def test_reductions_of_shared_tiles(shape, threads, op):
    def reduce(*args, **options):
        return getattr(T, f"reduce_{op}")(*args, **options)

    @T.prim_func
    def f(A: T.Tensor(shape, T.float16), R: T.Tensor(shape[:1], T.float16), C: T.Tensor(shape[1:], T.float16)):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared(shape, T.float16)
            r = T.alloc_shared(shape[:1], T.float16)
            c = T.alloc_shared(shape[1:], T.float16)
            T.copy(A, s)
            T.copy(R, r)
            reduce(s, r, dim=1, clear=False)
            reduce(s, c, dim=0)
            T.copy(r, R)
            T.copy(c, C)

    assert_threads_agree(f, ints(*shape, dtype=np.float16), ints(shape[0], dtype=np.float16), ints(shape[1], dtype=np.float16))


@pytest.mark.parametrize("threads", [1, 32, 48, 96, 256])
@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_scalars_that_a_loop_updates(n, threads):
    @T.prim_func
    def f(A: T.Tensor((n,), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=threads) as _:
            total = T.alloc_var(T.float32, init=3)
            high = T.alloc_var(T.float32, init=-T.infinity(T.float32))
            last = T.alloc_var(T.float32, init=0)
            for i in T.Parallel(n):
                total += A[i]
                if A[i] < 5:
                    high = T.max(high, A[i])
                last = A[i] * 2
                B[3] = A[i] + 1
            B[0] = total
            B[1] = high
            B[2] = last

    assert_threads_agree(f, ints(n), ints(4))


def test_updates_without_a_pattern_are_atomic():
    @T.prim_func
    def f(A: T.Tensor((200,), T.int32), H: T.Tensor((8,), T.int32), M: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            h = T.alloc_shared((8,), T.int32)
            T.fill(h, 0)
            for i in T.Parallel(200):
                h[A[i]] += i
                M[i // 25] = T.max(M[i // 25], i)
            T.copy(h, H)

    assert_threads_agree(f, ints(200, dtype=np.int32, low=0), ints(8, dtype=np.int32), ints(8, dtype=np.int32))


def test_updates_that_cannot_be_shared_out_run_in_order():
    @T.prim_func
    def f(A: T.Tensor((50,), T.int32), B: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            best = T.alloc_shared((1,), T.int32)
            kept = T.alloc_var(T.int32, init=0)
            best[0] = -100
            for i in T.Parallel(50):
                best[0] = T.if_then_else(A[i] > best[0], A[i], best[0])
                if A[i] > 3:
                    kept = i
            B[0] = best[0]
            B[1] = kept

    assert_threads_agree(f, ints(50, dtype=np.int32), ints(2, dtype=np.int32))


def test_loops_of_unknown_extents():
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def f(A: T.Tensor((m, n), T.float32), B: T.Tensor((m, n), T.float32), C: T.Tensor((m,), T.float32),
          D: T.Tensor((2,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_var(T.float32, init=1)
            last = T.alloc_var(T.float32, init=5)
            for i, j in T.Parallel(m, n):
                B[i, j] = A[i, j] + i - 2 * j
                x += A[i, j]
                last = A[i, j]
            for i, j in T.Parallel(m, n):
                C[i] += A[i, j]
            D[0] = x
            D[1] = last

    for shape in ((3, 50), (1, 1), (70, 2), (0, 4)):
        assert_threads_agree(f, ints(*shape), ints(*shape), ints(shape[0]), ints(2))


def test_previous_values_reach_every_thread():
    @T.prim_func
    def f(C: T.Tensor((2,), T.int32), B: T.Tensor((40,), T.int32)):
        with T.Kernel(4, threads=32) as bx:
            ticket = T.atomic_add(C[0], 1, return_prev=True)
            for i in T.Parallel(10):
                B[ticket * 10 + i] = ticket + i

    assert_threads_agree(f, ints(2, dtype=np.int32) * 0, ints(40, dtype=np.int32))
