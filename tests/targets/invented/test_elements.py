"""Programs element by element, reductions and scans on waves of 64 lanes."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.isa.instruction import ExecutionScope


def floats(*shape, dtype="float32"):
    return np.random.default_rng(0).standard_normal(shape).astype(T.dtype(dtype).numpy)


def ints(*shape, dtype="float32"):
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(0).integers(-8, 8, shape).astype(T.dtype(dtype).numpy)


@pytest.mark.parametrize("threads", [64, 96, 256])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vector_addition(check, threads, dtype):
    @T.prim_func
    def main(A: T.Tensor((1000,), dtype), B: T.Tensor((1000,), dtype), C: T.Tensor((1000,), dtype)):
        with T.Kernel(2, threads=threads) as bx:
            for i in T.Parallel(512):
                C[bx * 512 + i] = A[bx * 512 + i] + B[bx * 512 + i]

    outcome = check(main, ints(1000, dtype=dtype), ints(1000, dtype=dtype), ints(1000, dtype=dtype))
    assert 2 * -(-threads // 64) == outcome.counters.warps


def test_a_kernel_that_a_user_compiles():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                B[i] = A[255 - i] * 2.0

    a, b = floats(256), floats(256)
    tilelang.compile(main, target="invented")(a, b)
    np.testing.assert_array_equal(b, a[::-1] * 2)


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("threads", [64, 256])
@pytest.mark.parametrize("columns", [40, 512])
def test_softmax(check, threads, columns):
    @T.prim_func
    def main(A: T.Tensor((64, columns), "float32"), B: T.Tensor((64, columns), "float32")):
        with T.Kernel(8, threads=threads) as bx:
            rows = T.alloc_fragment((8, columns), "float32")
            top = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.copy(A[bx * 8, 0], rows)
            T.reduce_max(rows, top, dim=1)
            for i, j in T.Parallel(8, columns):
                rows[i, j] = T.exp(rows[i, j] - top[i])
            T.reduce_sum(rows, total, dim=1)
            for i, j in T.Parallel(8, columns):
                rows[i, j] = rows[i, j] / total[i]
            T.copy(rows, B[bx * 8, 0])

    check(main, floats(64, columns), floats(64, columns), rtol=1e-5, atol=1e-6)


def reduction(reduce, shape, dim, threads, dtype):
    left = shape[1 - dim]

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor((left,), dtype)):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment(shape, dtype)
            result = T.alloc_fragment((left,), dtype)
            T.copy(A, tile)
            reduce(tile, result, dim=dim)
            T.copy(result, B)

    return main


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("reduce", [T.reduce_sum, T.reduce_max, T.reduce_absmax])
@pytest.mark.parametrize(("shape", "dim"), [((4, 1024), 1), ((64, 64), 1), ((256, 32), 0), ((3, 72), 1)])
@pytest.mark.parametrize("threads", [64, 128, 512])
def test_reductions(check, reduce, shape, dim, threads):
    check(reduction(reduce, shape, dim, threads, "float32"), ints(*shape), ints(shape[1 - dim]))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float16", "int64"])
def test_reductions_of_other_dtypes(check, dtype):
    values = np.random.default_rng(0).integers(0, 9, (2, 512)).astype(dtype)
    check(reduction(T.reduce_sum, (2, 512), 1, 256, dtype), values, np.zeros(2, dtype))
    check(reduction(T.reduce_max, (2, 512), 1, 256, dtype), values, np.zeros(2, dtype))


def test_lanes_of_a_wave_combine_in_six_steps(check):
    outcome = check(reduction(T.reduce_sum, (1, 64), 1, 64, "float32"), ints(1, 64), ints(1))
    calls = [s for s in walk(outcome.func.body) if isinstance(s, CallStmt)]
    calls = [s for s in calls if s.routine.execution_scope is ExecutionScope.WARP]
    assert [1, 2, 4, 8, 16, 32] == sorted(call.args[2].value for call in calls)


@pytest.mark.parametrize("threads", [64, 256])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_place_of_the_largest(check, threads, dim):
    @T.prim_func
    def main(A: T.Tensor((32, 128), "float32"), B: T.Tensor(((128, 32)[dim],), "int32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment((32, 128), "float32")
            place = T.alloc_fragment(((128, 32)[dim],), "int32")
            T.copy(A, tile)
            T.argmax(tile, place, dim=dim)
            T.copy(place, B)

    check(main, ints(32, 128), np.zeros((128, 32)[dim], np.int32))


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("threads", [64, 128, 256])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((4, 300), 1), ((130, 4), 0), ((1, 1024), 1)])
def test_running_sums(check, threads, reverse, shape, dim):
    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared(shape, "float32")
            T.copy(A, tile)
            T.cumsum(tile, dim=dim, reverse=reverse)
            T.copy(tile, B)

    check(main, ints(*shape), ints(*shape))


def test_sums_of_a_block_in_shared_memory(check):
    """Waves hand values over by shared memory; without the barrier between them this would be a race."""

    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((256,), "float32")
            for i in T.Parallel(256):
                tile[i] = A[i]
            for i in T.Parallel(256):
                B[i] = tile[255 - i] + tile[i]

    check(main, floats(256), floats(256))
