"""Known miscompilations and deadlocks of GPU tile compilers, one test each."""

import ml_dtypes
import numpy as np
import pytest
from gpu import assert_simulates, lower_func

import tilelang.language as T
from tilelang.sim.run import simulate
from tilelang.targets.target import Target

ARCHS = ("sm_75", "sm_80", "sm_90a")


def floats(*shape, dtype=np.float32):
    return np.random.randint(-4, 5, shape).astype(dtype)


def integers(*shape):
    return np.random.randint(-50, 50, shape).astype(np.int32)


@pytest.mark.slow(every=8)
@pytest.mark.filterwarnings("ignore:fragment .* needs .* registers of each of 1 threads:tilelang.errors.ProgramWarning")
@pytest.mark.parametrize("threads", [1, 33, 40, 160])
def test_folds_and_barriers_in_blocks_with_part_of_a_warp(threads):
    @T.prim_func
    def main(
        A: T.Tensor((13, 50), "int32"),
        B: T.Tensor((13,), "int32"),
        C: T.Tensor((50,), "int32"),
        D: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared((13, 50), "int32")
            f = T.alloc_fragment((13, 50), "int32")
            rows = T.alloc_fragment((13,), "int32")
            columns = T.alloc_fragment((50,), "int32")
            T.copy(A, s)
            for i, j in T.Parallel(13, 50):
                f[i, j] = s[12 - i, 49 - j]
            T.reduce_max(f, rows, dim=1)
            T.reduce_sum(f, columns, dim=0)
            total = T.int32(0)
            for i, j in T.Parallel(13, 50):
                total += f[i, j] * rows[i]
            T.copy(rows, B)
            T.copy(columns, C)
            D[0] = total

    a = integers(13, 50)
    _, b, c, d = assert_simulates(main, a, *(np.zeros(n, np.int32) for n in (13, 50, 1)))
    f = a[::-1, ::-1]
    np.testing.assert_array_equal(f.max(1), b)
    np.testing.assert_array_equal(f.sum(0), c)
    assert (f * f.max(1)[:, None]).sum() == d[0]


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", [(50, 41, 33), (16, 24, 1), (1, 40, 31)])
def test_products_on_tensor_cores_of_sizes_that_nothing_divides(shape, arch):
    M, N, K = shape

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 40), T.ceildiv(M, 32), threads=64) as (bx, by):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 40), "float16")
            c = T.alloc_fragment((32, 40), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 40], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 40])

    a, b = floats(M, K, dtype=np.float16), floats(K, N, dtype=np.float16)
    c = assert_simulates(main, a, b, np.zeros((M, N), np.float32), arch=arch, seeds=(0,))[2]
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("columns", [1, 7, 8, 30])
def test_atomics_on_neighbors_whatever_their_number_and_alignment(dtype, columns):
    @T.prim_func
    def main(
        A: T.Tensor((5, 4, columns), dtype), B: T.Tensor((4, columns + 1), dtype), C: T.Tensor((4, columns), dtype)
    ):
        with T.Kernel(5, threads=64) as bx:
            s = T.alloc_shared((4, columns), dtype)
            f = T.alloc_fragment((4, columns), dtype)
            T.copy(A[bx, 0, 0], s)
            T.copy(A[bx, 0, 0], f)
            T.atomic_add(B[0:4, 1 : columns + 1], s)
            T.atomic_add(C, f)

    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a = floats(5, 4, columns, dtype=numpy_dtype)
    start = [np.zeros((4, n), numpy_dtype) for n in (columns + 1, columns)]
    _, b, c = assert_simulates(main, a, *start)
    expected = a.astype(np.float64).sum(0)
    np.testing.assert_array_equal(expected, c.astype(np.float64))
    np.testing.assert_array_equal(expected, b[:, 1:].astype(np.float64))
    assert not b[:, 0].any()


def test_atomics_on_two_and_four_neighbors():
    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((2,), "float16")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                T.atomic_addx4(B[0], A[bx * 32 + i, 0])
            s = T.alloc_shared((2,), "float16")
            T.fill(s, 3)
            T.atomic_addx2(C[0], s[0])

    a = floats(64, 4)
    _, b, c = assert_simulates(main, a, np.zeros(4, np.float32), np.zeros(2, np.float16))
    np.testing.assert_array_equal(a.sum(0), b)
    assert [6, 6] == c.tolist()


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
@pytest.mark.parametrize("gap", [0, 1, 4, 8])
def test_rows_that_begin_anywhere_are_not_read_as_vectors(dtype, gap):
    @T.prim_func
    def main(
        A: T.StridedTensor((16, 32), (32 + gap, 1), dtype),
        B: T.Tensor((16, 32), dtype),
        C: T.StridedTensor((16, 32), (32 + gap, 1), dtype),
    ):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), dtype)
            f = T.alloc_fragment((16, 32), dtype)
            T.copy(A, s)
            T.copy(s, f)
            T.copy(f, B)
            T.copy(s, C)

    wide = floats(16, 32 + gap, dtype=dtype)
    lowered = lower_func(main)
    for lazy in (True, False):
        out, b = np.zeros((16, 32 + gap), dtype), np.zeros((16, 32), dtype)
        simulate(lowered, [wide[:, :32], b, out[:, :32]], target=Target("cuda", "sm_80"), lazy=lazy)
        np.testing.assert_array_equal(wide[:, :32], b)
        np.testing.assert_array_equal(wide[:, :32], out[:, :32])
        assert not out[:, 32:].any()


@pytest.mark.parametrize("offset", [0, 1, 3, 8])
def test_copies_from_any_column_on(offset):
    @T.prim_func
    def main(A: T.Tensor((8, 100), "float16"), B: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=32) as bx:
            s = T.alloc_shared((8, 64), "float16")
            T.copy(A[0, offset + bx], s)
            T.copy(s, B)

    a = floats(8, 100, dtype=np.float16)
    np.testing.assert_array_equal(
        a[:, offset : offset + 64], assert_simulates(main, a, np.zeros((8, 64), np.float16))[1]
    )


def test_fragments_in_layouts_that_disagree():
    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_fragment((64, 64), "float32")
            row = T.alloc_fragment((64,), "float32")
            column = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.reduce_sum(c, row, dim=1)
            T.reduce_sum(c, column, dim=0)
            T.copy(c, other)
            for i, j in T.Parallel(64, 64):
                c[i, j] = other[j, i] - row[j] + column[i]
            for i in T.Parallel(64):
                row[i] = row[i] + column[63 - i]
            T.copy(c, C)
            T.copy(row, D)

    a, b = floats(64, 32, dtype=np.float16), floats(32, 64, dtype=np.float16)
    _, _, c, d = assert_simulates(main, a, b, np.zeros((64, 64), np.float32), np.zeros(64, np.float32), seeds=(0,))
    product = a.astype(np.float32) @ b.astype(np.float32)
    row, column = product.sum(1), product.sum(0)
    np.testing.assert_array_equal(product.T - row[None, :] + column[:, None], c)
    np.testing.assert_array_equal(row + column[::-1], d)


def test_tile_operators_where_only_some_blocks_and_iterations_go():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), limit: T.Tensor((4,), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=96) as bx:
            s = T.alloc_shared((64,), "int32")
            total = T.alloc_fragment((64,), "int32")
            T.clear(total)
            if bx % 2 == 0:
                T.copy(A[bx, 0], s)
                T.cumsum(s)
            else:
                T.fill(s, bx)
            count = T.alloc_var("int32", init=0)
            while count < limit[bx]:
                count += 1
                if s[count] == 3:
                    continue
                if count > 5:
                    break
                for i in T.Parallel(64):
                    total[i] += s[63 - i]
                for i in T.Parallel(64):
                    s[i] = total[i] + count
            T.copy(total, B[bx, 0])

    a = integers(4, 64)
    assert_simulates(main, a, np.array([0, 2, 9, 4], np.int32), np.zeros((4, 64), np.int32))


def test_what_a_copy_left_in_global_memory_is_read_back():
    @T.prim_func
    def main(A: T.Tensor((2, 128), "float32"), B: T.Tensor((2, 128), "float32")):
        with T.Kernel(2, threads=64) as bx:
            s = T.alloc_shared((128,), "float32")
            f = T.alloc_fragment((128,), "float32")
            T.copy(A[bx, 0], s)
            T.copy(s, B[bx, 0])
            for i in T.Parallel(128):
                f[i] = B[bx, 127 - i] * 2
            T.copy(f, B[bx, 0])

    a = floats(2, 128)
    np.testing.assert_array_equal(a[:, ::-1] * 2, assert_simulates(main, a, np.zeros_like(a))[1])


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipelined_tile_that_is_written_and_used_after_the_loop(stages):
    @T.prim_func
    def main(A: T.Tensor((5, 64), "float16"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float16")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.Pipelined(5, num_stages=stages):
                T.copy(A[k, 0], s)
                for i in T.Parallel(64):
                    total[i] += s[63 - i]
                for i in T.Parallel(64):
                    s[i] = s[i] - k
            T.copy(total, B)
            T.copy(s, C)

    a = floats(5, 64, dtype=np.float16)
    _, b, c = assert_simulates(main, a, np.zeros(64, np.float32), np.zeros(64, np.float16))
    np.testing.assert_array_equal(a.astype(np.float32).sum(0)[::-1], b)
    np.testing.assert_array_equal(a[4] - 4, c)


def test_a_name_that_is_bound_again_and_loops_that_end_early():
    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((40,), "int32")
            T.copy(A, s)
            x = s[0]
            for k in T.serial(10):
                if s[k] > 30:
                    break
                x = x + s[k]
                s[k] = x
            y = x
            x = s[1]
            for i in T.Parallel(40):
                B[i] = s[i] * 3 + y - x

    assert_simulates(main, integers(40), np.zeros(40, np.int32))


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 97])
def test_a_symbolic_size_that_tiles_do_not_divide(n):
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 32), threads=64) as bx:
            s = T.alloc_shared((32, 32), "float16")
            f = T.alloc_fragment((32, 32), "float32")
            r = T.alloc_fragment((32,), "float32")
            T.clear(r)
            for k in T.Pipelined(T.ceildiv(N, 32), num_stages=2):
                T.copy(A[bx * 32, k * 32], s)
                T.copy(s, f)
                T.reduce_sum(f, r, dim=1, clear=False)
            T.copy(r, B[bx * 32])

    a = floats(n, n, dtype=np.float16)
    np.testing.assert_array_equal(
        a.astype(np.float32).sum(1), assert_simulates(main, a, np.zeros(n, np.float32), seeds=(0,))[1]
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_bytes_that_an_unread_copy_fills_are_not_used_before_it_is_there(arch):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            unread, s = T.alloc_shared((32, 32), "float32"), T.alloc_shared((32, 32), "float32")
            T.copy(A, unread)
            for i, j in T.Parallel(32, 32):
                s[i, j] = T.float32(i * 32 + j)
            for i, j in T.Parallel(32, 32):
                B[i, j] = s[j, i]

    _, b = assert_simulates(main, floats(32, 32), np.zeros((32, 32), np.float32), arch=arch, seeds=(0,))
    np.testing.assert_array_equal(np.arange(1024, dtype=np.float32).reshape(32, 32).T, b)
