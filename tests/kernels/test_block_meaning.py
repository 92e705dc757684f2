"""The guarantees of the block-sequential semantics, one test each, on the reference interpreter and the CPU target."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.errors import DataRace, ProgramError
from tilelang.sim.tile_interp import run_reference


def floats(*shape):
    return np.random.uniform(-1, 1, shape).astype(np.float32)


def test_a_serial_loop_runs_its_body_once_per_iteration_not_once_per_thread():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            S = T.alloc_shared((1,), "float32")
            S[0] = 0.0
            for i in T.serial(4):
                S[0] += A[i]
            for i in range(4):
                S[0] += A[i]
            T.copy(S, B)

    a = floats(4)
    _, b = run_everywhere(main, a, np.zeros(1, np.float32))
    np.testing.assert_allclose(b[0], 2 * a.sum(), rtol=1e-5)


def test_a_maximum_written_as_a_parallel_loop_is_a_reduction():
    @T.prim_func
    def main(A: T.Tensor((1, 100), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1) as bx:
            s = T.alloc_fragment((1, 100), "float32")
            m = T.alloc_fragment((1,), "float32")
            T.copy(A, s)
            T.fill(m, -1e9)
            for j in T.Parallel(100):
                m[0] = T.max(m[0], s[0, j])
            T.copy(m, B)

    a = floats(1, 100)
    _, b = run_everywhere(main, a, np.zeros(1, np.float32))
    assert a.max() == b[0]


def test_a_scalar_sum_written_as_a_parallel_loop_is_a_reduction():
    @T.prim_func
    def main(A: T.Tensor((1000,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1) as bx:
            acc = T.float32(0)
            for j in T.Parallel(1000):
                acc += A[j]
            B[0] = acc

    a = floats(1000)
    _, b = run_everywhere(main, a, np.zeros(1, np.float32), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b[0], a.sum(dtype=np.float64), rtol=1e-3)


def test_nested_parallel_loops_with_a_scalar_accumulator_between_them():
    @T.prim_func
    def main(A: T.Tensor((7, 33), "float32"), B: T.Tensor((7,), "float32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(7):
                row_sum = T.float32(0.0)
                for j in T.Parallel(33):
                    row_sum = row_sum + A[i, j]
                B[i] = B[i] + row_sum

    a, b0 = floats(7, 33), floats(7)
    _, b = run_everywhere(main, a, b0)
    np.testing.assert_allclose(b, b0 + a.sum(1), rtol=1e-4, atol=1e-5)


def test_an_update_followed_by_its_sum_in_one_parallel_loop():
    @T.prim_func
    def main(A: T.Tensor((1, 50), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1) as bx:
            s = T.alloc_fragment((1, 50), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A, s)
            T.clear(total)
            for j in T.Parallel(50):
                s[0, j] = T.exp(s[0, j])
                total[0] = total[0] + s[0, j]
            T.copy(s, A)
            T.copy(total, B)

    a = floats(1, 50)
    new_a, b = run_everywhere(main, a, np.zeros(1, np.float32))
    np.testing.assert_allclose(new_a, np.exp(a), rtol=1e-5)
    np.testing.assert_allclose(b[0], np.exp(a).sum(), rtol=1e-4)


@pytest.mark.parametrize("alloc", ["alloc_shared", "alloc_fragment", "alloc_local"])
def test_a_read_after_a_write_sees_the_write_whatever_the_scope(alloc):
    allocate = getattr(T, alloc)

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            S = allocate((64,), "int32")
            R = allocate((64,), "int32")
            T.copy(A, S)
            for i in T.Parallel(64):
                R[i] = S[63 - i] + 1
            for i in T.Parallel(64):
                S[i] = R[63 - i] * 2
            T.copy(S, B)

    a = np.arange(64, dtype=np.int32)
    _, b = run_everywhere(main, a, np.zeros(64, np.int32))
    np.testing.assert_array_equal((a + 1) * 2, b)


def test_a_write_to_global_memory_is_seen_by_a_later_read_of_the_block():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(8):
                A[i] = i
            for i in T.serial(7):
                A[i] = A[i + 1] + A[7]

    (a,) = run_everywhere(main, np.zeros(8, np.int32))
    assert [8, 9, 10, 11, 12, 13, 14, 7] == a.tolist()


def test_a_visible_dependence_between_parallel_iterations_is_an_error():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(7):
                A[i + 1] = A[i] + 1

    import tilelang

    with pytest.raises(ProgramError) as caught:
        tilelang.compile(main, target="cpu")
    assert "A[i + 1] = A[i] + 1" in str(caught.value)


def test_blocks_that_write_one_address_are_reported_by_the_reference():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(4) as bx:
            A[0] = bx

    with pytest.raises(DataRace):
        run_reference(main, [np.zeros(1, np.int32)])


def test_atomics_may_meet_at_one_address():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(64) as bx:
            T.atomic_add(A[0], bx)

    (a,) = run_everywhere(main, np.zeros(1, np.int32))
    assert [64 * 63 // 2] == a.tolist()


def test_kernels_of_one_function_run_in_order():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((1,), "int32")):
        partial = T.alloc_global((4,), "int32")
        with T.Kernel(4) as bx:
            total = T.int32(0)
            for i in T.serial(16):
                total += A[bx * 16 + i]
            partial[bx] = total
        with T.Kernel(1) as bx:
            total = T.int32(0)
            for i in T.serial(4):
                total += partial[i]
            B[0] = total

    a = np.random.randint(-9, 9, 64).astype(np.int32)
    _, b = run_everywhere(main, a, np.zeros(1, np.int32))
    assert a.sum() == b[0]


@pytest.mark.slow(every=6)
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_pipelining_never_changes_results(stages, trips):
    @T.prim_func
    def main(A: T.Tensor((trips, 8), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1) as bx:
            S = T.alloc_shared((8,), "int32")
            acc = T.alloc_fragment((8,), "int32")
            T.clear(acc)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[k, 0], S)
                for i in T.Parallel(8):
                    acc[i] = acc[i] * 3 + S[i]
                    S[i] = -1  # write after read in a pipelined buffer
            T.copy(acc, B)

    a = np.random.randint(-9, 9, (trips, 8)).astype(np.int32)
    _, b = run_everywhere(main, a, np.zeros(8, np.int32))
    expected = np.zeros(8, np.int32)
    for row in a:
        expected = expected * 3 + row
    np.testing.assert_array_equal(expected, b)


@pytest.mark.filterwarnings("ignore:T.Parallel. the iterations run serially:tilelang.errors.ProgramWarning")
@pytest.mark.parametrize("seed", range(3))
def test_the_first_of_equal_elements_wins_whatever_lies_contiguous(seed):
    """A loop that must run in order keeps its order, though memory would be read faster the other way."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            best = T.alloc_var("float32", init=-1.0)
            where = T.alloc_var("int32", init=-1)
            for j, i in T.Parallel(16, 8):
                if A[i, j] > best:
                    best = A[i, j]
                    where = j * 8 + i
            B[0] = best
            B[1] = T.float32(where)

    values = np.random.default_rng(seed).integers(0, 5, (8, 16)).astype(np.float32)
    run_everywhere(kernel, values, np.zeros(2, np.float32))
