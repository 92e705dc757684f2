"""Kernels whose groups of warps run different programs concurrently, each on its own tiles."""

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from gpu import lower_func, outcomes

import tilelang.language as T
from tilelang.errors import DataRace, NoLowering, ReadBeforeWrite
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.codegen.cuda import emit


def called(func):
    return [stmt.routine.name for stmt in walk(lower_func(func).body) if isinstance(stmt, CallStmt)]


def reversed_by(group):
    @T.prim_func
    def main(A: T.Tensor((300,), "float32"), B: T.Tensor((300,), "float32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((300,), "float32")
            with T.ws(group):
                T.copy(A, s)
                for i in T.Parallel(300):
                    B[i] = s[299 - i] + 1

    return main


@pytest.mark.parametrize("group", [0, 1])
def test_a_group_does_tiles_alone_and_waits_for_nobody_else(group):
    a = np.random.randint(-9, 9, 300).astype(np.float32)
    for after in outcomes(reversed_by(group), a, np.zeros_like(a)):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(a[::-1] + 1, after[1])
    assert "sync_threads" not in called(reversed_by(group))
    assert "tl_bar_sync(15, 128)" in emit(lower_func(reversed_by(group))).text


def test_what_a_group_made_is_there_for_all_after_the_branch():
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((256,), "int32")
            total = T.alloc_shared((1,), "int32")
            with T.ws(1):
                T.copy(A, s)
            with T.ws(0):
                T.fill(total, 5)
                for i in T.Parallel(256):
                    total[0] += A[i]
            for i in T.Parallel(256):
                B[i] = s[255 - i]
            C[0] = total[0]

    a = np.random.randint(-50, 50, 256).astype(np.int32)
    for after in outcomes(main, a, np.zeros_like(a), np.zeros(1, np.int32)):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(a[::-1], after[1])
        assert a.sum() + 5 == after[2][0]


def ring(ordered=True):
    @T.prim_func
    def main(A: T.Tensor((6, 256), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            s = T.alloc_shared((2, 256), "float32")
            with T.ws(0):
                for k in T.serial(6):
                    T.barrier_wait(empty[k % 2], k // 2 % 2 ^ 1)
                    T.copy(A[k, 0:256], s[k % 2, 0:256])
                    if ordered:
                        T.barrier_arrive(full[k % 2])
            with T.ws(1):
                acc = T.alloc_fragment((256,), "float32")
                T.clear(acc)
                for k in T.serial(6):
                    if ordered:
                        T.barrier_wait(full[k % 2], k // 2 % 2)
                    for i in T.Parallel(256):
                        acc[i] = acc[i] * 2 + s[k % 2, 255 - i]
                    T.barrier_arrive(empty[k % 2])
                T.copy(acc, B)

    return main


def test_a_ring_between_two_groups():
    a = np.random.randint(-9, 9, (6, 256)).astype(np.float32)
    expected = np.zeros(256, np.float32)
    for row in a:
        expected = expected * 2 + row[::-1]
    for after in outcomes(ring(), a, np.zeros(256, np.float32)):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(expected, after[1])


def test_a_ring_without_arrivals_is_reported():
    a = np.zeros((6, 256), np.float32)
    found = list(outcomes(ring(ordered=False), a, np.zeros(256, np.float32)))
    assert all(isinstance(error, (DataRace, ReadBeforeWrite)) for error in found)


def test_folds_pipelines_and_small_groups():
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=160):
            rows = T.alloc_shared((8, 64), "float32")
            sums = T.alloc_fragment((8,), "float32")
            with T.ws(0):
                T.copy(A, rows)
                T.reduce_sum(rows, sums, dim=1)
                T.copy(sums, B)
            with T.ws(1):
                row = T.alloc_shared((64,), "float32")
                total = T.alloc_fragment((64,), "float32")
                T.clear(total)
                for k in T.Pipelined(8, num_stages=2):
                    T.copy(A[k, 0:64], row)
                    for i in T.Parallel(64):
                        total[i] = total[i] * 2 + row[63 - i]
                T.copy(total, C)

    a = np.random.randint(-9, 9, (8, 64)).astype(np.float32)
    expected = np.zeros(64, np.float32)
    for row in a:
        expected = expected * 2 + row[::-1]
    for after in outcomes(main, a, np.zeros(8, np.float32), np.zeros(64, np.float32)):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(a.sum(1), after[1])
        np.testing.assert_array_equal(expected, after[2])


@T.prim_func
def halves(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        T.copy(A, a)
        T.copy(B, b)
        with T.ws(0):
            upper = T.alloc_fragment((32, 64), "float32")
            T.gemm(a[0:32, 0:64], b, upper, clear_accum=True)
            T.copy(upper, C[0:32, 0:64])
        with T.ws(1):
            lower = T.alloc_fragment((32, 64), "float32")
            T.gemm(a[32:64, 0:64], b, lower, clear_accum=True)
            T.copy(lower, C[32:64, 0:64])


def warp_specialized(tiles, stages=3, by_hardware=True):
    """A product whose operands one group brings while the other multiplies."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 32 * tiles), "float16"),
        B: T.Tensor((32 * tiles, 64), "float16"),
        C: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((stages, 64, 32), "float16")
            b = T.alloc_shared((stages, 32, 64), "float16")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            with T.ws(1):
                for k in T.serial(tiles):
                    T.barrier_wait(empty[k % stages], k // stages % 2 ^ 1)
                    T.copy(A[0, k * 32], a[k % stages, 0:64, 0:32])
                    T.copy(B[k * 32, 0], b[k % stages, 0:32, 0:64])
                    if by_hardware:
                        T.cp_async_barrier_noinc(full[k % stages])
                    else:
                        T.barrier_arrive(full[k % stages])
            with T.ws(0):
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(c)
                for k in T.serial(tiles):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    T.gemm(a[k % stages, 0:64, 0:32], b[k % stages, 0:32, 0:64], c)
                    T.barrier_arrive(empty[k % stages])
                T.copy(c, C)

    return main


@pytest.mark.parametrize(
    ("func", "arch"),
    [
        (halves, "sm_75"),
        (halves, "sm_80"),
        (warp_specialized(4, 2), "sm_80"),
        (warp_specialized(3, 2, by_hardware=False), "sm_80"),
        (warp_specialized(2, 2), "sm_90a"),
    ],
)
def test_groups_multiply(func, arch):
    a, b, c = (np.random.randint(-3, 4, p.buffer.static_shape).astype(str(p.buffer.dtype)) for p in func.params)
    for after in outcomes(func, a, b, c, arch=arch):
        assert not isinstance(after, Exception), str(after)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(expected.astype(c.dtype), after[2])


def notes(func, arch="sm_80"):
    (launch,) = [s for s in walk(lower_func(func, arch).body) if isinstance(s, Launch)]
    return [note.text for note in launch.plan.notes]


def test_sums_of_a_group_are_spread_over_its_threads():
    lines = notes(halves)
    for name in ("upper", "lower"):
        (line,) = [line for line in lines if line.startswith(f"{name}: ")]
        assert line.startswith(f"{name}: 128 threads hold 16 values each; fixed by T.gemm accumulates in it")


@T.prim_func
def in_turns(
    A: T.Tensor((3, 64, 32), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((3, 64, 16), "float32")
):
    """Two groups go over the matrices of one batch, each by an index and a counter in the same variables."""
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        left = T.alloc_shared((64, 32), "float16")
        other = T.alloc_shared((64, 32), "float16")
        right = T.alloc_shared((32, 16), "float16")
        upper = T.alloc_fragment((64, 16), "float32")
        lower = T.alloc_fragment((64, 16), "float32")
        which = T.alloc_local((1,), "int32")
        done = T.alloc_var("int32", init=0)
        T.copy(B, right)
        if tx < 128:
            for w in T.serial(2):
                flat = 2 * w
                which[0] = flat
                if flat < 3:
                    T.copy(A[which[0], 0:64, 0:32], left)
                    T.gemm(left, right, upper, clear_accum=True)
                    T.copy(upper, C[which[0], 0:64, 0:16])
                    done = done + 1
        else:
            for w in T.serial(2):
                flat = 2 * w + 1
                which[0] = flat
                if flat < 3 and done < 2:
                    T.copy(A[which[0], 0:64, 0:32], other)
                    T.gemm(other, right, lower, clear_accum=True)
                    T.copy(lower, C[which[0], 0:64, 0:16])
                    done = done + 1


def test_groups_count_in_the_same_variables():
    a = np.random.randint(-4, 5, (3, 64, 32)).astype(np.float16)
    b = np.random.randint(-4, 5, (32, 16)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for after in outcomes(in_turns, a, b, np.zeros((3, 64, 16), np.float32), arch="sm_90a"):
        assert not isinstance(after, Exception), str(after)
        np.testing.assert_array_equal(expected, after[2])
    assert "tl_bar_sync" in emit(lower_func(in_turns, "sm_90a")).text


def test_tiles_where_only_some_threads_of_a_group_come_are_refused():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            with T.ws(0):
                if T.get_lane_idx() < 5:
                    T.fill(A, 0)

    with pytest.raises(NoLowering, match="needs all threads of the block or of a group"):
        lower_func(main)


@needs_cuda_compiler
@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("func", [ring(), halves, warp_specialized(4)], ids=["ring", "halves", "specialized"])
def test_the_text_compiles(func, arch):
    assert compile_cuda(emit(lower_func(func, arch)).text, arch)
