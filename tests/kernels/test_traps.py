"""Known miscompilations of tile compilers, one test each."""

import ml_dtypes
import numpy as np
import pytest
from harness import run_everywhere
from tiled_gemm import tiled_gemm

import tilelang.language as T


def floats(*shape, dtype=np.float32):
    return np.random.uniform(-1, 1, shape).astype(dtype)


def integers(*shape):
    return np.random.randint(-50, 50, shape).astype(np.int32)


def gemm(M, N, K, block_M, block_N, block_K, dtype, accum, **options):
    tile = (block_M, block_N, block_K)
    return tiled_gemm((M, N, K), tile, dtype=dtype, accum=accum, out=accum, **options)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("K", [1, 31, 32, 33, 95])
def test_a_k_tail_that_the_block_does_not_divide(K):
    a, b = floats(18, K), floats(K, 17)
    c = run_everywhere(gemm(18, 17, K, 16, 16, 32, "float32", "float32"), a, b, np.zeros((18, 17), np.float32), atol=1e-5)[2]
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transposed_operands_of_sizes_that_tiles_do_not_divide(trans_a, trans_b):
    M, N, K = 37, 29, 19
    a = integers(K, M) if trans_a else integers(M, K)
    b = integers(N, K) if trans_b else integers(K, N)
    func = gemm(M, N, K, 16, 24, 8, "int8", "int32", trans_a=trans_a, trans_b=trans_b)
    c = run_everywhere(func, a.astype(np.int8), b.astype(np.int8), np.zeros((M, N), np.int32))[2]
    np.testing.assert_array_equal((a.T if trans_a else a) @ (b.T if trans_b else b), c)


@pytest.mark.parametrize("M", [1, 2, 5])
def test_gemm_with_few_rows(M):
    a, b = floats(M, 64), floats(64, 33)
    c = run_everywhere(gemm(M, 33, 64, M, 33, 64, "float32", "float32"), a, b, np.zeros((M, 33), np.float32))[2]
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_reductions_of_odd_extents_over_each_axis(dim):
    folds = {
        T.reduce_sum: lambda a: a.sum(dim),
        T.reduce_max: lambda a: a.max(dim),
        T.reduce_min: lambda a: a.min(dim),
        T.reduce_abssum: lambda a: abs(a).sum(dim),
        T.reduce_absmax: lambda a: abs(a).max(dim),
    }
    shape = (3, 7, 13)
    result = tuple(e for d, e in enumerate(shape) if d != dim % 3)

    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor((len(folds), *result), "float32")):
        with T.Kernel(1) as bx:
            s = T.alloc_fragment(shape, "float32")
            d = T.alloc_fragment(result, "float32")
            T.copy(A, s)
            for number, reduce in enumerate(tuple(folds)):
                reduce(s, d, dim=dim)
                T.copy(d, B[number, ...])

    a = floats(*shape)
    b = run_everywhere(main, a, np.zeros((len(folds), *result), np.float32))[1]
    np.testing.assert_allclose(b, [fold(a) for fold in folds.values()], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_cumsum_on_each_axis_and_reversed(dim, reverse):
    @T.prim_func
    def main(A: T.Tensor((5, 9), "int32"), B: T.Tensor((5, 9), "int32")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((5, 9), "int32")
            T.copy(A, s)
            T.cumsum(s, s, dim=dim, reverse=reverse)
            T.copy(s, B)

    a = integers(5, 9)
    b = run_everywhere(main, a, np.zeros_like(a))[1]
    expected = np.flip(np.cumsum(np.flip(a, dim), dim), dim) if reverse else np.cumsum(a, dim)
    np.testing.assert_array_equal(expected, b)


def test_nan_passes_through_max_min_clamp_and_reductions():
    @T.prim_func
    def main(A: T.Tensor((33,), "float32"), B: T.Tensor((4, 33), "float32"), C: T.Tensor((2,), "float32")):
        with T.Kernel(1) as bx:
            s = T.alloc_fragment((33,), "float32")
            high = T.alloc_fragment((1,), "float32")
            low = T.alloc_fragment((1,), "float32")
            T.copy(A, s)
            for i in T.Parallel(33):
                B[0, i] = T.max(s[i], 0.25)
                B[1, i] = T.min(0.25, s[i])
                B[2, i] = T.clamp(s[i], -0.5, 0.5)
                B[3, i] = T.max(0.25, s[i])
            T.reduce_max(s, high)
            T.fill(low, 9.0)
            for i in T.Parallel(33):
                low[0] = T.min(low[0], s[i])
            C[0] = high[0]
            C[1] = low[0]

    for place in (0, 17, 32):
        a = floats(33)
        a[place] = np.nan
        _, b, c = run_everywhere(main, a, np.zeros((4, 33), np.float32), np.zeros(2, np.float32))
        assert np.isnan(b[:, place]).all()
        assert np.isnan(c).all()
        assert 4 == np.isnan(b).sum()


def test_index_products_beyond_32_bits():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(8) as bx:
            far = bx * 1000000007 * 5
            if far % 8 == bx * 1000000007 * 5 - far // 8 * 8:
                A[far // 5000000035] = far // 1000000007

    (a,) = run_everywhere(main, np.zeros(8, np.int32))
    assert [5 * i for i in range(8)] == a.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_transcendental_functions_on_16_bit_floats(dtype):
    functions = (T.exp, T.exp2, T.log, T.tanh, T.sqrt, T.rsqrt, T.sigmoid, T.erf, T.sin, T.cos)

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((len(functions), 64), dtype)):
        with T.Kernel(1) as bx:
            for number, function in enumerate(functions):
                for i in T.Parallel(64):
                    B[number, i] = function(A[i])

    a = np.random.uniform(0.1, 3, 64).astype(dtype if dtype == "float16" else ml_dtypes.bfloat16)
    run_everywhere(main, a, np.zeros((len(functions), 64), a.dtype), rtol=2**-7 if dtype == "bfloat16" else 2**-10)


def test_copies_between_fragments_and_dtypes():
    @T.prim_func
    def main(A: T.Tensor((17, 9), "float32"), B: T.Tensor((17, 9), "float16"), C: T.Tensor((9,), "float32")):
        with T.Kernel(1) as bx:
            f = T.alloc_fragment((17, 9), "float32")
            g = T.alloc_fragment((17, 9), "float16")
            h = T.alloc_fragment((9,), "float32")
            T.copy(A, f)
            T.copy(f, g)
            T.copy(g, B)
            T.copy(g[3, 0], h)
            T.copy(h, C)

    a = floats(17, 9)
    _, b, c = run_everywhere(main, a, np.zeros((17, 9), np.float16), np.zeros(9, np.float32))
    np.testing.assert_array_equal(a.astype(np.float16), b)
    np.testing.assert_array_equal(a[3].astype(np.float16).astype(np.float32), c)


def test_fill_does_not_reach_beyond_its_region():
    @T.prim_func
    def main(A: T.Tensor((6, 8), "int32")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((6, 8), "int32")
            T.copy(A, s)
            T.fill(s[1:3, 2:5], 7)
            T.clear(s[5, :])
            T.copy(s, A)

    a = integers(6, 8)
    (b,) = run_everywhere(main, a)
    expected = a.copy()
    expected[1:3, 2:5] = 7
    expected[5] = 0
    np.testing.assert_array_equal(expected, b)


def test_safe_values_are_honoured_by_copies_and_loads():
    @T.prim_func
    def main(A: T.Tensor((10,), "float32"), B: T.Tensor((2, 16), "float32")):
        with T.Kernel(1) as bx:
            T.annotate_safe_value({A: -1.0})
            s = T.alloc_shared((16,), "float32")
            T.copy(A[4], s)
            T.copy(s, B[0, 0])
            for i in T.Parallel(16):
                B[1, i] = A[i - 3]

    a = floats(10)
    _, b = run_everywhere(main, a, np.zeros((2, 16), np.float32))
    np.testing.assert_array_equal(np.concatenate([a[4:], np.full(10, -1, np.float32)]), b[0])
    np.testing.assert_array_equal(np.concatenate([np.full(3, -1, np.float32), a, np.full(3, -1, np.float32)]), b[1])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_empty_and_single_element_dimensions(n):
    @T.prim_func
    def main(A: T.Tensor((n, 1, 3), "int32"), B: T.Tensor((1,), "int32"), C: T.Tensor((n, 3), "int32")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((n, 1, 3), "int32")
            total = T.alloc_fragment((1, 3), "int32")
            T.copy(A, s)
            T.reduce_sum(s, total, dim=0)
            acc = T.int32(0)
            for j in T.Parallel(3):
                acc += total[0, j]
            B[0] = acc
            for i, j in T.Parallel(n, 3):
                C[i, j] = s[i, 0, j] + 1

    a = integers(n, 1, 3)
    _, b, c = run_everywhere(main, a, np.zeros(1, np.int32), np.zeros((n, 3), np.int32))
    assert a.sum() == b[0]
    np.testing.assert_array_equal(a[:, 0] + 1, c)


def test_an_index_with_a_remainder():
    @T.prim_func
    def main(A: T.Tensor((13,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(40):
                B[i] = A[(i * 5 + 3) % 13] + A[(i - 20) % 13] * 100 + (i - 20) // 7

    a = integers(13)
    _, b = run_everywhere(main, a, np.zeros(40, np.int32))
    i = np.arange(40)
    np.testing.assert_array_equal(a[(i * 5 + 3) % 13] + a[(i - 20) % 13] * 100 + (i - 20) // 7, b)


@pytest.mark.parametrize("threads", [1, 33, 96, 128])
def test_thread_counts_never_change_results(threads):
    @T.prim_func
    def main(A: T.Tensor((100,), "int32"), B: T.Tensor((100,), "int32")):
        with T.Kernel(2, threads=threads) as bx:
            s = T.alloc_shared((50,), "int32")
            T.copy(A[bx * 50], s)
            for i in T.Parallel(50):
                B[bx * 50 + i] = s[49 - i]

    a = integers(100)
    _, b = run_everywhere(main, a, np.zeros(100, np.int32))
    np.testing.assert_array_equal(a.reshape(2, 50)[:, ::-1].ravel(), b)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("tiles", [(1, 1), (5, 3), (8, 7), (17, 2)])
@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_persistent_blocks_visit_every_tile_once(tiles, blocks):
    rows, columns = tiles

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "int32")):
        with T.Kernel(blocks) as bx:
            for i, j in T.Persistent([rows, columns], blocks, bx, group_size=4):
                A[i, j] += i * 100 + j + 1

    (a,) = run_everywhere(main, np.zeros(tiles, np.int32))
    np.testing.assert_array_equal(np.arange(rows)[:, None] * 100 + np.arange(columns) + 1, a)


def test_views_and_reshapes_share_storage():
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((24,), "int32"), C: T.Tensor((3, 8), "float32")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((4, 6), "float32")
            T.copy(A, s)
            bits = T.view(s, (24,), "int32")
            other = T.reshape(s, (3, 8))
            T.copy(bits, B)
            for i in T.Parallel(24):
                bits[i] = bits[i] ^ -2147483648
            T.copy(other, C)

    a = floats(4, 6)
    _, b, c = run_everywhere(main, a, np.zeros(24, np.int32), np.zeros((3, 8), np.float32))
    np.testing.assert_array_equal(a.view(np.int32).ravel(), b)
    np.testing.assert_array_equal(-a.reshape(3, 8), c)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "bfloat16", "float64"])
def test_tile_atomics_from_many_blocks(dtype):
    @T.prim_func
    def main(A: T.Tensor((6, 8), dtype), B: T.Tensor((8,), dtype), C: T.Tensor((8,), dtype)):
        with T.Kernel(6) as bx:
            s = T.alloc_shared((8,), dtype)
            T.copy(A[bx, 0], s)
            T.atomic_add(B, s)
            for i in T.Parallel(8):
                T.atomic_max(C[i], s[i])

    a = np.random.randint(-8, 8, (6, 8)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    zero = np.zeros(8, a.dtype)
    _, b, c = run_everywhere(main, a, zero, zero)
    np.testing.assert_array_equal(a.astype(np.float64).sum(0), b.astype(np.float64))
    np.testing.assert_array_equal(np.maximum(a.astype(np.float64).max(0), 0), c.astype(np.float64))


def test_integer_division_by_zero_gives_zero():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(4):
                C[i] = A[i] // B[i] * 10 + A[i] % B[i]

    a, b = np.array([7, -7, 7, 5], np.int32), np.array([2, 2, -2, 0], np.int32)
    c = run_everywhere(main, a, b, np.zeros(4, np.int32))[2]
    assert [31, -39, -41, 0] == c.tolist()
